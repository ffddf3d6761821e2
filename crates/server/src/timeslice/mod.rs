//! Time slices: lets short operations run before long ones when there are more running threads than processors.
//!
//! Linux from 6.12 on lets each thread request the length of its time slice. A thread that wakes up with a shorter
//! slice preempts one with a longer slice immediately, within its fair share of processor time.
//!
//! | operation                                          | requested slice |
//! |----------------------------------------------------|-----------------|
//! | has used the processor for [`LONG`]                | the longest     |
//! | begins or ends while a long operation runs         | the shortest    |
//! | begins or ends while no long operation runs        | the default     |
//!
//! An operation that only waits is not long, be it for a ticket, for a disk or for its turn: with 256 connections most
//! of them wait for ten milliseconds, and a thread with the longest slice would then wait for half a second.
//!
//! Shares of processor time do not change. Long operations are switched less often, and requests and other programs
//! that wake up run first.
//!
//! Measured beside 24 computing threads on two processors: a thread that wakes for 0.3 ms a hundred times a second
//! waits 12 ms (p99) with default slices and 0.2 ms with these. Short slices cost 16 inserting clients 7 % of their
//! throughput, and are therefore only used while a long operation runs.

mod ffi;

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::clock;

/// The processor time from which on an operation counts as long. It is counted once the operation has taken as long by
/// the clock, because reading it costs a system call.
const LONG: Duration = Duration::from_millis(10);
/// Zero requests the kernel's default slice.
const DEFAULT_SLICE: Duration = Duration::ZERO;
/// The shortest and the longest slice that the kernel accepts.
const SHORT_SLICE: Duration = Duration::from_micros(100);
const LONG_SLICE: Duration = Duration::from_millis(100);

/// The number of long operations that are running.
static LONG_RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Set when the system call fails, as in a sandbox; it is then not tried again.
static REFUSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SLICE: RefCell<Slice> = const { RefCell::new(Slice {
        began: None, cpu_began: None, long: false, asked_for: DEFAULT_SLICE
    }) };
}

/// The time slice of a thread.
struct Slice {
    /// When its request began, or its processor time was read; `None` between requests, and once the request counts as
    /// long.
    began: Option<Instant>,
    /// The thread's processor time when it was first read for the request.
    cpu_began: Option<Duration>,
    /// The thread's operation is counted in [`LONG_RUNNING`].
    long: bool,
    asked_for: Duration,
}

/// Gives the calling thread the default slice, whatever it has inherited.
pub(crate) fn reset_thread() {
    // An error only leaves the slice as it is.
    let _ = ffi::set_slice(DEFAULT_SLICE.as_nanos() as u64);
}

/// The calling thread begins a request.
pub(crate) fn begin(started: Instant) {
    SLICE.with_borrow_mut(|slice| {
        slice.began = Some(started);
        slice.cpu_began = None;
        slice.between_long_ones();
    });
}

/// Called by every interrupt check, on the thread of the request. Reads the clock until the request counts as long, and
/// the thread's processor time once per [`LONG`].
pub(crate) fn look() {
    SLICE.with_borrow_mut(|slice| {
        let Some(began) = slice.began else { return };
        let now = clock::now();
        if now - began < LONG {
            return;
        }
        let cpu = ffi::cpu_time();
        if cpu.saturating_sub(*slice.cpu_began.get_or_insert(cpu)) < LONG {
            slice.began = Some(now);
            return;
        }
        slice.began = None;
        slice.set_long(true);
        slice.ask_for(LONG_SLICE);
    });
}

/// The processor time that the calling thread has used for its request since the first [`look`] after [`LONG`]; zero if
/// there was none: an operation that computes has interrupt checks within milliseconds. Costs a system call.
pub(crate) fn processor_time() -> Duration {
    let began = SLICE.with_borrow(|slice| slice.cpu_began);
    began.map_or(Duration::ZERO, |began| ffi::cpu_time().saturating_sub(began))
}

/// The calling thread has finished its request.
pub(crate) fn end() {
    SLICE.with_borrow_mut(|slice| {
        slice.began = None;
        slice.between_long_ones();
    });
}

impl Slice {
    fn between_long_ones(&mut self) {
        self.set_long(false);
        let alone = LONG_RUNNING.load(Relaxed) == 0;
        self.ask_for(if alone { DEFAULT_SLICE } else { SHORT_SLICE });
    }

    fn set_long(&mut self, long: bool) {
        match (self.long, long) {
            (false, true) => _ = LONG_RUNNING.fetch_add(1, Relaxed),
            (true, false) => _ = LONG_RUNNING.fetch_sub(1, Relaxed),
            _ => {}
        }
        self.long = long;
    }

    fn ask_for(&mut self, slice: Duration) {
        if self.asked_for == slice || REFUSED.load(Relaxed) {
            return;
        }
        self.asked_for = slice;
        if let Err(error) = ffi::set_slice(slice.as_nanos() as u64) {
            REFUSED.store(true, Relaxed);
            log::debug!(target: "CONTROL", id = 9_000_060, error:% = error;
                "The system does not support time slices per thread");
        }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.set_long(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the current thread has requested the slice, and the kernel has set it if it supports slices.
    fn has(slice: Duration) -> bool {
        // Kernels before 6.12 report no slices, and sandboxes may refuse them. The default slice is a few milliseconds.
        let told = ffi::slice();
        let given = match slice {
            DEFAULT_SLICE => {
                told != SHORT_SLICE.as_nanos() as u64 && told != LONG_SLICE.as_nanos() as u64
            }
            _ => told == slice.as_nanos() as u64,
        };
        SLICE.with_borrow(|s| s.asked_for == slice) && (given || told == 0 || REFUSED.load(Relaxed))
    }

    /// Uses the processor until the request counts as long.
    fn work(began: Instant) {
        begin(began);
        while SLICE.with_borrow(|slice| slice.began.is_some()) {
            look();
        }
    }

    #[test]
    fn an_operation_that_waits_is_not_long() {
        begin(Instant::now().checked_sub(LONG * 100).unwrap());
        look();
        assert!(!has(LONG_SLICE));
        end();
    }

    #[test]
    fn only_work_is_processor_time() {
        begin(Instant::now().checked_sub(LONG * 100).unwrap());
        assert_eq!(processor_time(), Duration::ZERO, "nothing was read yet");
        look();
        assert!(processor_time() < LONG);
        work(Instant::now().checked_sub(LONG).unwrap());
        assert!(processor_time() >= LONG);
        end();
    }

    #[test]
    fn a_long_operation_has_a_long_slice_and_the_others_short_ones_until_it_ends() {
        let now = Instant::now();
        begin(now);
        look();
        assert!(!has(LONG_SLICE), "it has just begun");
        work(now);
        assert!(has(LONG_SLICE));
        std::thread::spawn(|| {
            begin(Instant::now());
            assert!(has(SHORT_SLICE));
            end();
            assert!(has(SHORT_SLICE));
        })
        .join()
        .unwrap();
        // A thread's count ends with the thread, even in the middle of a request.
        let before = LONG_RUNNING.load(Relaxed);
        std::thread::spawn(move || {
            work(now);
            assert!(has(LONG_SLICE) && LONG_RUNNING.load(Relaxed) > before);
        })
        .join()
        .unwrap();
        end();
        // Between requests there is no slice to lengthen.
        look();
        assert!(!has(LONG_SLICE));
        // Other tests of this process may have long operations of their own.
        for _ in 0..600 {
            begin(Instant::now());
            end();
            if has(DEFAULT_SLICE) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{} long operations, none of which ends", LONG_RUNNING.load(Relaxed));
    }
}
