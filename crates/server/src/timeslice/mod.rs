//! Long operations give way to short ones.
//!
//! Where more threads compute than there are processors, a short request would wait behind the time slices of others.
//! Linux from 6.12 on gives each thread the slice it asks for, and a thread that wakes with a shorter one takes the
//! processor at once, within its fair share. So an operation that has run for [`LONG`] asks for the longest, and while
//! there is one, the others ask for the shortest: shares stay what they were, long operations change hands less often,
//! and requests and programs that wake come first. Beside 24 threads that compute on two processors, one that wakes for
//! 0.3 ms a hundred times a second waits 12 ms (p99) with the kernel's slices and 0.2 ms with these. Without a long
//! operation no one asks: short slices cost 16 inserting clients 7 % of their throughput.

mod ffi;

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::clock;

/// From when on an operation is a long one.
const LONG: Duration = Duration::from_millis(10);
/// The slice that the kernel gives of itself.
const DEFAULT_SLICE: Duration = Duration::ZERO;
/// The shortest and the longest that it gives.
const SHORT_SLICE: Duration = Duration::from_micros(100);
const LONG_SLICE: Duration = Duration::from_millis(100);

/// How many operations are long ones now.
static LONG_RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A sandbox may refuse the call; it is not asked again.
static REFUSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SLICE: RefCell<Slice> = const { RefCell::new(Slice { began: None, long: false, asked_for: DEFAULT_SLICE }) };
}

/// What a thread has asked for.
struct Slice {
    /// When its request began; none between requests and once it is known to be long.
    began: Option<Instant>,
    /// It is counted in [`LONG_RUNNING`].
    long: bool,
    asked_for: Duration,
}

/// The thread begins with a request.
pub(crate) fn begin(started: Instant) {
    SLICE.with_borrow_mut(|slice| {
        slice.began = Some(started);
        slice.between_long_ones();
    });
}

/// To be called now and then by the thread that works on a request. Looks at the clock until the request is long.
pub(crate) fn look() {
    SLICE.with_borrow_mut(|slice| {
        if slice.began.is_some_and(|began| clock::now() - began >= LONG) {
            slice.began = None;
            slice.set_long(true);
            slice.ask_for(LONG_SLICE);
        }
    });
}

/// The request is over.
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
                "The system gives threads no time slices of their own");
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

    /// The current thread has asked for the slice, and the kernel has given it if it gives any.
    fn has(slice: Duration) -> bool {
        // Kernels before 6.12 tell of no slices, sandboxes may refuse them; the kernel's own is a few milliseconds.
        let told = ffi::slice();
        let given = match slice {
            DEFAULT_SLICE => {
                told != SHORT_SLICE.as_nanos() as u64 && told != LONG_SLICE.as_nanos() as u64
            }
            _ => told == slice.as_nanos() as u64,
        };
        SLICE.with_borrow(|s| s.asked_for == slice) && (given || told == 0 || REFUSED.load(Relaxed))
    }

    #[test]
    fn a_long_operation_has_a_long_slice_and_the_others_short_ones_until_it_ends() {
        let now = Instant::now();
        begin(now);
        look();
        assert!(!has(LONG_SLICE), "it has just begun");
        begin(now.checked_sub(LONG).unwrap());
        look();
        assert!(has(LONG_SLICE));
        std::thread::spawn(|| {
            begin(Instant::now());
            assert!(has(SHORT_SLICE));
            end();
            assert!(has(SHORT_SLICE));
        })
        .join()
        .unwrap();
        // What a thread counted ends with it, also when it ends in the middle.
        let before = LONG_RUNNING.load(Relaxed);
        std::thread::spawn(move || {
            begin(now.checked_sub(LONG).unwrap());
            look();
            assert!(has(LONG_SLICE) && LONG_RUNNING.load(Relaxed) > before);
        })
        .join()
        .unwrap();
        end();
        // Between requests there is nothing to lengthen.
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
