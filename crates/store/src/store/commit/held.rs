//! Commits wait while the data files are held ([`Store::hold_files`]): whoever copies the files finds one moment in
//! them. The server keeps its commands from writing before that; what is left is what it does by itself, and what
//! forgets to ask.
//!
//! ```text
//!   commit                                 hold
//!   count itself in `running`              set `held`
//!   `held` set? -> uncount, wait           wait until `running` is 0 on all cores
//! ```
//!
//! Each side publishes its own state before it reads that of the other, so at least one of them sees the other.

use std::time::Duration;

use nagi_error::Result;
use nagi_kv::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
};
use nagi_percore::PerCore;

/// How often a waiting thread looks.
const LOOK: Duration = Duration::from_millis(5);

/// See the module's header.
#[derive(Default)]
pub(crate) struct HeldCommits {
    held: AtomicBool,
    /// Commits in progress, by the core on which they began.
    running: PerCore<AtomicI64>,
    waiting: Mutex<()>,
    released: Condvar,
}

/// A commit in progress.
#[must_use]
pub(crate) struct Committing<'h>(&'h AtomicI64);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl HeldCommits {
    /// Waits while commits are held.
    pub(crate) fn begin(&self) -> Committing<'_> {
        loop {
            let running = self.running.own();
            running.fetch_add(1, SeqCst);
            let committing = Committing(running);
            if !self.held.load(SeqCst) {
                return committing;
            }
            drop(committing);
            let mut waiting = self.waiting.lock();
            while self.held.load(SeqCst) {
                self.released.wait_for(&mut waiting, LOOK);
            }
        }
    }

    /// Lets no commit begin, and waits for those in progress.
    ///
    /// # Errors
    /// Those of `watch`, which is called meanwhile; commits go on then.
    pub(crate) fn hold(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.held.store(true, SeqCst);
        let mut waiting = self.waiting.lock();
        while self.running.iter().map(|running| running.load(SeqCst)).sum::<i64>() > 0 {
            if let Err(error) = watch() {
                drop(waiting);
                self.release();
                return Err(error);
            }
            self.released.wait_for(&mut waiting, LOOK);
        }
        Ok(())
    }

    pub(crate) fn release(&self) {
        self.held.store(false, SeqCst);
        self.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use nagi_error::{Code, Error};

    use super::*;

    #[test]
    fn commits_wait_until_they_are_released_and_those_in_progress_are_waited_for() {
        let held = Arc::<HeldCommits>::default();
        let running = held.begin();
        let mut looks = 0;
        let ended = held.hold(&mut || {
            looks += 1;
            if looks < 3 { Ok(()) } else { Err(Error::new(Code::INTERRUPTED, "enough")) }
        });
        assert_eq!(ended.expect_err("it is waited for").code(), Code::INTERRUPTED);
        drop(held.begin());
        drop(running);
        held.hold(&mut || Ok(())).expect("nothing is in progress");
        let commit = thread::spawn({
            let held = Arc::clone(&held);
            move || drop(held.begin())
        });
        assert!(!commit.is_finished());
        held.release();
        commit.join().expect("it goes on");
    }
}
