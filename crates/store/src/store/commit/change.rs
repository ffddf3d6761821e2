//! The one door for changes: every change of a document or of the catalog that a commit makes visible passes
//! `WriteTxn::change` or `Ddl::change`, which both end in [`Store::log_change`].
//!
//! Who wants to know of changes (the change log, counters, the record cache, figures of the profiler) is called
//! from there and from nowhere else. A change is told within its transaction, before the commit: what is logged
//! is visible with it, at its stamp, or not at all. What a failed statement had changed is undone with its
//! entries in the log.
//!
//! Does not pass the door, since no client sees it: index keys of builds, records of sessions, what repair takes
//! out that is no document, and the space of dropped collections.

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_kv::{Space, Txn};

use crate::{Collection, RecordKey, Store, engine_error::engine, store::commit::Client};

/// What changes.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// A document: inserted (no `before`), replaced, or deleted (no `after`).
    Document {
        collection: &'a Collection,
        record: RecordKey<'a>,
        before: Option<Doc<'a>>,
        after: Option<Doc<'a>>,
    },
    /// A collection or view with its indexes: created (no `before`), changed or renamed, or dropped (no
    /// `after`).
    Catalog { before: Option<&'a Collection>, after: Option<&'a Collection> },
}

/// A log of all changes, kept in `Space::Changes` with the commits that make them.
pub trait ChangeLog: Send + Sync {
    /// Writes the entry for a change into `entry`, which is empty; leaves it empty if there is none. `by`:
    /// on whose behalf. Called while the change is staged: it must not call the store.
    fn entry(&self, change: &Change<'_>, by: &Client, entry: &mut Vec<u8>);
}

impl Store {
    /// Appends the change to the log, if there is one.
    pub(crate) fn log_change(&self, txn: &mut dyn Txn, change: &Change<'_>) -> Result<()> {
        let Some(log) = &self.change_log else { return Ok(()) };
        let mut entry = Vec::new();
        log.entry(change, &self.client, &mut entry);
        match entry.is_empty() {
            true => Ok(()),
            false => txn.append(Space::Changes, &entry).map_err(engine),
        }
    }
}
