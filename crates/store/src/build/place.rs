//! Admission of index builds (`maxNumActiveUserIndexBuilds`).
//!
//! Each build has memory for its sorter, reads the whole collection and writes as fast as it can, so a few
//! concurrent builds are slower than sequential ones. A request that has to fill an index from documents takes a
//! place before it publishes anything; further requests wait and can be interrupted. Requests that need no build
//! need no place: existing indexes, and indexes of new or empty collections.

use std::time::Duration;

use nagi_error::Result;

use super::{BuildOptions, plan::is_missing};
use crate::{IndexSpec, Namespace, Store};

/// Interval at which a waiting build checks the interrupt and the limit, which may have been changed.
const CHECK_EACH: Duration = Duration::from_millis(50);

/// The place of a build that counts towards the limit. It is released when dropped.
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

    /// Waits until some build has finished, or for a moment.
    pub(super) fn wait_for_build(&self, options: BuildOptions<'_>) -> Result<()> {
        options.interrupt.map_or(Ok(()), |interrupt| interrupt())?;
        let mut active = self.builds.lock();
        self.build_ended.wait_for(&mut active, CHECK_EACH);
        Ok(())
    }
}
