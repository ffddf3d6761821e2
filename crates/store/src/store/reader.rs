//! Reads records and index entries from one snapshot of the store.
//!
//! A `Reader` is a view that costs nothing to create; cursors opened through it own the resources that they need. A
//! cursor is not kept across requests: it is dropped, its position (record id, or key and record id) is kept
//! instead, and a new cursor continues there, see `resume_after`.

use std::{cell::OnceCell, sync::Arc};

use nagi_bson::{Doc, Value};
use nagi_error::{Error, Result};
use nagi_kv::{CommitStamp, Cursor, Read};

use crate::{
    Collection, Index,
    engine_error::engine,
    ident::Ident,
    index, keystring,
    record::{self, RecordBuf},
    record_key::{Layout, RecordId, RecordKey, StorageKey},
    store::{
        change_log::{LogReader, PreImages, image_at},
        transaction::Bound,
    },
};

/// A snapshot of the store for many reads; shareable between threads. It should be held for seconds at most.
#[derive(Clone)]
pub struct Snapshot {
    state: State,
}

#[derive(Clone)]
enum State {
    Engine(Arc<dyn nagi_kv::Snapshot>),
    Transaction(Arc<Bound>),
}

impl Snapshot {
    pub(crate) fn of_engine(inner: Arc<dyn nagi_kv::Snapshot>) -> Snapshot {
        Snapshot { state: State::Engine(inner) }
    }

    /// Fails if the transaction has ended.
    pub(crate) fn of_transaction(bound: &Arc<Bound>) -> Result<Snapshot> {
        bound.check_open()?;
        Ok(Snapshot { state: State::Transaction(Arc::clone(bound)) })
    }

    pub fn reader(&self) -> Reader<'_> {
        match &self.state {
            State::Engine(inner) => Reader { read: &**inner, shared: Some(&**inner) },
            State::Transaction(bound) => Reader { read: &**bound, shared: None },
        }
    }
}

/// Records that [`Reader::records`] requests from an engine in this process per call.
pub const RECORDS_AT_ONCE: usize = nagi_kv::KEYS_AT_ONCE;

/// Reads a snapshot, the newest commits, or a transaction. Costs nothing to create. Cursors opened through it may
/// outlive it.
#[derive(Clone, Copy)]
pub struct Reader<'r> {
    pub(crate) read: &'r dyn Read,
    /// The same, if it is a snapshot that threads can share.
    shared: Option<&'r dyn nagi_kv::Snapshot>,
}

/// A handle with which another thread reads the same snapshot.
#[derive(Clone, Copy)]
pub struct SharedReader<'r>(&'r dyn nagi_kv::Snapshot);

impl<'r> SharedReader<'r> {
    /// The reader of the thread that received the handle.
    pub fn reader(self) -> Reader<'r> {
        Reader { read: self.0, shared: Some(self.0) }
    }
}

impl<'r> Reader<'r> {
    /// A reader for the calling thread only.
    pub(crate) fn of(read: &'r dyn Read) -> Reader<'r> {
        Reader { read, shared: None }
    }

    /// Returns true if it reads a snapshot, which no write changes.
    pub(crate) fn is_snapshot(&self) -> bool {
        self.shared.is_some()
    }

    /// The newest commit that it sees, if it reads a snapshot.
    pub fn stamp(&self) -> Option<CommitStamp> {
        self.shared.map(|snapshot| snapshot.stamp())
    }

    /// A handle for another thread to read the same snapshot; `None` in a transaction, and for readers of the
    /// newest commits.
    pub fn share(&self) -> Option<SharedReader<'r>> {
        self.shared.map(SharedReader)
    }

