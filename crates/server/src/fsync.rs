//! The lock of `fsync: {lock: true}`: new writes wait until it is released, and the command returns only when the
//! running writes have finished.
//!
//! ```text
//!   writer                          fsync
//!   count itself in `writing`       set `locked`
//!   `locked` set? -> uncount, wait  wait until `writing` is 0 on all cores
//! ```
//!
//! Each side publishes its own state before it reads that of the other. At least one of them therefore sees the other,
//! and no write runs while the lock is held.
//!
//! A running write may wait for a transaction that is open. So the statements of open transactions, and their commits,
//! run until the lock is `held`: they read that in place of `locked`, and the command looks for writes again after it
//! has set it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use nagi_error::Result;
use nagi_percore::PerCore;
use parking_lot::{Condvar, Mutex};

/// The number of locks, and the commands that are writing.
#[derive(Default)]
pub(crate) struct FsyncLock {
    count: Mutex<i64>,
    /// The same as `count > 0`, so that a write can check it without the mutex.
    locked: AtomicBool,
    /// No write is running, and none may begin.
    held: AtomicBool,
    /// Running writes, by the core on which they began.
    writing: PerCore<AtomicI64>,
    released: Condvar,
}

/// What begins to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A command of its own.
    New,
    /// A statement or the commit of a transaction that is open, for which others may wait.
    OpenTransaction,
}

/// A running write: the lock waits until it is dropped.
pub(crate) struct Writing<'l>(&'l AtomicI64);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Interval of the interrupt checks of waiting threads.
const LOOK: Duration = Duration::from_millis(20);

impl FsyncLock {
    /// Locks once more, waits for the running writes and returns the new count.
    ///
    /// # Errors
    /// Those of `check`, the interrupt check of the wait. The lock is then not taken.
    pub(crate) fn lock(&self, check: &mut dyn FnMut() -> Result<()>) -> Result<i64> {
        let mut count = self.count.lock();
        *count += 1;
        self.locked.store(true, Ordering::SeqCst);
        while !self.hold() {
            if let Err(error) = check() {
                drop(count);
                self.unlock();
                return Err(error);
            }
            self.released.wait_for(&mut count, LOOK / 10);
        }
        Ok(*count)
    }

    /// Holds the lock if no write is running. The mutex is locked.
    fn hold(&self) -> bool {
        let is_idle = || self.writing.iter().all(|writing| writing.load(Ordering::SeqCst) == 0);
        if self.held.load(Ordering::SeqCst) {
            return true;
        }
        if !is_idle() {
            return false;
        }
        self.held.store(true, Ordering::SeqCst);
        let holds = is_idle();
        self.held.store(holds, Ordering::SeqCst);
        holds
    }

    /// Unlocks once and returns the remaining count, or `None` if it was not locked.
    pub(crate) fn unlock(&self) -> Option<i64> {
        let mut count = self.count.lock();
        if *count == 0 {
            return None;
        }
        *count -= 1;
        if *count == 0 {
            self.held.store(false, Ordering::SeqCst);
            self.locked.store(false, Ordering::SeqCst);
        }
        self.released.notify_all();
        Some(*count)
    }

    pub(crate) fn release_all(&self) {
        let mut count = self.count.lock();
        *count = 0;
        self.held.store(false, Ordering::SeqCst);
        self.locked.store(false, Ordering::SeqCst);
        self.released.notify_all();
    }

    pub(crate) fn count(&self) -> i64 {
        *self.count.lock()
    }

    /// Begins a write; `None` if it must first wait for the release of the lock.
    pub(crate) fn begin_write(&self, writer: Writer) -> Option<Writing<'_>> {
        // The count is incremented before the flag is read: a concurrent lock either sees the count or is seen here.
        let writing = self.writing.own();
        writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(writing);
        (!self.stops(writer).load(Ordering::SeqCst)).then_some(writing)
    }

    fn stops(&self, writer: Writer) -> &AtomicBool {
        match writer {
            Writer::New => &self.locked,
            Writer::OpenTransaction => &self.held,
        }
    }

    /// Waits while it is locked for such a writer; `check` is the interrupt check of the wait.
    pub(crate) fn wait(&self, writer: Writer, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut count = self.count.lock();
        while self.stops(writer).load(Ordering::SeqCst) {
            check()?;
            self.released.wait_for(&mut count, LOOK);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_transactions_go_on_until_it_is_held() {
        let lock = FsyncLock::default();
        let running = lock.begin_write(Writer::New).unwrap();
        std::thread::scope(|threads| {
            let locks = threads.spawn(|| lock.lock(&mut || Ok(())).unwrap());
            while !lock.locked.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert!(lock.begin_write(Writer::New).is_none());
            let commit = lock.begin_write(Writer::OpenTransaction).expect("it may be waited for");
            drop(running);
            assert!(!lock.held.load(Ordering::SeqCst), "the commit is running");
            drop(commit);
            assert_eq!(locks.join().unwrap(), 1);
        });
        assert!(lock.begin_write(Writer::OpenTransaction).is_none());
        assert_eq!(lock.lock(&mut || Ok(())).unwrap(), 2);
        assert_eq!(lock.unlock(), Some(1));
        assert!(lock.begin_write(Writer::OpenTransaction).is_none());
        assert_eq!(lock.unlock(), Some(0));
        assert!(lock.begin_write(Writer::OpenTransaction).is_some());
        assert_eq!(lock.unlock(), None);
    }

    #[test]
    fn no_commit_runs_while_it_is_held() {
        let (lock, ends, running) =
            (FsyncLock::default(), AtomicBool::new(false), AtomicI64::new(0));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !ends.load(Ordering::SeqCst) {
                        if let Some(writing) = lock.begin_write(Writer::OpenTransaction) {
                            running.fetch_add(1, Ordering::SeqCst);
                            running.fetch_sub(1, Ordering::SeqCst);
                            drop(writing);
                        }
                    }
                });
            }
            for _ in 0..200 {
                lock.lock(&mut || Ok(())).unwrap();
                let seen: i64 = (0..100).map(|_| running.load(Ordering::SeqCst)).sum();
                assert_eq!(seen, 0);
                assert_eq!(lock.unlock(), Some(0));
            }
            ends.store(true, Ordering::SeqCst);
        });
    }
}
