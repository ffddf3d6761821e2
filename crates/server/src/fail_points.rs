//! Fail points: injected faults for tests of drivers (`configureFailPoint`, only with test commands enabled).
//!
//! Drivers mostly use `failCommand`, which makes commands fail, close their connection, wait, or report a write concern
//! error. `checkForInterruptFail` cancels the operations of one thread at an interrupt check; with the mode `{skip: n}`
//! it does so at the check after n others, and tests can thereby count interrupt checks without a clock.
//!
//! A request costs one additional load while no fail point is set.

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
/// Operations with a time limit exceed it immediately.
const MAX_TIME_ALWAYS: usize = 1;
/// No operation exceeds its time limit.
const MAX_TIME_NEVER: usize = 2;
/// Closes the connection at a retryable write, and optionally prevents its commit.
const NUMBERED_WRITE: usize = 3;
/// Cancels the operation of a thread at its interrupt check.
const INTERRUPT: usize = 4;

/// Fails a getMore that has checked out its cursor, which closes the cursor.
const GET_MORE: usize = 5;

/// The names of the fail points.
static NAMES: [&str; 6] = [
    "failCommand",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    "onPrimaryTransactionalWrite",
    "checkForInterruptFail",
    "failGetMoreAfterCursorCheckout",
];

/// The state of all fail points.
#[derive(Default)]
pub(crate) struct FailPoints {
    active: AtomicBool,
    /// By position in [`NAMES`].
    points: [Point; NAMES.len()],
    drawn: AtomicU64,
}

#[derive(Default)]
struct Point {
    /// The number of times it took effect since it was set; the reply to the next change reports it.
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

/// The fault to inject into a request.
pub(crate) enum Fault {
    CloseConnection,
    /// With `labels_given`, the error has only the labels that the fail point specifies.
    Error {
        error: Error,
        labels_given: bool,
    },
    /// The command runs; the reply gets this `writeConcernError`.
    WriteConcern(DocBuf),
}

impl FailPoints {
    /// Runs `configureFailPoint` and returns how many times the fail point took effect before.
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

    /// Returns true if time limits are off.
    pub(crate) fn never_times_out(&self) -> bool {
        self.active.load(Ordering::Relaxed) && self.points[MAX_TIME_NEVER].set.lock().is_some()
    }

    /// Returns true if an operation with a time limit must exceed it immediately.
    pub(crate) fn always_times_out(&self) -> bool {
        self.active.load(Ordering::Relaxed) && self.take(MAX_TIME_ALWAYS, &|_| true).is_some()
    }

    /// The error of a getMore that has checked out its cursor.
    pub(crate) fn get_more(&self) -> Result<()> {
        if !self.active.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(data) = self.take(GET_MORE, &|_| true) else { return Ok(()) };
        let code = truncate(data.get("errorCode")).and_then(|code| i32::try_from(code).ok());
        let text = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
        Err(Error::new(Code(code.unwrap_or(0)), text))
    }

    /// Returns true if the operation of `thread` ("conn7") must be cancelled at this interrupt check; with the
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

    /// A number in [0, 1): multiples of the golden ratio, which are spread evenly enough for a probability.
    fn draw(&self) -> f64 {
        let step = self.drawn.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        (step >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The fault of a retryable write before its commit: true if its connection must be closed, and the error if it
    /// must not be committed.
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

    /// Returns the fault for a request, if there is one. Sleeps first if the fail point specifies it.
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

    /// Returns the data if the fail point is set and `acts` accepts it, and counts down its mode.
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

/// Adds the labels that the fail point specifies. Unknown labels are ignored.
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
