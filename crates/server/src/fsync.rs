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
    /// Running writes, by the core on which they began.
    writing: PerCore<AtomicI64>,
    released: Condvar,
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
        while self.writing.iter().any(|writing| writing.load(Ordering::SeqCst) > 0) {
            if let Err(error) = check() {
                drop(count);
                self.unlock();
                return Err(error);
            }
            self.released.wait_for(&mut count, LOOK / 10);
        }
        Ok(*count)
    }

    /// Unlocks once and returns the remaining count, or `None` if it was not locked.
    pub(crate) fn unlock(&self) -> Option<i64> {
        let mut count = self.count.lock();
        if *count == 0 {
            return None;
        }
        *count -= 1;
        self.locked.store(*count > 0, Ordering::SeqCst);
        self.released.notify_all();
        Some(*count)
    }

    pub(crate) fn release_all(&self) {
        let mut count = self.count.lock();
        *count = 0;
        self.locked.store(false, Ordering::SeqCst);
        self.released.notify_all();
    }

    pub(crate) fn count(&self) -> i64 {
        *self.count.lock()
    }

    /// Begins a write; `None` if it must first wait for the release of the lock.
    pub(crate) fn begin_write(&self) -> Option<Writing<'_>> {
        // The count is incremented before the flag is read: a concurrent lock either sees the count or is seen here.
        let writing = self.writing.own();
        writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(writing);
        (!self.locked.load(Ordering::SeqCst)).then_some(writing)
    }

    /// Waits while it is locked; `check` is the interrupt check of the wait.
    pub(crate) fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut count = self.count.lock();
        while *count > 0 {
            check()?;
            self.released.wait_for(&mut count, LOOK);
        }
        Ok(())
    }
}
