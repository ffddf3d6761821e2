//! Fail points: faults that driver tests ask for (`configureFailPoint`, test commands only).
//!
//! `failCommand` is the one that drivers use most: it makes commands fail, close their connection,
//! wait, or report a write concern error. While none is set a request pays one load for it.
//! `checkForInterruptFail` ends the operations of one thread at a look whether to continue: by its mode
//! `{skip: n}` at the n-th, which is how tests count such looks without a clock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_error::{Code, Error, Result, bail};
use parking_lot::Mutex;

use crate::interruption::interruption;
use crate::number::truncate;
use crate::request::Request;

/// Makes commands fail, wait, close their connection, or report a write concern error.
const FAIL_COMMAND: usize = 0;
/// Whatever has a time limit is over it.
const MAX_TIME_ALWAYS: usize = 1;
/// Nothing is ever over its time limit.
const MAX_TIME_NEVER: usize = 2;
/// Closes the connection at a retryable write, and perhaps keeps it from being committed.
const NUMBERED_WRITE: usize = 3;
/// Ends what a thread runs when it looks whether to continue.
const INTERRUPT: usize = 4;

/// Fails a getMore that has its cursor, which ends the cursor.
const GET_MORE: usize = 5;

/// The fail points there are.
static NAMES: [&str; 6] = [
    "failCommand",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    "onPrimaryTransactionalWrite",
    "checkForInterruptFail",
    "failGetMoreAfterCursorCheckout",
];

/// What is set.
#[derive(Default)]
pub(crate) struct FailPoints {
    active: AtomicBool,
    /// By position in [`NAMES`].
    points: [Point; NAMES.len()],
    drawn: AtomicU64,
}

#[derive(Default)]
struct Point {
    /// Times it acted since it was set, counted in the reply of the next change.
    entered: AtomicI64,
    set: Mutex<Option<Set>>,
}

struct Set {
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
        let Some(which) = NAMES.iter().position(|known| *known == name) else {
            bail!(Code::FAIL_POINT_SET_FAILED, "{name} not found");
        };
        let mode = parse_mode(mode)?;
        let point = &self.points[which];
        let before = point.entered.load(Ordering::Relaxed);
        if mode.is_some() {
            point.entered.store(0, Ordering::Relaxed);
        }
        *point.set.lock() = mode.map(|mode| Set { mode, data: data.to_buf() });
        self.note_active();
        Ok(before)
    }

    fn note_active(&self) {
        let active = self.points.iter().any(|point| point.set.lock().is_some());
        self.active.store(active, Ordering::Relaxed);
    }

    /// Whether time limits are off.
    pub(crate) fn never_times_out(&self) -> bool {
        self.active.load(Ordering::Relaxed) && self.points[MAX_TIME_NEVER].set.lock().is_some()
    }

    /// Whether an operation with a time limit is over it at once.
    pub(crate) fn always_times_out(&self) -> bool {
        self.active.load(Ordering::Relaxed) && self.take(MAX_TIME_ALWAYS, &|_| true).is_some()
    }

    /// The error of a getMore that has its cursor already.
    pub(crate) fn get_more(&self) -> Result<()> {
        if !self.active.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(data) = self.take(GET_MORE, &|_| true) else { return Ok(()) };
        let code = truncate(data.get("errorCode")).and_then(|code| i32::try_from(code).ok());
        let text = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
        Err(Error::new(Code(code.unwrap_or(0)), text))
    }

    /// Whether an operation of `thread` ("conn7") that looks whether to continue is to be ended: with the
    /// probability `chance`.
    pub(crate) fn interrupts(&self, thread: &str) -> bool {
        if !self.active.load(Ordering::Relaxed) {
            return false;
        }
        let acts = |data: Doc<'_>| {
            data.get("threadName").as_str() == Some(thread)
                && number::as_f64(data.get("chance")).is_some_and(|chance| self.draw() < chance)
        };
        self.take(INTERRUPT, &acts).is_some()
    }

    /// A number in [0, 1): the steps of the golden ratio, which is even enough for a chance.
    fn draw(&self) -> f64 {
        let step = self.drawn.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        (step >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// What happens to a retryable write about to be committed: whether its connection is closed, and
    /// the error if it shall not be committed.
    pub(crate) fn numbered_write(&self) -> Option<(bool, Result<()>)> {
        if !self.active.load(Ordering::Relaxed) {
            return None;
        }
        let data = self.take(NUMBERED_WRITE, &|_| true)?;
        let data = data.as_doc();
        let close = data.get("closeConnection");
        let code = truncate(data.get("failBeforeCommitExceptionCode")).unwrap_or(0);
        let text = "Failing write due to failpoint. The write must not be reflected.";
        let result = if code == 0 { Ok(()) } else { Err(Error::new(Code(code as i32), text)) };
        Some((close.is_missing() || close.is_truthy(), result))
    }

    /// The fault for a request, if one is due. May wait, as the fail point asks.
    pub(crate) fn fault(&self, request: &Request<'_>, app_name: &str) -> Option<Fault> {
        if !self.active.load(Ordering::Relaxed) {
            return None;
        }
        let exempt = request.command.exempt_from_fail_points;
        if request.generic.max_time_ms > 0
            && !exempt
            && self.take(MAX_TIME_ALWAYS, &|_| true).is_some()
        {
            let error = interruption(Code::MAX_TIME_MS_EXPIRED);
            return Some(Fault::Error { error, labels_given: false });
        }
        let name = request.command.name;
        let data = self.take(FAIL_COMMAND, &|data| {
            let listed = data.get("failCommands").as_array().is_some_and(|names| {
                names
                    .iter()
                    .any(|listed| listed.as_str().is_some_and(|n| n == name || n == request.name))
            });
            let same_app = data.get("appName").as_str().is_none_or(|wanted| wanted == app_name);
            listed && same_app && !exempt
        })?;
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

    /// The data, if the fail point is set and `acts` says so of it; counts its mode down.
    fn take(&self, which: usize, acts: &dyn Fn(Doc<'_>) -> bool) -> Option<DocBuf> {
        let point = &self.points[which];
        let data = {
            let mut slot = point.set.lock();
            let set = slot.as_mut()?;
            if !acts(set.data.as_doc()) {
                return None;
            }
            match &mut set.mode {
                Mode::Always | Mode::Skip(0) => {}
                Mode::Skip(left) => {
                    *left -= 1;
                    return None;
                }
                Mode::Times(left) => *left -= 1,
            }
            let data = set.data.clone();
            if matches!(set.mode, Mode::Times(..=0)) {
                *slot = None;
            }
            data
        };
        point.entered.fetch_add(1, Ordering::Relaxed);
        self.note_active();
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
