//! Whether somebody still waits for the result of the calling thread's request.
//!
//! An embedded engine answers in microseconds. One that waits for other machines asks here while it waits, and ends
//! with [`Error::Interrupted`](crate::Error::Interrupted) if the request was cancelled or its time is over.

use std::{
    cell::Cell,
    sync::OnceLock,
    time::{Duration, Instant},
};

static GO_ON: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    /// The end of [`within`].
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Sets the check, which returns false if the request that the calling thread runs was interrupted. The first call
/// counts: it is a property of the program, not of one store.
pub fn attach(go_on: fn() -> bool) {
    let _ = GO_ON.set(go_on);
}

/// Returns false if the request of the calling thread was interrupted. True for threads without a request.
pub fn go_on() -> bool {
    let in_time = UNTIL.get().is_none_or(|until| Instant::now() < until);
    in_time && GO_ON.get().is_none_or(|go_on| go_on())
}

/// Runs `work`, in which the engine is waited for as if the request was interrupted after this time.
pub fn within<T>(time: Duration, work: impl FnOnce() -> T) -> T {
    struct Before(Option<Instant>);
    impl Drop for Before {
        fn drop(&mut self) {
            UNTIL.set(self.0);
        }
    }
    let before = Before(UNTIL.get());
    let until = Instant::now() + time;
    UNTIL.set(Some(before.0.map_or(until, |outer| outer.min(until))));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_ends_with_the_work_and_the_shorter_one_counts() {
        const LONG: Duration = Duration::from_secs(3600);
        assert!(go_on());
        within(LONG, || {
            assert!(go_on());
            within(Duration::ZERO, || {
                assert!(!go_on());
                within(LONG, || assert!(!go_on()));
            });
            assert!(go_on());
        });
        assert!(go_on());
        let panicked = std::panic::catch_unwind(|| within(Duration::ZERO, || panic!("ends")));
        assert!(panicked.is_err() && go_on());
    }
}
