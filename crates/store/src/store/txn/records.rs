//! Documents: inserted, modified, deleted.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use super::WriteTxn;
use crate::{
    Collection, RecordId, RecordKey,
    cache::Cache,
    engine_error::engine,
    index, memory, record,
    record_key::{Layout, StorageKey},
    store::{
        commit::change::{Change, EditKind},
        contended::Contended,
        insert,
    },
};

/// The change of a document, with its content before and after.
#[derive(Clone, Copy)]
enum Changed<'d> {
    Inserted(Doc<'d>),
    Updated(EditKind, Doc<'d>, Doc<'d>),
    Deleted(Doc<'d>),
}

/// How a key is put; see [`Txn::put_new`] and [`Txn::put_over`].
#[derive(Clone, Copy)]
enum Put<'d> {
    New,
    /// It replaces the record of this document.
    Over(Doc<'d>),
}

impl WriteTxn<'_> {
    /// Stores a document. `_id` is moved to the front or generated; an empty top-level timestamp is set to the
    /// current time. Codes 2, 15, 52, 121, 11000, 171 and those of index keys.
    pub fn insert(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<RecordId> {
        let mut rewritten = Vec::new();
        let doc = insert::prepare(doc, self.store, self.keep_empty_timestamps, &mut rewritten)?;
        self.insert_checked(collection, doc)
    }

    /// Inserts a document built by an upsert: it begins with `_id`, and its empty timestamps are kept.
    ///
    /// # Errors
    /// The errors of [`WriteTxn::insert`].
    pub fn insert_made(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<RecordId> {
        insert::check_made(doc)?;
        self.insert_checked(collection, doc)
    }

    fn insert_checked(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<RecordId> {
        let at = self.touch(collection)?;
        let collection = Arc::clone(&self.touched[at].collection);
        if !self.bypass_validation {
            collection.check_valid(doc)?;
        }
        if collection.options.capped {
            self.enter_capped(&collection, doc)?;
        }
        let id = match collection.layout {
            Layout::Ids => self.claim_id(&collection, doc)?,
            Layout::Numbers | Layout::Stamps | Layout::PreImages => {
                RecordId::Id(self.next_record_number(&collection)?)
            }
        };
        // The number is new, or the key is locked and was looked up.
        self.put_record(&collection, id.key(), doc, Put::New)?;
        self.note_facts(&collection, doc)?;
        for index in collection.written_indexes() {
            self.insert_keys(&collection, index, id.key(), doc)?;
        }
        self.change(at, &collection, id.key(), Changed::Inserted(doc))?;
        if collection.options.capped {
            self.trim_capped(&collection, at)?;
        }
        Ok(id)
    }

    fn put_record(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        doc: Doc<'_>,
        put: Put<'_>,
    ) -> Result<()> {
        let mut value = std::mem::take(&mut self.scratch.value);
        value.clear();
        record::encode(doc, || self.store.packing(collection), &mut value);
        let key = id.stored(collection.ident);
        let done = match put {
            Put::New => self.txn().put_new(collection.space, &key, &value),
            // Its stored form is known, and a small change of the document is one of the record.
            Put::Over(old) if !record::may_be_packed(old) && !record::is_packed(&value) => {
                let mut before = std::mem::take(&mut self.scratch.before);
                before.clear();
                record::encode_plain(old, &mut before);
                let done = self.txn().put_over(collection.space, &key, &before, &value);
                memory::renew(&mut before);
                self.scratch.before = before;
                done
            }
            Put::Over(_) => self.txn().put(collection.space, &key, &value),
        };
        // The transaction has a copy, and the oplog and the commit make further ones.
        memory::renew(&mut value);
        self.scratch.value = value;
        self.had(done, Contended::new(collection.space, key))
    }

    /// Records the key if another transaction has locked it, or may turn out to have changed it.
    fn had(&mut self, done: nagi_kv::Result<()>, key: Contended) -> Result<()> {
        if matches!(done, Err(nagi_kv::Error::Conflict)) {
            self.contended = Some(key);
        } else if !self.store.promises.conflicts_at_once && self.contended.is_none() {
            // If the commit has a conflict, then probably on this one.
            self.contended = Some(key);
        }
        done.map_err(engine)
    }

    /// Locks a key that is not that of a record which is about to be written: another transaction that has it is then
    /// waited for, like one that has changed a record.
    pub(super) fn lock_key(&mut self, space: Space, key: &[u8]) -> Result<()> {
        let done = self.txn().lock(space, key);
        self.had_key(done, space, key)
    }

    /// Records the key if another transaction has it.
    pub(super) fn had_key(
        &mut self,
        done: nagi_kv::Result<()>,
        space: Space,
        key: &[u8],
    ) -> Result<()> {
        if matches!(done, Err(nagi_kv::Error::Conflict)) {
            self.contended = Some(Contended::new(space, StorageKey::copied(key)));
        }
        done.map_err(engine)
    }

    /// The record on which this transaction had a conflict, or may have one at its commit.
    pub(crate) fn contended(&self) -> Option<Contended> {
        self.contended.clone()
    }

    /// Modifies the record `id`, whose content as read by this transaction is `old`. The `_id` must not change (66).
    pub fn update(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        old: Doc<'_>,
        new: Doc<'_>,
    ) -> Result<()> {
        self.update_by(EditKind::Modifiers, collection, id, old, new)
    }

    /// As [`WriteTxn::update`], for an update of this kind: of a replacement the log gets the document, not the
    /// difference.
    pub fn update_by(
        &mut self,
        edit: EditKind,
        collection: &Collection,
        id: RecordKey<'_>,
        old: Doc<'_>,
        new: Doc<'_>,
    ) -> Result<()> {
        let at = self.touch(collection)?;
        let collection = Arc::clone(&self.touched[at].collection);
        insert::check_update(new)?;
        if !self.bypass_validation {
            collection.check_valid_update(old, new)?;
        }
        let (old_id, new_id) = (old.get("_id"), new.get("_id"));
        if !nagi_bson::compare::equal(old_id, new_id) {
            bail!(
                Code::IMMUTABLE_FIELD,
                "Performing an update on the path '_id' would modify the immutable field '_id'"
            );
        }
        self.put_record(&collection, id, new, Put::Over(old))?;
        self.note_facts(&collection, new)?;
        for index in collection.written_indexes() {
            if insert::keys_may_differ(&index.spec, old, new) {
                self.update_keys(&collection, index, id, old, new)?;
            }
        }
        let changed = Changed::Updated(edit, old, new);
        self.change(at, &collection, id, changed)
    }

    /// Deletes the record `id`, whose content as read by this transaction is `old`.
    pub fn delete(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        old: Doc<'_>,
    ) -> Result<()> {
        let at = self.touch(collection)?;
        let collection = Arc::clone(&self.touched[at].collection);
        let key = id.stored(collection.ident);
        let done = self.txn().delete(collection.space, &key);
        self.had(done, Contended::new(collection.space, key))?;
        for index in collection.written_indexes() {
            self.delete_keys(index, id, old)?;
        }
        self.change(at, &collection, id, Changed::Deleted(old))
    }

    /// The hook for changes of documents, see `change`: updates the counters, the record cache and the change log.
    fn change(
        &mut self,
        at: usize,
        collection: &Collection,
        record: RecordKey<'_>,
        changed: Changed<'_>,
    ) -> Result<()> {
        let (before, after, edit) = match changed {
            Changed::Inserted(after) => (None, Some(after), EditKind::Replacement),
            Changed::Updated(edit, before, after) => (Some(before), Some(after), edit),
            Changed::Deleted(before) => (Some(before), None, EditKind::Replacement),
        };
        let touched = &mut self.touched[at];
        touched.is_changed = true;
        let bytes = |doc: Option<Doc<'_>>| doc.map_or(0, |doc| doc.len() as i64);
        touched.count += i64::from(after.is_some()) - i64::from(before.is_some());
        touched.bytes += bytes(after) - bytes(before);
        if self.store.private().is_some() {
            // Its statement is told of, not only the commit, which does not say what was written.
            self.store.client.note_changed(&collection.namespace);
        }
        if let Some(before) = before {
            self.forget(collection, before.get("_id"));
        }
        let change = Change::Document { collection, record, before, after, edit };
        let txn = self.txn.as_mut().expect("taken by the commit only");
        self.store.log_change(&mut **txn, &change, &mut self.logged)
    }

    /// Removes a record that is not a valid document, and subtracts it from the counters. Its index keys cannot be
    /// determined and remain.
    pub(crate) fn take_out(
        &mut self,
        collection: &Collection,
        key: &[u8],
        bytes: i64,
    ) -> Result<()> {
        let at = self.touch(collection)?;
        if collection.layout == Layout::Numbers {
            // Its number must not be reused while index keys still refer to it.
            self.next_record_number(collection)?;
        }
        self.txn().delete(collection.space, key).map_err(engine)?;
        self.touched[at].count -= 1;
        self.touched[at].bytes -= bytes;
        Ok(())
    }

    /// Moves a record to its correct key, if no record is there. Its index keys are not changed, because the
    /// indexes are rebuilt afterwards.
    pub(crate) fn move_record(
        &mut self,
        collection: &Collection,
        from: &[u8],
        to: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        self.touch(collection)?;
        let space = collection.space;
        if self.txn().get(space, to, &mut Vec::new()).map_err(engine)?.is_some() {
            return Ok(false);
        }
        self.txn().delete(space, from).map_err(engine)?;
        self.txn().put(space, to, value).map_err(engine)?;
        if let Some(index) = collection.id_index()
            && let Some(ceiling) = &index.ceiling
        {
            // The next insert must not assume that the key is free.
            ceiling.rise(&to[4..], || self.store.latest().last_key(index))?;
        }
        Ok(true)
    }

    /// Marks the cached copy of this document as stale once this transaction commits.
    fn forget(&mut self, collection: &Collection, id: Value<'_>) {
        if self.store.cache.is_some()
            && let Some(index) = collection.id_index()
        {
            self.scratch.key.clear();
            index::append_id(index, id, &mut self.scratch.key);
            self.changed.push(Cache::hash(collection.ident, &self.scratch.key));
        }
    }
}
