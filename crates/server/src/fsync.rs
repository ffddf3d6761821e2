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

mod rounds;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use nagi_error::{Code, Error, Result, bail};
use nagi_percore::PerCore;
use parking_lot::{Condvar, Mutex};
pub(crate) use rounds::Rounds;

/// The number of locks, and the commands that are writing.
#[derive(Default)]
pub(crate) struct FsyncLock {
    count: Mutex<Count>,
    /// New writes wait: there is a lock, or a command that waits for one. Without the mutex, as all that follow.
    locked: AtomicBool,
    /// No write is running, and none may begin.
    held: AtomicBool,
    /// The server is being stopped: no locks any more.
    closed: AtomicBool,
    /// Running writes, by the core on which they began.
    writing: PerCore<AtomicI64>,
    released: Condvar,
    /// The files are held for the locks. It is locked while that changes.
    files: Mutex<bool>,
}

#[derive(Default)]
struct Count {
    /// Locks that are held.
    locks: i64,
    /// Commands that wait for the running writes. They cannot be unlocked.
    waiting: i64,
}

/// The interrupt check of a wait.
type Check<'c> = &'c mut dyn FnMut() -> Result<()>;

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
        count.waiting += 1;
        let held = loop {
            if self.closed.load(Ordering::SeqCst) {
                break Err(Error::new(
                    Code::INTERRUPTED_AT_SHUTDOWN,
                    "the server is being stopped",
                ));
            }
            self.locked.store(true, Ordering::SeqCst);
            if self.hold() {
                break Ok(());
            }
            if let Err(error) = check() {
                break Err(error);
            }
            self.released.wait_for(&mut count, LOOK / 10);
        };
        count.waiting -= 1;
        match held {
            Ok(()) => count.locks += 1,
            Err(_) => self.release_if_unused(&count),
        }
        held.map(|()| count.locks)
    }

    /// Writes go on if there is no lock any more.
    fn release_if_unused(&self, count: &Count) {
        if count.locks == 0 {
            self.held.store(false, Ordering::SeqCst);
            self.locked.store(count.waiting > 0, Ordering::SeqCst);
        }
        self.released.notify_all();
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
        if count.locks == 0 {
            return None;
        }
        count.locks -= 1;
        self.release_if_unused(&count);
        Some(count.locks)
    }

    /// Ends all locks, and the waits for them, for good.
    pub(crate) fn release_all(&self) {
        let mut count = self.count.lock();
        self.closed.store(true, Ordering::SeqCst);
        count.locks = 0;
        self.held.store(false, Ordering::SeqCst);
        self.locked.store(false, Ordering::SeqCst);
        self.released.notify_all();
    }

    /// The number of locks that are held.
    pub(crate) fn count(&self) -> i64 {
        self.count.lock().locks
    }

    /// Calls `change` with whether the files are held, if that is not as it should be: they are from the first lock to
    /// the last one. Called by one thread at a time.
    ///
    /// # Errors
    /// Those of `change`, and of the interrupt check that it is called with: the last lock was released, or there is
    /// one again. The files are then as they were.
    pub(crate) fn settle_files(
        &self,
        change: impl FnOnce(bool, Check<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut held = self.files.lock();
        let wanted = self.count() > 0;
        if *held != wanted {
            change(wanted, &mut || match (self.count() > 0) == wanted {
                true => Ok(()),
                false => bail!(Code::OPERATION_FAILED, "The fsync lock was released meanwhile"),
            })?;
            *held = wanted;
        }
        Ok(())
    }

    /// Begins a write; `None` if it must first wait for the release of the lock.
    pub(crate) fn begin_write(&self, writer: Writer) -> Option<Writing<'_>> {
        // The count is incremented before the flag is read: a concurrent lock either sees the count or is seen here.
        let writing = self.writing.own();
        writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(writing);
        (!self.is_stopped(writer)).then_some(writing)
    }

    /// Returns true while such a writer has to wait.
    pub(crate) fn is_stopped(&self, writer: Writer) -> bool {
        self.stops(writer).load(Ordering::SeqCst)
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
        while self.is_stopped(writer) {
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
    fn one_that_waits_cannot_be_unlocked_and_two_have_two_locks() {
        let lock = FsyncLock::default();
        let running = lock.begin_write(Writer::New).unwrap();
        std::thread::scope(|threads| {
            let locks = [(); 2].map(|()| threads.spawn(|| lock.lock(&mut || Ok(())).unwrap()));
            while lock.count.lock().waiting < 2 {
                std::thread::yield_now();
            }
            assert_eq!((lock.unlock(), lock.count()), (None, 0));
            assert!(lock.is_stopped(Writer::New) && !lock.is_stopped(Writer::OpenTransaction));
            drop(running);
            let mut counts = locks.map(|lock| lock.join().unwrap());
            counts.sort_unstable();
            assert_eq!(counts, [1, 2]);
        });
        let mut calls = Vec::new();
        let mut settle = || {
            let change = |held, _: Check<'_>| {
                calls.push(held);
                Ok(())
            };
            lock.settle_files(change).unwrap();
        };
        settle();
        settle();
        assert_eq!(lock.unlock(), Some(1));
        settle();
        assert_eq!(lock.unlock(), Some(0));
        settle();
        assert_eq!(calls, [true, false]);
        assert!(!lock.is_stopped(Writer::New));
    }

    #[test]
    fn a_wait_that_fails_and_a_stop_leave_no_lock() {
        let lock = FsyncLock::default();
        let running = lock.begin_write(Writer::New).unwrap();
        lock.lock(&mut || Err(Error::bug("interrupted"))).unwrap_err();
        assert!(!lock.is_stopped(Writer::New));
        std::thread::scope(|threads| {
            let locks = threads.spawn(|| lock.lock(&mut || Ok(())));
            while lock.count.lock().waiting == 0 {
                std::thread::yield_now();
            }
            lock.release_all();
            assert_eq!(locks.join().unwrap().unwrap_err().code(), Code::INTERRUPTED_AT_SHUTDOWN);
        });
        drop(running);
        assert!(!lock.is_stopped(Writer::New) && !lock.is_stopped(Writer::OpenTransaction));
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
