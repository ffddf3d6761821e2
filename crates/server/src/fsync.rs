//! The lock of `fsync: {lock: true}`: writes wait until it is released, and the lock is there only when
//! the writes that had begun are done.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use nagi_error::Result;
use nagi_percore::PerCore;
use parking_lot::{Condvar, Mutex};

/// How often the data was locked, and who waits for that to end.
#[derive(Default)]
pub(crate) struct FsyncLock {
    count: Mutex<i64>,
    /// The same as `count > 0`, for a look without the lock on the way of every write.
    locked: AtomicBool,
    /// Commands that write now, by the core on which they began.
    writing: PerCore<AtomicI64>,
    released: Condvar,
}

/// A command that writes: the lock waits for its end.
pub(crate) struct Writing<'l>(&'l AtomicI64);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Between two polls of one who waits.
const LOOK: Duration = Duration::from_millis(20);

impl FsyncLock {
    /// Locks once more, and waits for the writes under way; the new count. `check` may end the wait
    /// with an error: then it is not locked.
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

    /// A write may begin, or `None` if it has to wait for the lock's end first.
    pub(crate) fn begin_write(&self) -> Option<Writing<'_>> {
        // First count, then look: a lock that comes in between sees the count, or is seen.
        let writing = self.writing.own();
        writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(writing);
        (!self.locked.load(Ordering::SeqCst)).then_some(writing)
    }

    /// Waits while it is locked; `check` may end the wait with an error.
    pub(crate) fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut count = self.count.lock();
        while *count > 0 {
            check()?;
            self.released.wait_for(&mut count, LOOK);
        }
        Ok(())
    }
}
