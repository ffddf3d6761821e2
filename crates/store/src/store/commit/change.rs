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
//!   the change, at one of the commit's stamps, or not at all.
//! - Rolling back a failed statement also rolls back its log entries.
//!
//! Changes that no client can see bypass the hook: index keys of builds, session records, invalid records that
//! repair removes, and the key ranges of dropped collections.

use std::{
    cell::RefCell,
    sync::Arc,
    sync::atomic::Ordering::{Relaxed, SeqCst},
};

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};
use nagi_kv::{CommitStamp, Durability, Space, Txn, TxnOptions};

use crate::{
    Collection, Namespace, RecordKey, Store, Uuid,
    catalog::load_counters,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    record,
    store::{
        change_log::{self, APPLY_OPS_BYTES_MAX, ChangedIds, IdHash, Trimmed},
        commit::Client,
    },
};

/// A larger entry could not be sent to readers of the log, which get some fields more.
const ENTRY_BYTES_MAX: usize = nagi_bson::DOC_BYTES_MAX + (15 << 10);

thread_local! {
    static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A change of a document or of the catalog.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// A document: inserted (no `before`), replaced, or deleted (no `after`).
    Document {
        collection: &'a Collection,
        record: RecordKey<'a>,
        before: Option<Doc<'a>>,
        after: Option<Doc<'a>>,
        /// Of an update: its kind.
        edit: EditKind,
    },
    /// A collection or view with its indexes: created (no `before`), modified or renamed, or dropped (no `after`).
    Catalog {
        before: Option<&'a Collection>,
        after: Option<&'a Collection>,
        /// The collection that a rename replaces; its drop is no change of its own.
        target: Option<Replaced>,
        /// By `collMod`, which is a change also if all options are as before.
        by_coll_mod: bool,
    },
    /// A database with all its collections, whose drops are changes of their own.
    DatabaseDropped(&'a str),
}

/// The kinds of updates, which the log tells by how it writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EditKind {
    /// `$set` and its kin: the log has the paths that changed.
    Modifiers,
    /// A pipeline: the log has what is shorter for each value, the value or its difference.
    Pipeline,
    /// The log has the document.
    Replacement,
}

/// A collection that a rename replaces.
#[derive(Clone, Copy, Debug)]
pub struct Replaced {
    pub uuid: Uuid,
    /// The number of its documents.
    pub count: i64,
}

/// How the entry of a change is joined to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joins {
    /// It has a stamp of its own.
    No,
    /// It shares the stamp of the other changes of its transaction.
    WithinTransaction,
}

/// The entries that a transaction has logged.
#[derive(Clone, Copy, Default)]
pub(crate) struct Logged {
    /// Stamps that its entries will have.
    stamps: i64,
    /// Bytes of all entries.
    bytes: i64,
    /// Bytes of the entries that are joined so far.
    joined_bytes: usize,
    /// Number of the entries within a client's transaction.
    ops: i64,
    /// The documents that it has changed.
    ids: ChangedIds,
    /// The last entry is of a retryable write.
    of_statement: bool,
}