    /// One record, copied into `buf` or lent by the engine. One get; no allocation once `buf` is large enough.
    pub fn record<'b>(
        &self,
        collection: &Collection,
        id: RecordKey<'_>,
        buf: &'b mut RecordBuf,
    ) -> Result<Option<Doc<'b>>>
    where
        'r: 'b,
    {
        if collection.shows_log() {
            return self.logged(collection, id, buf);
        }
        let key = id.stored(collection.ident);
        let found = self.read.get(collection.space, &key, &mut buf.value).map_err(engine)?;
        found.map(|value| record::decode(value, &mut buf.doc)).transpose()
    }

    /// The document of the change log at a stamp, or the pre-image with a key.
    fn logged<'b>(
        &self,
        collection: &Collection,
        id: RecordKey<'_>,
        buf: &'b mut RecordBuf,
    ) -> Result<Option<Doc<'b>>> {
        if let RecordKey::Key(key) = id {
            let found = image_at(self.read, &collection.state, key, &mut buf.doc)?;
            return Ok(found.then(|| Doc::trusted(&buf.doc)));
        }
        let Some(stamp) = id.number().map(|number| number as u64) else { return Ok(None) };
        let mut log = LogReader::open(self.read, true, &collection.state)?;
        log.resume_after(stamp.saturating_sub(1));
        let found = log.advance(&mut buf.doc)? && log.stamp == stamp;
        Ok(found.then(|| Doc::trusted(&buf.doc)))
    }

    /// Reads many records with few engine calls. `visit` receives the position of each id and its document, if it
    /// exists, in the order of `ids`. Fastest if the ids ascend; duplicates are allowed. Some dozens of records are
    /// in memory at a time, [`Reader::records_at_once`] of another machine. No allocation if the engine is in this
    /// process.
    pub fn records(
        &self,
        collection: &Collection,
        ids: &[RecordId],
        buf: &mut RecordBuf,
        visit: &mut dyn FnMut(usize, Option<Doc<'_>>),
    ) -> Result<()> {
        if collection.shows_log() {
            for (at, id) in ids.iter().enumerate() {
                visit(at, self.logged(collection, id.key(), buf)?);
            }
            return Ok(());
        }
        if self.is_far() {
            return self.records_far(collection, ids, buf, visit);
        }
        for (part, ids) in ids.chunks(RECORDS_AT_ONCE).enumerate() {
            let keys: [_; RECORDS_AT_ONCE] = std::array::from_fn(|at| {
                let none = StorageKey::Number([0; 12]);
                ids.get(at).map_or(none, |id| id.key().stored(collection.ident))
            });
            let lent: [&[u8]; RECORDS_AT_ONCE] = std::array::from_fn(|at| &*keys[at]);
            let mut result = Ok(());
            let look = &mut |at: usize, value: Option<&[u8]>| {
                let found = value.map(|value| record::decode(value, &mut buf.doc)).transpose();
                match found {
                    Ok(doc) => visit(part * RECORDS_AT_ONCE + at, doc),
                    Err(error) => result = Err(error),
                }
            };
            self.read.get_many(collection.space, &lent[..ids.len()], look).map_err(engine)?;
            result?;
        }
        Ok(())
    }

    /// Records that one call of the engine should read, at the most.
    pub fn records_at_once(&self) -> usize {
        self.read.keys_at_once().max(RECORDS_AT_ONCE)
    }

    /// Returns true if each call of the engine is a round trip to another machine.
    pub fn is_far(&self) -> bool {
        self.records_at_once() > RECORDS_AT_ONCE
    }

    /// [`Reader::records`] where each call of the engine is a round trip.
    fn records_far(
        &self,
        collection: &Collection,
        ids: &[RecordId],
        buf: &mut RecordBuf,
        visit: &mut dyn FnMut(usize, Option<Doc<'_>>),
    ) -> Result<()> {
        let at_once = self.records_at_once();
        for (part, ids) in ids.chunks(at_once).enumerate() {
            let keys: Vec<_> = ids.iter().map(|id| id.key().stored(collection.ident)).collect();
            let lent: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
            let mut result = Ok(());
            let look = &mut |at: usize, value: Option<&[u8]>| {
                let found = value.map(|value| record::decode(value, &mut buf.doc)).transpose();
                match found {
                    Ok(doc) => visit(part * at_once + at, doc),
                    Err(error) => result = Err(error),
                }
            };
            self.read.get_many(collection.space, &lent, look).map_err(engine)?;
            result?;
        }
        Ok(())
    }

    /// The key of the record with this `_id`. One get; no allocation after warm-up if the key is a number.
    pub fn find_id(&self, collection: &Collection, id: Value<'_>) -> Result<Option<RecordId>> {
        let Some(index) = collection.id_index() else { return Ok(None) };
        let (space, ident) = index.place();
        record::with_scratch(|key, value| {
            key.extend_from_slice(&ident.bytes());
            index::append_id(index, id, key);
            let Some(found) = self.read.get(space, key, value).map_err(engine)? else {
                return Ok(None);
            };
            let found = match index.is_of_records() {
                true => RecordKey::Key(&key[4..]),
                false => unique_record_key(index.layout, found)?,
            };
            Ok(Some(found.to_id()))
        })
    }

    /// The record keys of several ids, given as the key strings that the index on `_id` has. `visit` receives the
    /// position of each that exists; in a clustered collection of all, as nothing is read. Batched gets.
    pub fn find_ids(
        &self,
        index: &Index,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, RecordId),
    ) -> Result<()> {
        if index.is_of_records() {
            keys.iter().enumerate().for_each(|(at, key)| visit(at, RecordKey::Key(key).to_id()));
            return Ok(());
        }
        let (space, ident) = index.place();
        let at_once = self.records_at_once();
        for (part, keys) in keys.chunks(at_once).enumerate() {
            let stored: Vec<Vec<u8>> =
                keys.iter().map(|key| [&ident.bytes()[..], key].concat()).collect();
            let lent: Vec<&[u8]> = stored.iter().map(Vec::as_slice).collect();
            let mut result = Ok(());
            let look = &mut |at: usize, entry: Option<&[u8]>| {
                let found = entry.map(|entry| unique_record_key(index.layout, entry)).transpose();
                match found {
                    Ok(Some(id)) => visit(part * at_once + at, id.to_id()),
                    Ok(None) => {}
                    Err(error) => result = Err(error),
                }
            };
            self.read.get_many(space, &lent, look).map_err(engine)?;
            result?;
        }
        Ok(())
    }

    /// The document with this `_id`, and its record key. Two gets, or one in a collection clustered by `_id`.
    pub fn record_by_id<'b>(
        &self,
        collection: &Collection,
        id: Value<'_>,
        buf: &'b mut RecordBuf,
    ) -> Result<Option<(RecordId, Doc<'b>)>>
    where
        'r: 'b,
    {
        let found = match collection.id_index().filter(|index| index.is_of_records()) {
            Some(index) => {
                let mut key = Vec::new();
                index::append_id(index, id, &mut key);
                Some(RecordId::Key(key.into()))
            }
            None => self.find_id(collection, id)?,
        };
        let Some(id) = found else { return Ok(None) };
        let doc = self.record(collection, id.key(), buf)?;
        Ok(doc.map(|doc| (id, doc)))
    }

    /// A cursor over all records in the order of their keys (of insertion, or of `_id`), forward or backward.
    pub fn scan(&self, collection: &Collection, forward: bool) -> Result<RecordCursor> {
        let (ident, layout) = (collection.ident, collection.layout);
        let cursor = self.read.cursor(collection.space, &ident.bytes(), &ident.end());
        let cursor = cursor.map_err(engine)?;
        let log = match layout {
            Layout::Stamps => {
                Some(Log::Entries(LogReader::open(self.read, forward, &collection.state)?))
            }
            Layout::PreImages => {
                PreImages::open(self.read, forward, &collection.state)?.map(Log::Images)
            }
            Layout::Numbers | Layout::Ids => None,
        };
        let log = log.map(Box::new);
        let (next, unpacked) = (Next::First, Vec::new());
        Ok(RecordCursor { cursor, ident, layout, forward, next, packed: false, unpacked, log })
    }

    /// A cursor over the index keys in `[start, end)`, both key strings; an empty `end` means the end of the index.
    /// A backward cursor begins at the last key before `end`.
    pub fn index_cursor(
        &self,
        index: &Index,
        forward: bool,
        start: &[u8],
        end: &[u8],
    ) -> Result<IndexCursor> {
        let (space, ident) = index.place();
        let first = [&ident.bytes(), start].concat();
        let last = match end {
            [] => ident.end().to_vec(),
            _ => [&ident.bytes(), end].concat(),
        };
        let cursor = self.read.cursor(space, &first, &last).map_err(engine)?;
        Ok(IndexCursor { first, last, ..IndexCursor::over(cursor, index, forward) })
    }

    /// The greatest stored key of an index, without the ident; empty if the index is empty.
    pub(crate) fn last_key(&self, index: &Index) -> Result<Vec<u8>> {
        let (space, ident) = index.place();
        let (start, end) = (ident.bytes(), ident.end());
        let mut cursor = self.read.cursor(space, &start, &end).map_err(engine)?;
        Ok(match cursor.seek_back(&end).map_err(engine)? {
            true => cursor.key().get(start.len()..).unwrap_or_default().to_vec(),
            false => Vec::new(),
        })
    }
}

