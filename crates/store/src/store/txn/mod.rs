//! A write transaction: changes records, index keys and counters together.
//!
//!   begin --> touch (enter gate, newest version) --> put record, index keys --> commit: engine, counters, cache
//!                        ^                                  |
//!                        +---- next collection -------------+     conflict: a new transaction is begun
//!
//! Each written collection is entered through its gate once, in its newest version; the index list of that version
//! is used, independent of the version that the caller holds. Counter changes are summed in the transaction and
//! added once, at commit. Buffers belong to the thread and are reused: an insert allocates only what the engine
//! allocates.

mod bucket;
mod by_ids;
pub(crate) mod capped;
mod keys;

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    },
};

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_kv::{CommitStamp, Durability, Space, Txn};

use crate::{
    Collection, Index, Namespace, Reader, RecordId, RecordKey, Snapshot, Store, WriteOptions,
    cache::Cache,
    catalog::Pass,
    engine_error::{UNDETERMINED, engine},
    index::{self, keygen::KeySink},
    memory, record,
    record_key::Layout,
    store::{
        commit::change::{Change, EditKind, Logged},
        contended::Contended,
        insert,
        written::KeysWritten,
    },
};

pub(crate) use keys::{duplicate_key, fill_sink};

/// One attempt of [`Store::write`].
pub struct WriteTxn<'s> {
    store: &'s Store,
    /// `None` after the commit.
    txn: Option<Box<dyn Txn>>,
    pub(crate) touched: Vec<Touched>,
    /// Indexes that became multikey on additional paths.
    multikey: Vec<(Arc<Index>, Vec<u64>)>,
    /// Hashes of the cache entries that become stale with the commit.
    changed: Vec<u64>,
    scratch: Box<Scratch>,
    /// Set after a conflict: the transaction cannot continue and must be retried.
    conflict: bool,
    bypass_validation: bool,
    keep_empty_timestamps: bool,
    /// Number of earlier attempts of this `write`.
    attempt: u32,
    /// The record that another transaction was writing.
    contended: Option<Contended>,
    pub(crate) keys: KeysWritten,
    logged: Logged,
}

/// A collection written by this transaction.
pub(crate) struct Touched {
    pub(crate) collection: Arc<Collection>,
    pub(crate) count: i64,
    pub(crate) bytes: i64,
    /// In a capped collection: the records below this id are deleted.
    pub(crate) first_record: i64,
    /// A document was inserted, updated or deleted, and not only locked.
    is_changed: bool,
    pass: Pass,
}

/// A collection whose gate was entered, before it is known that the transaction may write it.
struct Entered<'c> {
    collection: &'c Collection,
    pass: Option<Pass>,
}

impl Entered<'_> {
    /// Keeps the transaction inside the gate until [`Touched`] is dropped.
    fn stay(mut self) -> Pass {
        self.pass.take().expect("it was entered")
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.collection.state.leave(&pass);
        }
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        self.collection.state.leave(&self.pass);
    }
}

/// The origin of an index key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutBy {
    Writer,
    /// An index build, record by record.
    Build,
    /// An index build that applies the changes that writers logged during the build.
    Drain,
}

/// The change of a document, with its content before and after.
#[derive(Clone, Copy)]
enum Changed<'d> {
    Inserted(Doc<'d>),
    Updated(EditKind, Doc<'d>, Doc<'d>),
    Deleted(Doc<'d>),
}

/// How a key is put; see [`Txn::put_exclusive`] and [`Txn::put_over`].
#[derive(Clone, Copy)]
enum Put<'d> {
    Exclusive,
    /// It replaces the record of this document.
    Over(Doc<'d>),
}

/// Buffers that outlive the transaction.
#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
    before: Vec<u8>,
    old_keys: KeySink,
    new_keys: KeySink,
}

impl Scratch {
    /// Memory held, in bytes.
    fn bytes(&self) -> usize {
        let keys = self.old_keys.heap_bytes() + self.new_keys.heap_bytes();
        self.key.capacity() + self.value.capacity() + self.before.capacity() + keys
    }
}

/// The state of a transaction that waits for its next statement.
pub(crate) struct Suspended {
    txn: Box<dyn Txn>,
    touched: Vec<Touched>,
    multikey: Vec<(Arc<Index>, Vec<u64>)>,
    changed: Vec<u64>,
    conflict: bool,
    contended: Option<Contended>,
    pub(crate) logged: Logged,
}

