//! Where unit tests look on and interfere. Nothing at all in the engine that is used.

use nagi_kv::Result;
#[cfg(test)]
use parking_lot::Mutex;

use crate::log::SyncWork;

/// What is continuing when a test is asked.
pub(crate) enum Moment<'m> {
    /// These files of the log are on the disk; an error says that they are not.
    LogSynced(#[cfg_attr(not(test), expect(dead_code))] &'m SyncWork),
    /// A write transaction of the data file is on the disk.
    Stepped,
    /// Part of a range was forgotten; no one holds a lock.
    Sliced,
}

#[cfg(test)]
pub(crate) type Watch = Box<dyn FnMut(Moment<'_>) -> Result<()> + Send>;

/// See the module's header.
#[derive(Default)]
pub(crate) struct Hook {
    #[cfg(test)]
    watch: Mutex<Option<Watch>>,
}

impl Hook {
    #[cfg(test)]
    pub(crate) fn set(&self, watch: Watch) {
        *self.watch.lock() = Some(watch);
    }

    /// Asks the test, if there is one. What it does meanwhile is not told to it.
    #[inline]
    pub(crate) fn at(&self, moment: Moment<'_>) -> Result<()> {
        #[cfg(test)]
        {
            let Some(mut watch) = self.watch.lock().take() else { return Ok(()) };
            let result = watch(moment);
            *self.watch.lock() = Some(watch);
            result
        }
        #[cfg(not(test))]
        {
            let _ = moment;
            Ok(())
        }
    }
}