/// The action of the next `advance`.
enum Next<T> {
    First,
    Step,
    /// Seeks.
    To(T),
}

/// A cursor over records. Not positioned until the first `advance`.
pub struct RecordCursor {
    cursor: Box<dyn Cursor>,
    ident: Ident,
    layout: Layout,
    forward: bool,
    next: Next<RecordId>,
    /// The current record is in `unpacked`.
    packed: bool,
    unpacked: Vec<u8>,
    /// Reads the change log instead of records.
    log: Option<Box<Log>>,
}

/// What is read of the change log.
enum Log {
    Entries(LogReader),
    Images(PreImages),
}

impl RecordCursor {
    /// Moves to the next record; returns false at the end, and in every later call.
    pub fn advance(&mut self) -> Result<bool> {
        if let Some(log) = &mut self.log {
            self.packed = true;
            return match &mut **log {
                Log::Entries(log) => log.advance(&mut self.unpacked),
                Log::Images(images) => images.advance(&mut self.unpacked),
            };
        }
        let moved = match (&self.next, self.forward) {
            (Next::Step, true) => self.cursor.next(),
            (Next::Step, false) => self.cursor.prev(),
            (Next::First, true) => self.cursor.seek(&self.ident.bytes()),
            (Next::First, false) => self.cursor.seek_back(&self.ident.end()),
            (Next::To(RecordId::Id(number)), true) => {
                self.cursor.seek(&self.ident.record_key(number.saturating_add(1)))
            }
            // The least key after it.
            (Next::To(RecordId::Key(key)), true) => {
                self.cursor.seek(&[&self.ident.bytes()[..], key, &[0]].concat())
            }
            (Next::To(id), false) => self.cursor.seek_back(&id.key().stored(self.ident)),
        };
        if !matches!(self.next, Next::Step) {
            self.next = Next::Step;
        }
        let found = moved.map_err(engine)?;
        self.packed = found && record::is_packed(self.cursor.value());
        if self.packed {
            record::decode(self.cursor.value(), &mut self.unpacked)?;
        }
        Ok(found)
    }

