//! The catalog at a time of the past, for snapshots at times that other nodes have told.
//!
//! ```text
//!   board at the time    version 40
//!   in memory            version 42: 12, 7      -->  12 and 7 are read as they were, the others are the same
//!   board now            version 43: 9          -->  and 9, which may be in memory already
//! ```
//!
//! A reader of a collection that has changed since gets 246, as in a transaction that was open meanwhile: its catalog
//! says that the collection is another one than now.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use nagi_error::{Code, Result, bail};
use nagi_kv::{
    Read,
    sync::{Instant, thread},
};

use super::{ANSWER_POLL, ANSWER_WAIT, Members};
use crate::{Catalog, Store, engine_error::engine, node::Board};

impl Store {
    /// The catalog of the snapshot `then`, in which a collection that has not changed since is the same as in memory.
    /// Three requests; two more for each collection that has changed.
    ///
    /// # Errors
    /// 24 if this node does not follow the changes of others. Those of the engine.
    pub(in crate::store) fn catalog_at(
        &self,
        members: &Members,
        then: &dyn Read,
    ) -> Result<Arc<Catalog>> {
        let version = Board::read(then).map_err(engine)?.changes.version;
        self.wait_until_followed(members, version)?;
        // Not older than `version` from here on. It may be newer, which the board tells, as it is read later.
        let known = self.catalog.load_full();
        let now = self.engine.snapshot().map_err(engine)?;
        let changes = Board::read(&*now).map_err(engine)?.changes;
        if changes.version == version {
            return Ok(known);
        }
        let reloaded = known.reloaded(then, changes.after(version))?;
        Ok(Arc::new(reloaded.catalog))
    }

    /// Waits until the catalog in memory is this version or a later one.
    fn wait_until_followed(&self, members: &Members, version: u64) -> Result<()> {
        let until = Instant::now() + ANSWER_WAIT;
        while members.version.load(SeqCst) < version {
            // Whoever has the lock follows the changes itself.
            if let Some(mut alone) = self.ddl.try_lock() {
                self.catch_up(members, &mut alone)?;
                continue;
            }
            if Instant::now() >= until {
                bail!(Code::LOCK_TIMEOUT, "this node does not follow the changes of the catalog");
            }
            thread::sleep(ANSWER_POLL);
        }
        Ok(())
    }
}
