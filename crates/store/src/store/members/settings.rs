//! Documents that servers have in memory: users, roles, parameters of the cluster. Each commit that changes some writes
//! their version on the board, so the other nodes learn of it with their next look and read them anew.
//!
//! ```text
//!   server A                           board            server B
//!   commit: document, settings 8  -->  settings 8
//!   reads the documents anew                       -->  reads the documents anew, says so in its seat: settings 8
//!   waits for all seats
//!   answers the client
//! ```
//!
//! So whoever has seen the answer finds the change in the memory of all nodes. A node that does not answer is waited
//! for as for a change of the catalog: until it is declared dead.

use std::sync::Arc;

use nagi_error::Result;
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use super::Members;
use crate::{Collection, Namespace, Store};

/// The collections of such documents.
const NAMES: [&str; 6] = [
    "admin.system.roles",
    "admin.system.users",
    "config.clusterParameters",
    "config.settings",
    "config.system.indexFilters",
    "config.user_writes_critical_sections",
];

/// Returns true if servers have documents of this collection in memory.
pub(crate) fn is_setting(namespace: &Namespace) -> bool {
    // Almost every name begins with another letter already.
    let name = namespace.as_str();
    matches!(name.as_bytes().first(), Some(b'a' | b'c')) && NAMES.contains(&name)
}

/// Reads what a server has in memory anew. It must not wait for other nodes, nor for those that write such documents.
type Reread = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// What servers of this process have in memory.
#[derive(Default)]
pub(super) struct Settings {
    /// The version on the board whose documents are in memory.
    version: AtomicU64,
    /// One of the collections was changed as a whole.
    is_stale: AtomicBool,
    /// One at a time, so that the last one that reads is the last one that is remembered.
    rereading: Mutex<Vec<Reread>>,
}

impl Members {
    /// The version of the documents in memory.
    pub(super) fn settings_version(&self) -> u64 {
        self.settings.version.load(SeqCst)
    }

    /// Servers have to read them anew if one of these collections has them.
    pub(crate) fn note_changed_settings(&self, changed: &[Arc<Collection>]) {
        if changed.iter().any(|collection| is_setting(&collection.namespace)) {
            self.settings.is_stale.store(true, SeqCst);
        }
    }

    /// Lets servers read them anew, unless they have read this version.
    pub(crate) fn follow_settings(&self, version: u64) -> Result<()> {
        let Settings { version: known, is_stale, rereading } = &self.settings;
        if known.load(SeqCst) >= version && !is_stale.load(SeqCst) {
            return Ok(());
        }
        let all = rereading.lock();
        let was_stale = is_stale.swap(false, SeqCst);
        if known.load(SeqCst) >= version && !was_stale {
            return Ok(());
        }
        if let Err(error) = all.iter().try_for_each(|reread| reread()) {
            is_stale.fetch_or(was_stale, SeqCst);
            return Err(error);
        }
        known.fetch_max(version, SeqCst);
        Ok(())
    }
}

impl Store {
    /// Calls `reread` now, and again whenever documents that servers have in memory were changed, by whichever node:
    /// users, roles, and those of the collections of `config` that this module lists. It must not wait for other nodes,
    /// nor for those that write such documents; an error is one of the store, and it is called again. Where no other
    /// node shares the data it is not called at all: whoever changes such a document knows.
    ///
    /// # Errors
    /// Those of `reread`.
    pub fn on_changed_settings(
        &self,
        reread: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let Some(members) = &self.members else { return Ok(()) };
        let reread: Reread = Arc::new(reread);
        members.settings.rereading.lock().push(Arc::clone(&reread));
        // Those that were changed before it was known.
        reread()
    }

    /// After a commit of this handle: if it has changed such documents, all servers have read them anew on return.
    ///
    /// # Errors
    /// 24 if a node lives and does not answer: the commit is done nevertheless. Those of the engine.
    pub(crate) fn tell_settings(&self) -> Result<()> {
        let (Some(members), Some(version)) = (&self.members, self.client.settings()) else {
            return Ok(());
        };
        members.follow_settings(version)?;
        members.wait_for_others("read settings that have changed", &|seat| {
            seat.report.settings >= version
        })?;
        self.client.forget_settings(version);
        Ok(())
    }
}
