//! The lock of `fsync: {lock: true}`: writes wait until it is released.

use std::time::Duration;

use nagi_error::Result;
use parking_lot::{Condvar, Mutex};

/// How often the data was locked, and who waits for that to end.
#[derive(Default)]
pub(crate) struct FsyncLock {
    count: Mutex<i64>,
    released: Condvar,
}

impl FsyncLock {
    /// Locks once more; the new count.
    pub(crate) fn lock(&self) -> i64 {
        let mut count = self.count.lock();
        *count += 1;
        *count
    }

    /// Unlocks once; the count that remains, or `None` if it was not locked.
    pub(crate) fn unlock(&self) -> Option<i64> {
        let mut count = self.count.lock();
        if *count == 0 {
            return None;
        }
        *count -= 1;
        self.released.notify_all();
        Some(*count)
    }

    pub(crate) fn release_all(&self) {
        *self.count.lock() = 0;
        self.released.notify_all();
    }

    pub(crate) fn count(&self) -> i64 {
        *self.count.lock()
    }

    /// Waits while it is locked; `check` may end the wait with an error.
    pub(crate) fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut count = self.count.lock();
        while *count > 0 {
            check()?;
            self.released.wait_for(&mut count, Duration::from_millis(20));
        }
        Ok(())
    }
}
