//! Points at which unit tests observe the engine and inject errors. Outside tests the hook is empty.

use nagi_kv::Result;
#[cfg(test)]
use parking_lot::Mutex;

use crate::log::SyncWork;

/// The step at which a test is called.
pub(crate) enum Moment<'m> {
    /// These files of the log were synced; an error returned by the test means that the sync failed.
    LogSynced(#[cfg_attr(not(test), expect(dead_code))] &'m SyncWork),
    /// A write transaction of the data file is durable.
    Stepped,
    /// A slice of a range was removed; no lock is held.
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

    /// Calls the test's watcher, if there is one. It is not called again for steps that it causes itself.
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
