//! `setUserWriteBlockMode`: while it is on, writes to user databases are refused (371), except those of users with the
//! privilege to bypass it. The state survives restarts.
//!
//! [`crate::core::command::Context::begin_write`] checks it: every command that writes passes its database there.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use nagi_bson::DocBuf;
use nagi_error::Result;
use nagi_store::Store;
use parking_lot::Mutex;

use crate::settings::persisted;

const COLLECTION: &str = "user_writes_critical_sections";
/// MongoDB's key of the document that covers all databases.
const ID: &str = "";

#[derive(Default)]
pub(crate) struct WriteBlock {
    on: AtomicBool,
    /// One at a time reads it: the last one has read last.
    rereading: Mutex<()>,
}

impl WriteBlock {
    /// Reads the state that an earlier run stored.
    pub(crate) fn open(store: &Store) -> Result<WriteBlock> {
        let block = WriteBlock::default();
        block.reread(store)?;
        Ok(block)
    }

    /// Reads the state anew.
    pub(crate) fn reread(&self, store: &Store) -> Result<()> {
        let _one = self.rereading.lock();
        let kept = persisted::read(store, COLLECTION, ID)?;
        self.on.store(kept.is_some_and(|doc| doc.get("blockUserWrites").is_truthy()), SeqCst);
        Ok(())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(SeqCst)
    }

    /// Returns true if writes to this database are refused.
    pub(crate) fn covers(&self, db: &str) -> bool {
        self.is_on() && !matches!(db, "admin" | "config" | "local")
    }

    pub(crate) fn set(&self, store: &Store, on: bool) -> Result<()> {
        let doc = DocBuf::build(|w| {
            w.put("_id", ID);
            w.put("blockNewUserShardedDDL", false);
            w.put("blockUserWrites", on);
        });
        persisted::write(store, COLLECTION, doc.as_doc())?;
        self.reread(store)
    }
}
