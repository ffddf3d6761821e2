//! The records that one thread reads of a read-ahead.

use std::ops::Range;

use nagi_bson::Doc;
use nagi_error::{Code, Result};
use nagi_store::{Collection, NearRecords, Reader, RecordBuf, RecordId};

use crate::source::Interrupt;

/// Records in the order of their ids, and their bytes one after another.
#[derive(Default)]
pub(super) struct Part {
    /// One for each record; shorter than the ids if the memory did not suffice.
    held: Vec<Held>,
    pub(super) bytes: Vec<u8>,
    pub(super) buf: RecordBuf,
    near: NearRecords,
}

#[derive(Clone)]
pub(super) enum Held {
    /// Not read, because it exceeded the memory.
    Unread,
    /// It does not exist any more.
    Gone,
    At(Range<usize>),
}

impl Part {
    /// Reads the records of the ascending `ids` in place of those before. It ends early once it holds `bytes_max`, so
    /// it keeps one record more at most.
    ///
    /// # Errors
    /// Those of the engine, and of the interrupt check before each call of it.
    pub(super) fn read(
        &mut self,
        (reader, collection): (Reader<'_>, &Collection),
        ids: &[RecordId],
        bytes_max: usize,
        interrupt: &dyn Interrupt,
    ) -> Result<()> {
        self.clear();
        for part in ids.chunks(reader.records_at_once()) {
            // Each of them may have to be read from disk.
            interrupt.check()?;
            let (held, bytes) = (&mut self.held, &mut self.bytes);
            let visit = &mut |_: usize, doc: Option<Doc<'_>>| {
                held.push(match doc {
                    None => Held::Gone,
                    Some(_) if bytes.len() > bytes_max => Held::Unread,
                    Some(doc) => {
                        let start = bytes.len();
                        if bytes.capacity() - start < doc.len() {
                            // The others are taken to be as long, so that the buffer grows once.
                            let rest = (ids.len() - held.len()) * doc.len();
                            bytes.reserve(rest.min(bytes_max).max(doc.len()));
                        }
                        bytes.extend_from_slice(doc.as_bytes());
                        Held::At(start..bytes.len())
                    }
                });
            };
            match self.near.records(reader, collection, part, &mut self.buf, visit) {
                // Not for all of them at once; each is read when it is requested.
                Err(error) if error.code() == Code::EXCEEDED_MEMORY_LIMIT => {
                    interrupt.check()?;
                    break;
                }
                read => read?,
            }
            if self.bytes.len() > bytes_max {
                break;
            }
        }
        Ok(())
    }

    /// The record at this position of the ids.
    pub(super) fn held(&self, at: usize) -> Held {
        self.held.get(at).cloned().unwrap_or(Held::Unread)
    }

    /// The number of records that were looked up.
    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.bytes.clear();
    }

    /// Frees the memory and closes the cursor, because another snapshot will be read.
    pub(super) fn forget(&mut self) {
        self.clear();
        self.near.forget();
        self.bytes = Vec::new();
        self.buf = RecordBuf::default();
    }
}
