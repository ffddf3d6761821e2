//! The lock of `fsync: {lock: true}`: writes wait until it is released.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nagi_error::Result;
use parking_lot::{Condvar, Mutex};

/// How often the data was locked, and who waits for that to end.
#[derive(Default)]
pub(crate) struct FsyncLock {
    count: Mutex<i64>,
    /// The same as `count > 0`, for a look without the lock on the way of every write.
    locked: AtomicBool,
    released: Condvar,
}

impl FsyncLock {
    /// Locks once more; the new count.
    pub(crate) fn lock(&self) -> i64 {
        let mut count = self.count.lock();
        *count += 1;
        self.locked.store(true, Ordering::SeqCst);
        *count
    }

    /// Unlocks once; the count that remains, or `None` if it was not locked.
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

    /// Waits while it is locked; `check` may end the wait with an error.
    pub(crate) fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        if !self.locked.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut count = self.count.lock();
        while *count > 0 {
            check()?;
            self.released.wait_for(&mut count, Duration::from_millis(20));
        }
        Ok(())
    }
}
