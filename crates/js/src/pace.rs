//! When a running script asks whether to continue.
//!
//! The engine asks by itself at every 10,000th call and jump backwards, however long each takes. What takes long
//! without either counts as work, and after [`WORK_MAX`] of it the script asks, too:
//!
//! - memory: every byte that is allocated, so the big numbers, texts and lists that a script makes;
//! - built-in functions that go over something long and allocate nothing (`bounds.js`): its length.
//!
//! Once the script shall end, these functions throw and large pieces of memory are refused, so that the engine's own
//! question, which no script can catch, comes soon. Left are operators on long texts (`===`, `<`, unary `+`), which
//! call nothing and allocate nothing: ten thousand of them take seconds (`===`) or minutes (unary `+` of blanks) with
//! texts as long as a document may have, longer with 64 MB, the longest piece there is. Decision 028 has the figures;
//! nothing public of the library shortens this.

use std::cell::Cell;

use nagi_error::Error;

use crate::Interrupt;

/// Bytes or elements between two questions: tens of microseconds.
const WORK_MAX: usize = 256 << 10;
/// What a script that shall end may still allocate in one piece: the engine needs a little to end it in order.
const PIECE_MAX: usize = 4 << 10;

/// The pace of one engine.
pub(crate) struct Pace {
    interrupt: Interrupt,
    /// A call of a client's function is being made: the engine's own work is never refused.
    runs: Cell<bool>,
    work: Cell<usize>,
    ended: Cell<bool>,
    /// Why the running call ends, when that is not the script's doing.
    stop: Cell<Option<Error>>,
}

impl Pace {
    pub(crate) fn new(interrupt: Interrupt) -> Pace {
        let (runs, ended) = (Cell::new(false), Cell::new(false));
        Pace { interrupt, runs, work: Cell::new(0), ended, stop: Cell::new(None) }
    }

    /// A call begins.
    pub(crate) fn begin(&self) {
        self.runs.set(true);
        self.ended.set(false);
    }

    /// The call is over. The error that ends it if it was killed, even if the script has caught what that threw.
    pub(crate) fn end(&self) -> Option<Error> {
        self.runs.set(false);
        self.stop.take().filter(|_| (self.interrupt)().is_err())
    }

    /// Why the call ends.
    pub(crate) fn stop(&self, why: Error) {
        self.stop.set(Some(why));
    }

    /// Takes the reason.
    pub(crate) fn stopped(&self) -> Option<Error> {
        self.stop.take()
    }

    /// Whether the call shall continue; if not, `stop` says why.
    pub(crate) fn go_on(&self) -> bool {
        match (self.interrupt)() {
            Ok(()) => true,
            Err(error) => {
                self.ended.set(true);
                self.stop(error);
                false
            }
        }
    }

    /// Whether a piece of memory may be had as far as time is concerned.
    pub(crate) fn may_allocate(&self, bytes: usize) -> bool {
        if !self.runs.get() {
            return true;
        }
        let work = self.work.get().saturating_add(bytes);
        self.work.set(if work < WORK_MAX { work } else { 0 });
        let goes_on = !self.ended.get() && (work < WORK_MAX || self.go_on());
        goes_on || bytes < PIECE_MAX
    }
}
