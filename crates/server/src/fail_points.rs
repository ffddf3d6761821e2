//! Fail points: faults that driver tests ask for (`configureFailPoint`, test commands only).
//!
//! `failCommand` is the one that drivers use: it makes commands fail, close their connection, wait,
//! or report a write concern error. While none is set a request pays one load for it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Error, Result, bail};
use parking_lot::Mutex;

use crate::args::truncate;
use crate::request::Request;

/// The only fail point there is.
const FAIL_COMMAND: &str = "failCommand";

/// Commands that fail points leave alone, or nobody could switch one off.
const EXEMPT: &[&str] = &["configureFailPoint"];

/// What is set.
#[derive(Default)]
pub(crate) struct FailPoints {
    active: AtomicBool,
    /// Times it acted since it was set, counted in the reply of the next change.
    entered: AtomicI64,
    fail_command: Mutex<Option<FailCommand>>,
}

struct FailCommand {
    mode: Mode,
    data: DocBuf,
}

#[derive(Clone, Copy)]
enum Mode {
    Always,
    Times(i64),
    Skip(i64),
}

/// What happens to a request.
pub(crate) enum Fault {
    CloseConnection,
    /// `labels_given`: with the labels that the fail point names and no others.
    Error {
        error: Error,
        labels_given: bool,
    },
    /// The command runs; the reply gets this as `writeConcernError`.
    WriteConcern(DocBuf),
}

impl FailPoints {
    /// `configureFailPoint`: how often the fail point acted before this change.
    pub(crate) fn set(&self, name: &str, mode: Value<'_>, data: Doc<'_>) -> Result<i64> {
        if name != FAIL_COMMAND {
            bail!(Code::FAIL_POINT_SET_FAILED, "{name} not found");
        }
        let mode = parse_mode(mode)?;
        let before = self.entered.load(Ordering::Relaxed);
        let mut fail_command = self.fail_command.lock();
        *fail_command = mode.map(|mode| FailCommand { mode, data: data.to_buf() });
        self.active.store(fail_command.is_some(), Ordering::Relaxed);
        if fail_command.is_some() {
            self.entered.store(0, Ordering::Relaxed);
        }
        Ok(before)
    }

    /// The fault for a request, if one is due. May wait, as the fail point asks.
    pub(crate) fn fault(&self, request: &Request<'_>, app_name: &str) -> Option<Fault> {
        if !self.active.load(Ordering::Relaxed) {
            return None;
        }
        let data = self.take(request, app_name)?;
        self.entered.fetch_add(1, Ordering::Relaxed);
        let data = data.as_doc();
        if data.get("blockConnection").is_truthy() {
            let ms = truncate(data.get("blockTimeMS")).unwrap_or(0).clamp(0, 60_000);
            std::thread::sleep(Duration::from_millis(ms as u64));
        }
        if data.get("closeConnection").is_truthy() {
            return Some(Fault::CloseConnection);
        }
        if let Some(code) = truncate(data.get("errorCode")).filter(|code| *code != 0) {
            let text = format!("Failing command via 'failCommand' failpoint: {}", request.name);
            let error = labelled(Error::new(Code(code as i32), text), data);
            let labels_given = !data.get("errorLabels").is_missing();
            return Some(Fault::Error { error, labels_given });
        }
        match data.get("writeConcernError") {
            Value::Doc(error) => Some(Fault::WriteConcern(error.to_buf())),
            _ => None,
        }
    }

    /// The data, if the fail point acts on this request; counts its mode down.
    fn take(&self, request: &Request<'_>, app_name: &str) -> Option<DocBuf> {
        let mut slot = self.fail_command.lock();
        let fail = slot.as_mut()?;
        let data = fail.data.as_doc();
        let name = request.command.name;
        let listed = data.get("failCommands").as_array().is_some_and(|names| {
            names
                .iter()
                .any(|listed| listed.as_str().is_some_and(|n| n == name || n == request.name))
        });
        let same_app = data.get("appName").as_str().is_none_or(|wanted| wanted == app_name);
        if !listed || !same_app || EXEMPT.contains(&name) {
            return None;
        }
        match &mut fail.mode {
            Mode::Always => {}
            Mode::Skip(0) => {}
            Mode::Skip(left) => {
                *left -= 1;
                return None;
            }
            Mode::Times(left) => *left -= 1,
        }
        let data = fail.data.clone();
        if matches!(fail.mode, Mode::Times(..=0)) {
            *slot = None;
            self.active.store(false, Ordering::Relaxed);
        }
        Some(data)
    }
}

fn parse_mode(mode: Value<'_>) -> Result<Option<Mode>> {
    match mode {
        Value::String("off") => Ok(None),
        Value::String("alwaysOn") => Ok(Some(Mode::Always)),
        Value::Doc(doc) => match (truncate(doc.get("times")), truncate(doc.get("skip"))) {
            (Some(times), _) if times > 0 => Ok(Some(Mode::Times(times))),
            (Some(_), _) => bail!(Code::BAD_VALUE, "'times' option to 'mode' must be positive"),
            (_, Some(skip)) if skip >= 0 => Ok(Some(Mode::Skip(skip))),
            _ => bail!(
                Code::BAD_VALUE,
                "'mode' must be one of 'off', 'alwaysOn', {{times: n}} and {{skip: n}}"
            ),
        },
        Value::Missing => {
            bail!(Code::BAD_VALUE, "Missing required field 'mode' of a fail point")
        }
        _ => bail!(Code::TYPE_MISMATCH, "'mode' must be a string or JSON object"),
    }
}

/// Adds the labels that the fail point names. Labels are MongoDB's own: others are left out.
fn labelled(mut error: Error, data: Doc<'_>) -> Error {
    const LABELS: &[&str] = &[
        "NoWritesPerformed",
        "ResumableChangeStreamError",
        "RetryableError",
        "RetryableWriteError",
        "SystemOverloadedError",
        "TransientTransactionError",
        "UnknownTransactionCommitResult",
    ];
    if let Value::Array(labels) = data.get("errorLabels") {
        for label in labels.iter().filter_map(|label| label.as_str()) {
            if let Some(known) = LABELS.iter().find(|known| **known == label) {
                error = error.with_label(known);
            }
        }
    }
    error
}