impl Suspended {
    pub(crate) fn new(txn: Box<dyn Txn>) -> Suspended {
        let (touched, multikey, changed) = (Vec::new(), Vec::new(), Vec::new());
        let (conflict, contended, logged) = (false, None, Logged::default());
        Suspended { txn, touched, multikey, changed, conflict, contended, logged }
    }

    pub(crate) fn read(&self) -> &dyn Txn {
        &*self.txn
    }

    pub(crate) fn txn(&mut self) -> &mut dyn Txn {
        &mut *self.txn
    }

    /// The record on which it had a conflict.
    pub(crate) fn contended(&self) -> Option<Contended> {
        self.contended.clone()
    }

    /// Returns true if it has written to the collection.
    pub(crate) fn has_touched(&self, collection: &Collection) -> bool {
        self.touched.iter().any(|touched| touched.collection.ident == collection.ident)
    }
}

thread_local! {
    static SCRATCH: RefCell<Option<Box<Scratch>>> = const { RefCell::new(None) };
}

impl<'s> WriteTxn<'s> {
    pub(crate) fn begin(
        store: &'s Store,
        options: &WriteOptions<'_>,
        attempt: u32,
        contended: Option<Contended>,
    ) -> Result<WriteTxn<'s>> {
        let mut txn = store.engine.begin(Contended::options(contended.as_ref())).map_err(engine)?;
        if let Some(contended) = &contended {
            contended.lock(&mut *txn, options)?;
        }
        let scratch = SCRATCH.take().unwrap_or_default();
        Ok(WriteTxn {
            store,
            txn: Some(txn),
            touched: Vec::new(),
            multikey: Vec::new(),
            changed: Vec::new(),
            scratch,
            conflict: false,
            bypass_validation: options.bypass_validation,
            keep_empty_timestamps: options.keep_empty_timestamps,
            attempt,
            contended: None,
            keys: KeysWritten::default(),
            logged: Logged::default(),
        })
    }

    /// Resumes a transaction of several statements.
    pub(crate) fn resume(store: &'s Store, from: Suspended, options: &WriteOptions<'_>) -> Self {
        WriteTxn {
            store,
            txn: Some(from.txn),
            touched: from.touched,
            multikey: from.multikey,
            changed: from.changed,
            scratch: SCRATCH.take().unwrap_or_default(),
            conflict: from.conflict,
            bypass_validation: options.bypass_validation,
            keep_empty_timestamps: options.keep_empty_timestamps,
            attempt: 0,
            contended: None,
            keys: KeysWritten::default(),
            logged: from.logged,
        }
    }

    /// Suspends the transaction until its next statement.
    pub(crate) fn suspend(mut self) -> Suspended {
        Suspended {
            txn: self.txn.take().expect("taken by the commit only"),
            touched: std::mem::take(&mut self.touched),
            multikey: std::mem::take(&mut self.multikey),
            changed: std::mem::take(&mut self.changed),
            conflict: self.conflict,
            contended: self.contended.take(),
            logged: std::mem::take(&mut self.logged),
        }
    }

    /// Bytes staged so far.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.txn.as_ref().map_or(0, |txn| txn.staged_bytes())
    }

    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The collection in the newest catalog.
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.store.collection(namespace)
    }

    /// The transaction's snapshot without its own writes: a record that was changed since cannot be claimed.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let txn = self.txn.as_ref().expect("taken by the commit only");
        Ok(Snapshot::of_engine(txn.snapshot().map_err(engine)?))
    }

    /// Reads through the transaction: its snapshot with its own writes. A new reader is needed after a write.
    pub fn reader(&self) -> Reader<'_> {
        Reader::of(&**self.txn.as_ref().expect("taken by the commit only"))
    }

    pub(crate) fn txn(&mut self) -> &mut dyn Txn {
        &mut **self.txn.as_mut().expect("taken by the commit only")
    }

    /// Enters the collection; returns its position in `touched`.
    pub(crate) fn touch(&mut self, collection: &Collection) -> Result<usize> {
        let same = |touched: &Touched| touched.collection.ident == collection.ident;
        if let Some(at) = self.touched.iter().position(same) {
            return Ok(at);
        }
        let pass = Entered { collection, pass: Some(collection.state.enter()) };
        // The check follows the entry into the gate: the freezer waits for the writers that are inside already. It
        // precedes the read of the newest version: the names change before the collection is unfrozen.
        if collection.state.frozen.load(SeqCst) > 0 {
            return Err(engine(nagi_kv::Error::Conflict));
        }
        let current = collection.state.current();
        // A renamed collection is not the requested one.
        let named = current.filter(|current| current.namespace == collection.namespace);
        let Some(current) = named else {
            if self.attempt == 0 {
                // The retry looks the collection up in the transaction and finds the current one, or none.
                return Err(engine(nagi_kv::Error::Conflict));
            }
            let (ns, uuid) = (&collection.namespace, collection.uuid);
            bail!(Code::QUERY_PLAN_KILLED, "collection dropped or renamed: {ns}. UUID {uuid}");
        };
        if current.is_view() {
            bail!(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {} is a view, not a collection",
                current.namespace
            );
        }
        if current.shows_log() {
            bail!(
                Code::INVALID_NAMESPACE,
                "cannot write to '{}': it shows the changes of the other collections",
                current.namespace
            );
        }
        if current.options.capped && self.store.private().is_some() {
            bail!(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Collection '{}' is a capped collection. Writes in transactions are not allowed on \
                 capped collections.",
                current.namespace
            );
        }
        self.touched.push(Touched {
            collection: current,
            count: 0,
            bytes: 0,
            first_record: 0,
            is_changed: false,
            pass: pass.stay(),
        });
        Ok(self.touched.len() - 1)
    }

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
        // The number is new, or the key is locked.
        self.put_record(&collection, id.key(), doc, Put::Exclusive)?;
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
            Put::Exclusive => self.txn().put_exclusive(collection.space, &key, &value),
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

    /// Records the key if another transaction has locked it.
    fn had(&mut self, done: nagi_kv::Result<()>, key: Contended) -> Result<()> {
        if matches!(done, Err(nagi_kv::Error::Conflict)) {
            self.contended = Some(key);
        }
        done.map_err(engine)
    }

    /// The record on which this transaction had a conflict.
    pub(crate) fn contended(&self) -> Option<Contended> {
        self.contended.clone()
    }

    fn next_record_number(&mut self, collection: &Collection) -> Result<i64> {
        let state = &collection.state;
        if state.next_record.load(Acquire) == 0 {
            let _one = state.next_record_lock.lock();
            if state.next_record.load(Acquire) == 0 {
                let mut last = self.store.latest().scan(collection, false)?;
                let found = last.advance()?.then(|| last.id().number()).flatten();
                let next = found.map_or(1, |number| number + 1);
                state.next_record.store(next, std::sync::atomic::Ordering::Release);
            }
        }
        nagi_percore::note_shared("record ids", 1, 1);
        Ok(state.next_record.fetch_add(1, AcqRel))
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

    /// As [`WriteTxn::update`], for an update that is a replacement: the log gets the document, not the difference.
    pub fn replace(
        &mut self,
        collection: &Collection,
        id: RecordKey<'_>,
        old: Doc<'_>,
        new: Doc<'_>,
    ) -> Result<()> {
        self.update_by(EditKind::Replacement, collection, id, old, new)
    }

    /// As [`WriteTxn::update`], for an update of this kind.
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

    /// Enters the collection before anything of it is written.
    ///
    /// # Errors
    /// 112 if it was dropped, renamed or frozen since it was looked up; if that is known from an earlier attempt, 175.
    pub fn enter(&mut self, collection: &Collection) -> Result<()> {
        self.touch(collection).map(drop)
    }

    /// Locks a record for a following `update` or `delete`. Returns false if another transaction has it, or has
    /// changed it since this transaction's snapshot; the transaction can go on with other records.
    pub fn claim(&mut self, collection: &Collection, id: RecordKey<'_>) -> Result<bool> {
        let at = self.touch(collection)?;
        let current = &self.touched[at].collection;
        let (space, key) = (current.space, id.stored(current.ident));
        match self.txn().lock(space, &key) {
            Err(nagi_kv::Error::Conflict) => Ok(false),
            other => other.map(|()| true).map_err(engine),
        }
    }

    /// Makes this transaction conflict with other writers of the record, as if it wrote the record itself. A lock
    /// before the first read waits for a while instead of failing at once.
    pub fn lock(&mut self, collection: &Collection, id: RecordKey<'_>) -> Result<()> {
        let at = self.touch(collection)?;
        let current = &self.touched[at].collection;
        let (space, key) = (current.space, id.stored(current.ident));
        self.txn().lock(space, &key).map_err(engine)
    }

    /// Runs `f`; if it fails, its writes are rolled back and the transaction continues. Used for statements of a
    /// batch, which may fail individually. A conflict ends the whole transaction nevertheless.
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (savepoint, keys, logged) = (self.txn().savepoint(), self.keys, self.logged);
        let sums: Vec<(i64, i64, i64)> =
            self.touched.iter().map(|t| (t.count, t.bytes, t.first_record)).collect();
        let multikey_count = self.multikey.len();
        let result = f(self);
        if let Err(error) = &result {
            if error.code() == Code::WRITE_CONFLICT {
                self.conflict = true;
                return result;
            }
            self.txn().rollback_to(savepoint);
            (self.keys, self.logged) = (keys, logged);
            // Their catalog keys are rolled back too and must not be considered stored.
            self.multikey.truncate(multikey_count);
            for (at, touched) in self.touched.iter_mut().enumerate() {
                (touched.count, touched.bytes, touched.first_record) =
                    sums.get(at).copied().unwrap_or((0, 0, 0));
            }
        }
        result
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

    /// Waits for the memory of the engine's batch, which is a copy of the staged writes. That of a client's transaction
    /// is charged while it is staged.
    ///
    /// # Errors
    /// 146 if there is none in time.
    fn wait_for_batch(&mut self) -> Result<()> {
        match self.store.private() {
            Some(_) => Ok(()),
            None => memory::wait(self.staged_bytes(), "the writes of a commit"),
        }
    }

    /// Commits; on success the counters in memory are updated.
    pub(crate) fn commit(mut self, durability: Durability) -> Result<CommitStamp> {
        if self.conflict {
            return Err(engine(nagi_kv::Error::Conflict));
        }
        memory::check_refused()?;
        self.wait_for_batch()?;
        let mut txn = self.txn.take().expect("taken here only");
        for touched in &self.touched {
            if touched.count != 0 || touched.bytes != 0 {
                let key = touched.collection.ident.bytes();
                txn.add(Space::Counters, &key, &[touched.count, touched.bytes]).map_err(engine)?;
            }
        }
        self.store.count_logged(&mut *txn, &self.logged)?;
        if let Some(cache) = &self.store.cache {
            self.changed.iter().for_each(|hash| cache.begin_write(*hash));
        }
        let result = self.store.commit(txn, durability);
        if let Some(cache) = &self.store.cache {
            self.changed.iter().for_each(|hash| cache.end_write(*hash));
        }
        let is_undetermined = result.as_ref().is_err_and(|error| error.code() == UNDETERMINED);
        if result.is_ok() || is_undetermined {
            let changed = self.touched.iter().filter(|touched| touched.is_changed);
            changed
                .for_each(|touched| self.store.client.note_changed(&touched.collection.namespace));
        }
        if is_undetermined {
            self.touched.iter().for_each(|touched| self.store.reload_counters(&touched.collection));
            self.store.reload_log_counters();
        }
        let stamp = result?;
        let changed = self.touched.iter().map(|touched| &touched.collection.namespace);
        self.store.logged(&self.logged, changed);
        for touched in &self.touched {
            let state = &touched.collection.state;
            state.add_to_counters(touched.count, touched.bytes);
            if touched.collection.options.capped {
                state.first_record.fetch_max(touched.first_record, Relaxed);
                state.arrivals.announce();
            }
        }
        for (index, bits) in &self.multikey {
            for (durable, bits) in index.multikey.durable.iter().zip(bits) {
                durable.fetch_or(*bits, AcqRel);
            }
        }
        Ok(stamp)
    }
}

impl Drop for WriteTxn<'_> {
    fn drop(&mut self) {
        let scratch = std::mem::take(&mut self.scratch);
        if scratch.bytes() <= record::SCRATCH_BYTES_MAX {
            SCRATCH.set(Some(scratch));
        }
    }
}