    /// Places the cursor so that the next `advance` moves to the first record after `id` in the cursor's direction.
    pub fn resume_after(&mut self, id: RecordKey<'_>) {
        match (self.log.as_deref_mut(), id) {
            (Some(Log::Entries(log)), RecordKey::Id(stamp)) => {
                log.resume_after(u64::try_from(stamp).unwrap_or(0));
            }
            (Some(Log::Images(images)), RecordKey::Key(key)) => images.resume_after(key),
            _ => self.next = Next::To(id.to_id()),
        }
    }

    /// Makes the next `advance` move to the first record.
    pub(crate) fn begin_again(&mut self) {
        match self.log.as_deref_mut() {
            Some(Log::Entries(log)) => log.begin_again(),
            Some(Log::Images(images)) => images.begin_again(),
            None => self.next = Next::First,
        }
    }

    /// The current record's key.
    pub fn id(&self) -> RecordKey<'_> {
        match self.log.as_deref() {
            Some(Log::Entries(log)) => RecordKey::Id(log.stamp as i64),
            Some(Log::Images(images)) => RecordKey::Key(images.key()),
            None => self.layout.of_stored(self.cursor.key()),
        }
    }

    /// The current record; fails if its format is unknown.
    pub(crate) fn checked_doc(&self) -> Result<Doc<'_>> {
        match self.packed {
            false => record::known(self.cursor.value()),
            true => Ok(Doc::trusted(&self.unpacked)),
        }
    }

    /// The current record.
    pub fn doc(&self) -> Doc<'_> {
        match self.packed {
            false => record::plain(self.cursor.value()),
            true => Doc::trusted(&self.unpacked),
        }
    }
}

