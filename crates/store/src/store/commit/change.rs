//! The single hook for changes: every change of a document or of the catalog that a commit makes visible passes
//! `WriteTxn::change` or `Ddl::change`, which both call [`Store::log_change`].
//!
//! All consumers of changes (the change log, the counters, the record cache, the profiler's figures) are called
//! from there and from nowhere else.
//!
//!   insert / update / delete  -->  WriteTxn::change  --+
//!                                                      +-->  Store::log_change  -->  Space::Changes
//!   create / drop / rename    -->  Ddl::change       --+
//!
//! Invariants
//! - A change is logged within its own transaction, before the commit: its log entry becomes visible together with
//!   the change, at the same stamp, or not at all.
//! - Rolling back a failed statement also rolls back its log entries.
//!
//! Changes that no client can see bypass the hook: index keys of builds, session records, invalid records that
//! repair removes, and the key ranges of dropped collections.

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_kv::{Space, Txn};

use crate::{Collection, RecordKey, Store, engine_error::engine, store::commit::Client};

/// A change of a document or of the catalog.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// A document: inserted (no `before`), replaced, or deleted (no `after`).
    Document {
        collection: &'a Collection,
        record: RecordKey<'a>,
        before: Option<Doc<'a>>,
        after: Option<Doc<'a>>,
    },
    /// A collection or view with its indexes: created (no `before`), modified or renamed, or dropped (no `after`).
    Catalog { before: Option<&'a Collection>, after: Option<&'a Collection> },
}

/// A log of all changes, stored in `Space::Changes` within the commits that make them.
pub trait ChangeLog: Send + Sync {
    /// Writes the log entry for a change into `entry`, which is empty; leaves it empty if the change has no entry.
    /// `by`: the client that makes the change. Called while the change is staged: it must not call the store.
    fn entry(&self, change: &Change<'_>, by: &Client, entry: &mut Vec<u8>);
}

impl Store {
    /// Appends the change to the log, if a log is configured.
    pub(crate) fn log_change(&self, txn: &mut dyn Txn, change: &Change<'_>) -> Result<()> {
        let Some(log) = &self.change_log else { return Ok(()) };
        let mut entry = Vec::new();
        log.entry(change, &self.client, &mut entry);
        match entry.is_empty() {
            true => Ok(()),
            false => txn.append(Space::Changes, &entry, false).map_err(engine),
        }
    }
}
