//! The results of the statements of a write batch, and how they are written to the reply.

use nagi_bson::ValueBuf;

use crate::core::command::prelude::*;
use crate::limits::{
    WRITE_BATCH_COUNT_MAX, WRITE_ERROR_INFO_BYTES_MAX, WRITE_ERROR_TEXT_BYTES_MAX,
};

/// The sums and errors of a batch.
#[derive(Default)]
pub(super) struct Outcome {
    /// Documents inserted, matched or deleted.
    pub(super) count: u64,
    /// Documents modified; for updates only.
    pub(super) modified: Option<u64>,
    /// Position of the statement, and `_id` of the upserted document.
    pub(super) upserted: Vec<(usize, ValueBuf)>,
    /// Position of the statement and its error, sorted by position.
    pub(super) errors: Vec<(usize, Error)>,
    pub(super) info_bytes: usize,
}

/// Refuses empty and oversize batches (16).
pub(in crate::commands) fn check_batch(count: usize) -> Result<()> {
    if !(1..=WRITE_BATCH_COUNT_MAX).contains(&count) {
        bail!(
            Code::INVALID_LENGTH,
            "Write batch sizes must be between 1 and {WRITE_BATCH_COUNT_MAX}. Got {count} operations."
        );
    }
    Ok(())
}

impl Outcome {
    /// Adds the error of a statement. Its details beyond code and text are dropped once the details of all
    /// errors together exceed their limit.
    pub(super) fn fail(&mut self, index: usize, error: Error) {
        self.info_bytes += error.info().map_or(0, |info| info.as_bytes().len());
        let fits = self.info_bytes <= WRITE_ERROR_INFO_BYTES_MAX;
        self.errors.push((index, if fits { error } else { error.without_info() }));
    }

    /// Writes `n`, `nModified`, `upserted`, `writeErrors` and `retriedStmtIds`. An error aborts the transaction
    /// of the client, if there is one.
    pub(super) fn write(
        &self,
        cx: &mut Context<'_>,
        request: &Request<'_>,
        out: &mut DocWriter<'_>,
    ) {
        if let Some((_, error)) = self.errors.last() {
            cx.failed = true;
            cx.done.write_error = Some((error.code(), error.message().to_owned()));
        }
        if request.generic.write_concern.is_some_and(|concern| concern.is_unacknowledged()) {
            return;
        }
        out.put("n", self.count as i32);
        if !self.upserted.is_empty() {
            out.array("upserted", |list| {
                for (index, id) in &self.upserted {
                    list.doc(|doc| {
                        doc.put("index", *index as i32);
                        doc.put("_id", id.value());
                    });
                }
            });
        }
        if let Some(modified) = self.modified {
            out.put("nModified", modified as i32);
        }
        if !self.errors.is_empty() {
            let mut text_bytes = 0;
            out.array("writeErrors", |list| {
                for (index, error) in &self.errors {
                    text_bytes += error.message().len();
                    list.doc(|doc| write_error(*index, error, text_bytes, doc));
                }
            });
        }
        crate::core::txn_number::write_retried(cx, out);
    }
}

/// Writes one element of `writeErrors`. Its text is empty once all texts together exceed their limit.
fn write_error(index: usize, error: &Error, text_bytes: usize, doc: &mut DocWriter<'_>) {
    doc.put("index", index as i32);
    doc.put("code", error.code().0);
    if let Some(info) = error.info() {
        doc.extend(info.as_doc());
    }
    let shown = if text_bytes > WRITE_ERROR_TEXT_BYTES_MAX { "" } else { error.message() };
    doc.put("errmsg", shown);
}
