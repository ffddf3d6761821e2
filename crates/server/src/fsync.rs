//! The lock of `fsync: {lock: true}`: new writes wait until it is released, and the command returns only when the
//! running writes have finished, and the disk has what they wrote.
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
//!
//! ```text
//!   stop_writes                    the engine's files are held, the log is synced      lock
//!   -- waits for running writes --|------------------- Pending -----------------------|-- counted --> unlock
//! ```
//!
//! Only locks that clients were told of are counted, and each `unlock` takes one of them. What is pending belongs to
//! its command: no other can release it, and one that fails releases nothing of others.

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
    /// Locked by the thread that holds or releases the files.
    settling: Mutex<()>,
}

#[derive(Default)]
struct Count {
    /// Locks that are held, as clients were told.
    locks: i64,
    /// Commands that have stopped writes and wait for the disk. They cannot be unlocked.
    pending: i64,
    /// Commands that wait for the running writes. They cannot be unlocked.
    waiting: i64,
    /// The engine's files are held.
    files: bool,
}

/// A lock that is being taken: no write is running, and none may begin. Dropped, it leaves the locks of others alone.
pub(crate) struct Pending<'l>(&'l FsyncLock);

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
    /// Stops new writes and waits for the running ones.
    ///
    /// # Errors
    /// Those of `check`, the interrupt check of the wait, and 11600 if the server is being stopped. Writes are then not
    /// stopped by this call any more.
    pub(crate) fn stop_writes(&self, check: Check<'_>) -> Result<Pending<'_>> {
        let mut count = self.count.lock();
        count.waiting += 1;
        let stopped = loop {
            if self.is_closed() {
                break Err(closed());
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
        match stopped {
            Ok(()) => count.pending += 1,
            Err(_) => self.release_if_unused(&count),
        }
        stopped.map(|()| Pending(self))
    }

    /// Writes go on if no lock needs them to wait any more.
    fn release_if_unused(&self, count: &Count) {
        if !self.is_used(count) {
            self.held.store(false, Ordering::SeqCst);
            self.locked.store(count.waiting > 0 && !self.is_closed(), Ordering::SeqCst);
        }
        self.released.notify_all();
    }

    /// There is a lock, or one that only waits for the disk.
    fn is_used(&self, count: &Count) -> bool {
        count.locks + count.pending > 0 && !self.is_closed()
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
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

    /// Releases one of the counted locks and returns their remaining number; `None` if there was none. Those that are
    /// pending go on to stop writes.
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

    /// The files are held, and no lock needs that: their release has failed, or has not happened yet.
    pub(crate) fn holds_files_in_vain(&self) -> bool {
        let count = self.count.lock();
        count.files && !self.is_used(&count)
    }

    /// Calls `change` with whether the files are to be held until they are as they should be: held from the first lock
    /// that is pending to the end of the last one.
    ///
    /// # Errors
    /// Those of `change`; the files are then as they were. It is called with an interrupt check that fails once what it
    /// does is not wanted any more, which is no error of this function.
    pub(crate) fn settle_files(
        &self,
        mut change: impl FnMut(bool, Check<'_>) -> Result<()>,
    ) -> Result<()> {
        let _turn = self.settling.lock();
        loop {
            let (held, wanted) = {
                let count = self.count.lock();
                (count.files, self.is_used(&count))
            };
            if held == wanted {
                return Ok(());
            }
            let is_wanted = || self.is_used(&self.count.lock()) == wanted;
            let changed = change(wanted, &mut || match is_wanted() {
                true => Ok(()),
                false => bail!(Code::OPERATION_FAILED, "The fsync lock was given up meanwhile"),
            });
            match changed {
                Ok(()) => self.count.lock().files = wanted,
                Err(error) if is_wanted() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Begins a write; `None` if it must first wait for the release of the lock.
    pub(crate) fn begin_write(&self, writer: Writer) -> Option<Writing<'_>> {
        // The count is incremented before the flag is read: a concurrent lock either sees the count or is seen here.
        let writing = self.writing.own();
        writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(writing);
        (!self.is_stopped(writer)).then_some(writing)
    }

    /// Lets a lock be taken in the middle of a long write that holds nothing at this moment, and waits for its release.
    /// The caller has a [`Writing`] of a [`Writer::New`].
    ///
    /// # Errors
    /// Those of `check`; the write counts as running then, until its guard is dropped, and must not write any more.
    pub(crate) fn pause(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        while self.is_stopped(Writer::New) {
            self.writing.own().fetch_sub(1, Ordering::SeqCst);
            let waited = self.wait(Writer::New, check);
            // As in `begin_write`: before the flag is read.
            self.writing.own().fetch_add(1, Ordering::SeqCst);
            waited?;
        }
        Ok(())
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

fn closed() -> Error {
    Error::new(Code::INTERRUPTED_AT_SHUTDOWN, "the server is being stopped")
}

impl Pending<'_> {
    /// Makes it a lock, which counts until it is unlocked, and returns the new count.
    ///
    /// # Errors
    /// 11600 if the server is being stopped, and 8 if the files are not held. There is no lock then.
    pub(crate) fn lock(self) -> Result<i64> {
        let mut count = self.0.count.lock();
        if self.0.is_closed() {
            return Err(closed());
        }
        if !count.files {
            return Err(Error::bug("an fsync lock without the files"));
        }
        count.locks += 1;
        Ok(count.locks)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        count.pending -= 1;
        self.0.release_if_unused(&count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a lock on a disk that is fast.
    fn take(lock: &FsyncLock) -> Result<i64> {
        let pending = lock.stop_writes(&mut || Ok(()))?;
        settle(lock);
        pending.lock()
    }

    /// Whether the files were held and released, in this order.
    fn settle(lock: &FsyncLock) -> Vec<bool> {
        let mut changes = Vec::new();
        let change = |held, _: Check<'_>| {
            changes.push(held);
            Ok(())
        };
        lock.settle_files(change).unwrap();
        changes
    }

    #[test]
    fn open_transactions_go_on_until_it_is_held() {
        let lock = FsyncLock::default();
        let running = lock.begin_write(Writer::New).unwrap();
        std::thread::scope(|threads| {
            let locks = threads.spawn(|| take(&lock).unwrap());
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
        assert_eq!(take(&lock).unwrap(), 2);
        assert_eq!(lock.unlock(), Some(1));
        assert!(lock.begin_write(Writer::OpenTransaction).is_none());
        assert_eq!(lock.unlock(), Some(0));
        assert!(lock.begin_write(Writer::OpenTransaction).is_some());
        assert_eq!(lock.unlock(), None);
    }

    #[test]
    fn a_long_write_lets_a_lock_be_taken_and_goes_on_after_it() {
        let lock = FsyncLock::default();
        let writing = lock.begin_write(Writer::New).unwrap();
        lock.pause(&|| panic!("there is no lock")).unwrap();
        std::thread::scope(|threads| {
            let locks = threads.spawn(|| take(&lock).unwrap());
            while !lock.is_stopped(Writer::New) {
                std::thread::yield_now();
            }
            let paused = threads.spawn(|| lock.pause(&|| Ok(())));
            assert_eq!(locks.join().unwrap(), 1);
            assert!(!paused.is_finished());
            assert_eq!(lock.unlock(), Some(0));
            paused.join().unwrap().unwrap();
            // It counts again.
            let ended = || Err(Error::new(Code::INTERRUPTED, "enough"));
            assert!(lock.stop_writes(&mut || ended()).is_err());
            assert_eq!(take_beside(&lock, &writing), Code::INTERRUPTED);
        });
        drop(writing);
        assert_eq!(take(&lock).unwrap(), 1);
    }

    /// An interrupted pause leaves the count as it was.
    fn take_beside(lock: &FsyncLock, _: &Writing<'_>) -> Code {
        lock.locked.store(true, Ordering::SeqCst);
        let paused = lock.pause(&|| Err(Error::new(Code::INTERRUPTED, "enough")));
        lock.locked.store(false, Ordering::SeqCst);
        assert_eq!(lock.writing.iter().map(|n| n.load(Ordering::SeqCst)).sum::<i64>(), 1);
        paused.unwrap_err().code()
    }

    #[test]
    fn one_that_waits_cannot_be_unlocked_and_two_have_two_locks() {
        let lock = FsyncLock::default();
        let running = lock.begin_write(Writer::New).unwrap();
        std::thread::scope(|threads| {
            let locks = [(); 2].map(|()| threads.spawn(|| take(&lock).unwrap()));
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
        assert!(settle(&lock).is_empty());
        assert_eq!((lock.unlock(), settle(&lock)), (Some(1), vec![]));
        assert_eq!((lock.unlock(), lock.holds_files_in_vain()), (Some(0), true));
        assert_eq!((settle(&lock), lock.holds_files_in_vain()), (vec![false], false));
        assert!(!lock.is_stopped(Writer::New));
    }

    #[test]
    fn one_that_is_pending_releases_only_itself_and_cannot_be_unlocked() {
        let lock = FsyncLock::default();
        assert_eq!(take(&lock).unwrap(), 1);
        let (first, second) = (lock.stop_writes(&mut || Ok(())), lock.stop_writes(&mut || Ok(())));
        // The lock is that of another command; there is none beside it.
        assert_eq!((lock.unlock(), lock.unlock(), lock.count()), (Some(0), None, 0));
        assert!(lock.is_stopped(Writer::OpenTransaction));
        drop(first.unwrap());
        assert!(lock.is_stopped(Writer::OpenTransaction) && settle(&lock).is_empty());
        assert_eq!((second.unwrap().lock().unwrap(), lock.count()), (1, 1));
        assert!(lock.is_stopped(Writer::OpenTransaction) && !lock.holds_files_in_vain());
        // One without the files is no lock, nor one of a server that stops.
        assert_eq!((lock.unlock(), settle(&lock)), (Some(0), vec![false]));
        assert!(lock.stop_writes(&mut || Ok(())).unwrap().lock().is_err());
        assert!(!lock.is_stopped(Writer::New) && settle(&lock).is_empty());
        let pending = lock.stop_writes(&mut || Ok(())).unwrap();
        assert_eq!(settle(&lock), [true]);
        lock.release_all();
        assert_eq!(pending.lock().unwrap_err().code(), Code::INTERRUPTED_AT_SHUTDOWN);
        assert_eq!((lock.count(), settle(&lock)), (0, vec![false]));
    }

    #[test]
    fn files_that_are_not_wanted_any_more_are_no_error() {
        let lock = FsyncLock::default();
        let mut pending = Some(lock.stop_writes(&mut || Ok(())).unwrap());
        let mut calls = Vec::new();
        let change = |held, check: Check<'_>| {
            calls.push(held);
            check()?;
            drop(pending.take());
            check()
        };
        lock.settle_files(change).unwrap();
        // Held in spite of that, they are released; the failure of the disk is that of who waits for it.
        pending = Some(lock.stop_writes(&mut || Ok(())).unwrap());
        let change = |held, _: Check<'_>| {
            calls.push(held);
            drop(pending.take());
            Ok(())
        };
        lock.settle_files(change).unwrap();
        assert_eq!(calls, [true, true, false]);
        let _pending = lock.stop_writes(&mut || Ok(())).unwrap();
        lock.settle_files(|_, _| Err(Error::bug("disk"))).unwrap_err();
    }

    #[test]
    fn a_wait_that_fails_and_a_stop_leave_no_lock() {
        let lock = FsyncLock::default();
        let running = lock.begin_write(Writer::New).unwrap();
        assert!(lock.stop_writes(&mut || Err(Error::bug("interrupted"))).is_err());
        assert!(!lock.is_stopped(Writer::New));
        std::thread::scope(|threads| {
            let locks = threads.spawn(|| take(&lock));
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
                take(&lock).unwrap();
                let seen: i64 = (0..100).map(|_| running.load(Ordering::SeqCst)).sum();
                assert_eq!(seen, 0);
                assert_eq!(lock.unlock(), Some(0));
            }
            ends.store(true, Ordering::SeqCst);
        });
    }
}