/// A cursor over index keys. Not positioned until the first `advance`.
pub struct IndexCursor {
    cursor: Box<dyn Cursor>,
    ident: Ident,
    entries: Entries,
    layout: Layout,
    forward: bool,
    first: Vec<u8>,
    last: Vec<u8>,
    next: Next<Vec<u8>>,
}

/// The format of an index's entries.
enum Entries {
    /// The record key is in the value.
    Alone,
    /// The record key is the end of the key.
    Others,
    /// The entries are the records, stored under the key strings of their ids.
    Records(RecordEntry),
}

/// A record that is its own index entry (clustered index).
#[derive(Default)]
struct RecordEntry {
    /// True if packed records are unpacked: for callers that need the documents, not only the keys.
    unpacks: bool,
    packed: bool,
    unpacked: Vec<u8>,
    /// The type bits of its `_id`, computed on first use.
    type_bits: OnceCell<Vec<u8>>,
}

impl RecordEntry {
    fn load(&mut self, value: &[u8]) -> Result<()> {
        self.type_bits.take();
        self.packed = record::is_packed(value);
        if self.packed && self.unpacks {
            record::decode(value, &mut self.unpacked)?;
        }
        Ok(())
    }

    fn doc<'v>(&'v self, value: &'v [u8]) -> Doc<'v> {
        match (self.packed, self.unpacks) {
            (false, _) => record::plain(value),
            (true, true) => Doc::trusted(&self.unpacked),
            (true, false) => Doc::EMPTY,
        }
    }

    /// The type bits of the record's `_id`.
    fn type_bits(&self, value: &[u8]) -> Vec<u8> {
        let mut unpacked = Vec::new();
        let doc = match self.packed && !self.unpacks {
            true => record::decode(value, &mut unpacked).unwrap_or(Doc::EMPTY),
            false => self.doc(value),
        };
        let (mut key, mut bits) = (Vec::new(), keystring::TypeBits::default());
        keystring::append_typed(doc.get("_id"), false, &mut key, &mut bits);
        bits.as_bytes().to_vec()
    }
}

impl IndexCursor {
    /// A cursor over all that another one has of an index.
    pub(super) fn over(cursor: Box<dyn Cursor>, index: &Index, forward: bool) -> IndexCursor {
        let (_, ident) = index.place();
        let (first, last) = (ident.bytes().to_vec(), ident.end().to_vec());
        let entries = match index.is_of_records() {
            true => Entries::Records(RecordEntry::default()),
            false if index.keyed_alone => Entries::Alone,
            false => Entries::Others,
        };
        let (layout, next) = (index.layout, Next::First);
        IndexCursor { cursor, ident, entries, layout, forward, first, last, next }
    }