/// A log of all changes, stored in `Space::Changes` within the commits that make them.
pub trait ChangeLog: Send + Sync {
    /// Writes the log entry for a change into `entry`, which is empty; leaves it empty if the change has no entry.
    /// `by`: the client that makes the change. Called while the change is staged: it must not call the store.
    fn entry(&self, change: &Change<'_>, by: &Client, entry: &mut Vec<u8>) -> Joins;

    /// Writes an entry that records no change, such as those of `appendOplogNote`.
    fn note(&self, _object: Doc<'_>, _entry: &mut Vec<u8>) {}

    /// The entries from now on are of this term of the replica set.
    fn begin_term(&self, _term: i64) {}
}

fn append(
    txn: &mut dyn Txn,
    (entry, marks): (&mut Vec<u8>, bool),
    joins: Joins,
    logged: &mut Logged,
) -> Result<()> {
    let shown_bytes = change_log::shown_bytes(entry);
    if shown_bytes > ENTRY_BYTES_MAX {
        bail!(
            Code::BSON_OBJECT_TOO_LARGE,
            "the oplog entry of this change has {shown_bytes} bytes, which is too large"
        );
    }
    let follows = joins == Joins::WithinTransaction && logged.stamps > 0;
    let joined = follows && logged.joined_bytes + entry.len() <= APPLY_OPS_BYTES_MAX;
    if follows && !joined && marks {
        change_log::mark_continued(entry, logged.ops);
    }
    logged.ops += i64::from(joins == Joins::WithinTransaction);
    logged.joined_bytes = entry.len() + if joined { logged.joined_bytes } else { 0 };
    logged.stamps += i64::from(!joined);
    logged.bytes += entry.len() as i64;
    txn.append(Space::Changes, entry, joined).map_err(engine)
}

impl Store {
    /// Appends the change to the log, if a log is configured. `logged`: what the transaction has logged so far.
    pub(crate) fn log_change(
        &self,
        txn: &mut dyn Txn,
        change: &Change<'_>,
        logged: &mut Logged,
    ) -> Result<()> {
        let Some(log) = &self.change_log else { return self.count_unlogged(txn, change) };
        let mut entry = ENTRY.take();
        entry.clear();
        let joins = log.entry(change, &self.client, &mut entry);
        let appended = match entry.is_empty() {
            true => Ok(()),
            false => {
                self.note_id(change, &mut logged.ids);
                self.link(change, &mut entry, logged);
                // Readers of lists find the entries of a commit together.
                append(txn, (&mut entry, self.lists.is_none()), joins, logged)
            }
        };
        if entry.capacity() <= record::SCRATCH_BYTES_MAX {
            ENTRY.set(entry);
        }
        appended
    }

    /// Counts a change that the log of a replica set should have, but does not get, because the server runs as no
    /// member of it.
    fn count_unlogged(&self, txn: &mut dyn Txn, change: &Change<'_>) -> Result<()> {
        if !self.counts_unlogged.load(Relaxed) || !change_log::belongs_to_log(change) {
            return Ok(());
        }
        txn.add(Space::Counters, &Ident::UNLOGGED.bytes(), &[1, 0]).map_err(engine)
    }

    /// From now on, changes that are not logged are counted, see [`Store::has_unlogged_changes`].
    pub fn count_unlogged_changes(&self) {
        self.counts_unlogged.store(true, Relaxed);
    }

    /// True if something was changed since the log was cut that the log does not have.
    pub fn has_unlogged_changes(&self) -> Result<bool> {
        Ok(load_counters(self.engine.latest(), Ident::UNLOGGED)?.0 > 0)
    }

    /// Links the entry to the one before in the same commit, if both are of a retryable write.
    fn link(&self, change: &Change<'_>, entry: &mut [u8], logged: &mut Logged) {
        let retryable = self.client.statement().is_some_and(|s| s.number >= 0 && s.id >= 0);
        let of_statement = retryable && change_log::changed_id(change).is_some();
        if of_statement && logged.of_statement {
            change_log::mark_following(entry);
        }
        logged.of_statement = of_statement;
    }

    /// Notes which document is changed, for the streams that watch documents. If there are none now, it is not looked
    /// at.
    fn note_id(&self, change: &Change<'_>, ids: &mut ChangedIds) {
        let watched = self.feed.watches.has_ids();
        match watched.then(|| change_log::changed_id(change)).flatten() {
            Some(id) => ids.add(IdHash::of(id)),
            None => ids.add_others(),
        }
    }

    /// Appends an entry that records no change, in a commit of its own. Returns its stamp, or that of the newest commit
    /// if there is no log.
    pub fn append_note(&self, object: Doc<'_>) -> Result<CommitStamp> {
        let Some(log) = &self.change_log else { return Ok(self.last_stamp()) };
        let mut entry = Vec::new();
        log.note(object, &mut entry);
        let mut txn = self.engine.begin(TxnOptions::default()).map_err(engine)?;
        txn.append(Space::Changes, &entry, false).map_err(engine)?;
        let logged = Logged { stamps: 1, bytes: entry.len() as i64, ..Logged::default() };
        self.count_logged(&mut *txn, &logged)?;
        let stamp = self.commit(txn, Durability::Buffered)?;
        self.logged(&logged, stamp, std::iter::empty());
        Ok(stamp)
    }

    /// The changes from now on are of this term of the replica set.
    pub fn begin_term(&self, term: i64) {
        if let Some(log) = &self.change_log {
            log.begin_term(term);
        }
    }

    /// The collection that shows the log.
    pub fn shown_change_log(&self) -> Option<Arc<Collection>> {
        self.log_shown.load_full()
    }

    /// True if changes are logged.
    pub fn has_change_log(&self) -> bool {
        self.change_log.is_some()
    }

    /// Adds the entries of a transaction to the stored counters of the collection that shows the log.
    pub(crate) fn count_logged(&self, txn: &mut dyn Txn, logged: &Logged) -> Result<()> {
        if logged.stamps == 0 {
            return Ok(());
        }
        let shown = self.log_shown.load();
        let Some(shown) = shown.as_ref() else { return Ok(()) };
        let added = [logged.stamps, logged.bytes];
        txn.add(Space::Counters, &shown.ident.bytes(), &added).map_err(engine)
    }

    /// Subtracts what is to be removed from the log, and the changes that it does not have, and stores the stamp with
    /// which it begins from now on.
    pub(crate) fn count_trimmed(
        &self,
        shown: &Collection,
        trimmed: Trimmed,
        (first, unlogged): (u64, i64),
    ) -> Result<()> {
        let mut txn = self.engine.begin(TxnOptions::default()).map_err(engine)?;
        let removed = [-trimmed.documents, -trimmed.bytes];
        txn.add(Space::Counters, &shown.ident.bytes(), &removed).map_err(engine)?;
        if unlogged > 0 {
            let reported = [-unlogged, 0];
            txn.add(Space::Counters, &Ident::UNLOGGED.bytes(), &reported).map_err(engine)?;
        }
        let key = Ident(0).catalog_key(CatalogKey::LogFirst);
        txn.put(Space::Catalog, &key, &first.to_le_bytes()).map_err(engine)?;
        self.commit(txn, Durability::Buffered)?;
        shown.state.add_to_counters(-trimmed.documents, -trimmed.bytes);
        Ok(())
    }

    /// Reloads the counters of the log after a commit whose outcome is unknown.
    pub(crate) fn reload_log_counters(&self) {
        self.log_newest.store(0, SeqCst);
        if let Some(shown) = self.shown_change_log() {
            self.reload_counters(&shown);
        }
    }

    /// Tells readers of the log that a transaction with changes of these collections was committed.
    pub(crate) fn logged<'n>(
        &self,
        logged: &Logged,
        stamp: CommitStamp,
        changed: impl Iterator<Item = &'n Namespace>,
    ) {
        if logged.stamps == 0 {
            return;
        }
        self.log_newest.fetch_max(stamp.0, SeqCst);
        // Not those of lists: see `Watches::announces`.
        self.feed.watches.announce(changed, &logged.ids);
        if let Some(shown) = self.log_shown.load().as_ref() {
            shown.state.add_to_counters(logged.stamps, logged.bytes);
            shown.state.arrivals.announce();
        }
    }
}
