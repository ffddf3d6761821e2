//! How many index builds run at a time (`maxNumActiveUserIndexBuilds`).
//!
//! Each build has memory for its sorter, reads the whole collection and writes as fast as it can, so a few of them
//! at once are slower than one after the other. A request that has to fill an index from documents takes a place
//! before it publishes anything; others wait and can be interrupted meanwhile. What is done in no time needs no
//! place: indexes that exist, and those of collections that are new or empty.

use std::time::Duration;

use nagi_error::Result;

use super::{BuildOptions, plan::is_missing};
use crate::{IndexSpec, Namespace, Store};

/// After which the interrupt and the limit, which may have been changed, are checked again.
const CHECK_EACH: Duration = Duration::from_millis(50);

/// One of the builds that count; others may have its place once it is dropped.
pub(super) struct Place<'s>(&'s Store);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.builds.lock() -= 1;
        self.0.build_ended.notify_all();
    }
}

impl Store {
    /// A place for a build of these indexes, if it needs one.
    pub(super) fn place_for(
        &self,
        namespace: &Namespace,
        specs: &[IndexSpec],
        options: BuildOptions<'_>,
    ) -> Result<Option<Place<'_>>> {
        let fills = |of: &crate::Collection| of.count() > 0 && is_missing(of, specs);
        match (options.most, self.collection(namespace)) {
            (Some(most), Some(collection)) if fills(&collection) => {
                self.place(namespace, most, options).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn place(
        &self,
        namespace: &Namespace,
        most: &dyn Fn() -> u64,
        options: BuildOptions<'_>,
    ) -> Result<Place<'_>> {
        let mut is_told = false;
        loop {
            options.interrupt.map_or(Ok(()), |interrupt| interrupt())?;
            let most = most();
            let mut active = self.builds.lock();
            if *active < most {
                *active += 1;
                return Ok(Place(self));
            }
            if !is_told {
                log::info!(target: "INDEX", id = 4_715_500, namespace = namespace.as_str(),
                    numActiveIndexBuilds = *active, maxNumActiveUserIndexBuilds = most;
                    "Too many index builds running simultaneously, waiting until the number of active \
                    index builds is below the threshold");
                is_told = true;
            }
            self.build_ended.wait_for(&mut active, CHECK_EACH);
        }
    }

    /// Waits until some build has ended, or a moment.
    pub(super) fn wait_for_build(&self, options: BuildOptions<'_>) -> Result<()> {
        options.interrupt.map_or(Ok(()), |interrupt| interrupt())?;
        let mut active = self.builds.lock();
        self.build_ended.wait_for(&mut active, CHECK_EACH);
        Ok(())
    }
}