    /// Moves to the next entry within the bounds; returns false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        let moved = match (&self.next, self.forward) {
            (Next::Step, true) => self.cursor.next(),
            (Next::Step, false) => self.cursor.prev(),
            (Next::First, true) => self.cursor.seek(&self.first),
            (Next::First, false) => self.cursor.seek_back(&self.last),
            (Next::To(key), true) => self.cursor.seek(key.max(&self.first)),
            (Next::To(key), false) => self.cursor.seek_back(key.min(&self.last)),
        };
        self.next = match std::mem::replace(&mut self.next, Next::Step) {
            Next::To(key) if moved.is_err() => Next::To(key),
            _ => Next::Step,
        };
        let found = moved.map_err(engine)?;
        if let Entries::Records(entry) = &mut self.entries
            && found
        {
            entry.load(self.cursor.value())?;
        }
        Ok(found)
    }

    /// Places the cursor so that the next `advance` moves, forward, to the first entry whose key is `key` or
    /// greater, and backward, to the last entry whose key is less than `key`. Used to skip keys.
    pub fn seek(&mut self, key: &[u8]) {
        self.next = Next::To([&self.ident.bytes(), key].concat());
    }

    fn full_key(&self, key: &[u8], id: RecordKey<'_>) -> Vec<u8> {
        let mut full = [&self.ident.bytes(), key].concat();
        if let Entries::Others = self.entries {
            id.append_tail(&mut full);
        }
        full
    }

    /// Places the cursor so that the next `advance` moves to the entry after (key, id) in the cursor's direction.
    /// Used by `save` and `restore`.
    pub fn resume_after(&mut self, key: &[u8], id: RecordKey<'_>) {
        let mut full = self.full_key(key, id);
        if self.forward {
            // The least key after this one.
            full.push(0);
        }
        self.next = Next::To(full);
    }

    /// For a forward cursor: makes the next `advance` move to the entry (key, id), or to the first one after it.
    pub fn resume_at(&mut self, key: &[u8], id: RecordKey<'_>) {
        self.next = Next::To(self.full_key(key, id));
    }

    /// The current key string, without the record key.
    pub fn key(&self) -> &[u8] {
        let key = self.cursor.key().get(4..).unwrap_or_default();
        match (&self.entries, self.layout) {
            (Entries::Others, Layout::Numbers) => &key[..key.len().saturating_sub(8)],
            (Entries::Others, layout) => layout.split_tail(key).map_or(&[], |(key, _)| key),
            _ => key,
        }
    }

    /// The type bits of the entry, which `keystring::decode` needs in addition to the key.
    pub fn type_bits(&self) -> &[u8] {
        let value = self.cursor.value();
        match &self.entries {
            Entries::Alone => self.layout.split_head(value).map_or(&[], |(_, bits)| bits),
            Entries::Others => value,
            Entries::Records(entry) => entry.type_bits.get_or_init(|| entry.type_bits(value)),
        }
    }

    /// The key of the record that the current entry points to.
    pub fn record_id(&self) -> RecordKey<'_> {
        let (key, value) = (self.cursor.key(), self.cursor.value());
        let found = match self.entries {
            Entries::Alone => self.layout.split_head(value).map(|(id, _)| id),
            Entries::Others => self.layout.split_tail(key).map(|(_, id)| id),
            Entries::Records(_) => Some(self.layout.of_stored(key)),
        };
        found.unwrap_or(RecordKey::Id(0))
    }

    /// From the next `advance` on, [`IndexCursor::doc`] returns every record. Without this call packed records are
    /// not unpacked.
    pub fn lend_docs(&mut self) {
        if let Entries::Records(entry) = &mut self.entries {
            entry.unpacks = true;
        }
    }

    /// The record itself in a clustered index; otherwise empty. See [`IndexCursor::lend_docs`].
    pub fn doc(&self) -> Doc<'_> {
        match &self.entries {
            Entries::Records(entry) => entry.doc(self.cursor.value()),
            _ => Doc::EMPTY,
        }
    }
}

/// The record key in the value of a unique index's entry.
pub(crate) fn unique_record_key(layout: Layout, value: &[u8]) -> Result<RecordKey<'_>> {
    let split = layout.split_head(value).map(|(id, _)| id);
    split.ok_or_else(|| Error::bug("an index entry has no record id"))
}
