//! Interrupt checks of a running script.
//!
//! The engine itself runs an interrupt check at every 10,000th call or backward jump, however long each takes.
//! Operations that take long without calls and jumps count as work, and after [`WORK_MAX`] of it there is an additional
//! check:
//!
//! - memory: every allocated byte, and therefore the large numbers, strings and lists that a script makes;
//! - built-in functions that process long values without allocating (`bounds.js`): the length of the value.
//!
//! Once a script must stop, these functions throw and large allocations are refused. The engine's own check, which no
//! script can catch, then comes soon.
//!
//! A gap remains: operators on long strings (`===`, `<`, unary `+`) neither call nor allocate. With strings as long as
//! a document, ten thousand of them take seconds (`===`) or minutes (unary `+` of blanks), and longer with strings of
//! 64 MB, the largest single allocation. The library's public interface offers no remedy; decision 028 has the figures.

use std::cell::Cell;

use nagi_error::Error;

use crate::Interrupt;

/// Bytes or elements between two interrupt checks: tens of microseconds.
const WORK_MAX: usize = 256 << 10;
/// The largest allocation of a script that must stop: the engine needs a little memory to unwind.
const PIECE_MAX: usize = 4 << 10;

/// The interrupt checks of one engine.
pub(crate) struct Pace {
    interrupt: Interrupt,
    /// A client's function is running. Outside of it, the engine's own allocations are never refused.
    runs: Cell<bool>,
    work: Cell<usize>,
    ended: Cell<bool>,
    /// The reason why the running call stops, if it is not an exception of the script.
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

    /// A call is over. Returns the error if the call was killed, even if the script has caught the resulting exception.
    pub(crate) fn end(&self) -> Option<Error> {
        self.runs.set(false);
        self.stop.take().filter(|_| (self.interrupt)().is_err())
    }

    /// Sets the reason why the call stops.
    pub(crate) fn stop(&self, why: Error) {
        self.stop.set(Some(why));
    }

    /// Takes the reason.
    pub(crate) fn stopped(&self) -> Option<Error> {
        self.stop.take()
    }

    /// Runs the interrupt check. Returns false if the call must stop; `stop` is then set.
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

    /// Returns false if an allocation must be refused because the script must stop.
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
