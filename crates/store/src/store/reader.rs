//! Reading records and index entries from one state of the store.
//!
//! A `Reader` is a view, made for nothing; cursors opened through it own what keeps them alive. A
//! cursor that is to be kept across requests is dropped and its position (record id, or key and
//! record id) kept instead: see `resume_after`.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::{Error, Result};
use nagi_kv::{Cursor, Read, Space};

use crate::{
    Collection, Index,
    engine_error::engine,
    ident::Ident,
    index,
    record::{self, RecordBuf, RecordId},
    store::transaction::Bound,
};

/// One state of the store for many reads; shareable between threads. Keep it for seconds at most.
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

    /// Fails once the transaction has ended.
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

/// Records that [`Reader::records`] asks the engine for at a time: as many as RocksDB works on at once.
pub const RECORDS_AT_ONCE: usize = 32;

/// Reads a snapshot, the newest state, or a transaction. Costs nothing to make. Cursors opened
/// through it are their own: they outlive the reader.
#[derive(Clone, Copy)]
pub struct Reader<'r> {
    pub(crate) read: &'r dyn Read,
    /// The same, if it is one state for all threads.
    shared: Option<&'r dyn nagi_kv::Snapshot>,
}

/// What another thread reads the same state with.
#[derive(Clone, Copy)]
pub struct SharedReader<'r>(&'r dyn nagi_kv::Snapshot);

impl<'r> SharedReader<'r> {
    /// For the thread it was handed to.
    pub fn reader(self) -> Reader<'r> {
        Reader { read: self.0, shared: Some(self.0) }
    }
}

impl<'r> Reader<'r> {
    /// Of the thread that makes it only.
    pub(crate) fn of(read: &'r dyn Read) -> Reader<'r> {
        Reader { read, shared: None }
    }

    /// The same state for another thread; none in a transaction, and where each call reads what is
    /// newest.
    pub fn share(&self) -> Option<SharedReader<'r>> {
        self.shared.map(SharedReader)
    }

    /// One record, in `buf` or lent by the engine. One get, no allocation once `buf` is large enough.
    pub fn record<'b>(
        &self,
        collection: &Collection,
        id: RecordId,
        buf: &'b mut RecordBuf,
    ) -> Result<Option<Doc<'b>>>
    where
        'r: 'b,
    {
        let key = collection.ident.record_key(id);
        let found = self.read.get(collection.space, &key, &mut buf.value).map_err(engine)?;
        found.map(|value| record::decode(value, &mut buf.doc)).transpose()
    }

    /// Many records in one call of the engine; `visit` gets the place of each id and its document, if
    /// there is one, in the order of `ids`. Fastest when they ascend; one may come up more than once.
    /// Some dozens of records lie in memory at a time. No allocation.
    pub fn records(
        &self,
        collection: &Collection,
        ids: &[RecordId],
        buf: &mut RecordBuf,
        visit: &mut dyn FnMut(usize, Option<Doc<'_>>),
    ) -> Result<()> {
        for (part, ids) in ids.chunks(RECORDS_AT_ONCE).enumerate() {
            let mut keys = [[0; 12]; RECORDS_AT_ONCE];
            for (key, id) in keys.iter_mut().zip(ids) {
                *key = collection.ident.record_key(*id);
            }
            let lent: [&[u8]; RECORDS_AT_ONCE] = std::array::from_fn(|at| &keys[at][..]);
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

    /// The record id of the document with this `_id`. One get, no allocation after warm-up.
    pub fn find_id(&self, collection: &Collection, id: Value<'_>) -> Result<Option<RecordId>> {
        let Some(index) = collection.id_index() else { return Ok(None) };
        record::with_scratch(|key, value| {
            key.extend_from_slice(&index.ident.bytes());
            index::append_id(index, id, key);
            let found = self.read.get(Space::Index, key, value).map_err(engine)?;
            found.map(unique_record_id).transpose()
        })
    }

    /// A cursor over all records, in the order of insertion or against it.
    pub fn scan(&self, collection: &Collection, forward: bool) -> Result<RecordCursor> {
        let ident = collection.ident;
        let cursor = self.read.cursor(collection.space, &ident.bytes(), &ident.end());
        let cursor = cursor.map_err(engine)?;
        let unpacked = Vec::new();
        Ok(RecordCursor { cursor, ident, forward, next: Next::First, packed: false, unpacked })
    }

    /// A cursor over the index keys in `[start, end)`, both key strings; an empty `end` means to the
    /// end of the index. Backward it begins at the last key before `end`.
    pub fn index_cursor(
        &self,
        index: &Index,
        forward: bool,
        start: &[u8],
        end: &[u8],
    ) -> Result<IndexCursor> {
        let ident = index.ident;
        let first = [&ident.bytes(), start].concat();
        let last = match end {
            [] => ident.end().to_vec(),
            _ => [&ident.bytes(), end].concat(),
        };
        let cursor = self.read.cursor(Space::Index, &first, &last).map_err(engine)?;
        let keyed_alone = index.keyed_alone;
        Ok(IndexCursor { cursor, ident, keyed_alone, forward, first, last, next: Next::First })
    }

    /// The greatest key of an index as it is stored, behind the ident; empty if there is none.
    pub(crate) fn last_key(&self, index: &Index) -> Result<Vec<u8>> {
        let (start, end) = (index.ident.bytes(), index.ident.end());
        let mut cursor = self.read.cursor(Space::Index, &start, &end).map_err(engine)?;
        Ok(match cursor.seek_back(&end).map_err(engine)? {
            true => cursor.key().get(start.len()..).unwrap_or_default().to_vec(),
            false => Vec::new(),
        })
    }
}

/// What the next `advance` does.
enum Next<T> {
    First,
    Step,
    /// Seeks.
    To(T),
}

/// A walk over records. Not positioned until the first `advance`.
pub struct RecordCursor {
    cursor: Box<dyn Cursor>,
    ident: Ident,
    forward: bool,
    next: Next<RecordId>,
    /// The current record is in `unpacked`.
    packed: bool,
    unpacked: Vec<u8>,
}

impl RecordCursor {
    /// Goes to the next record; false at the end, and then for ever.
    pub fn advance(&mut self) -> Result<bool> {
        let next = std::mem::replace(&mut self.next, Next::Step);
        let moved = match (next, self.forward) {
            (Next::Step, true) => self.cursor.next(),
            (Next::Step, false) => self.cursor.prev(),
            (Next::First, true) => self.cursor.seek(&self.ident.bytes()),
            (Next::First, false) => self.cursor.seek_back(&self.ident.end()),
            (Next::To(id), true) => {
                self.cursor.seek(&self.ident.record_key(RecordId(id.0.saturating_add(1))))
            }
            (Next::To(id), false) => self.cursor.seek_back(&self.ident.record_key(id)),
        };
        let found = moved.map_err(engine)?;
        self.packed = found && record::is_packed(self.cursor.value());
        if self.packed {
            record::decode(self.cursor.value(), &mut self.unpacked)?;
        }
        Ok(found)
    }

    /// Places the cursor so that the next `advance` goes to the first record after `id` in the
    /// direction of the walk.
    pub fn resume_after(&mut self, id: RecordId) {
        self.next = Next::To(id);
    }

    /// The current record's id.
    pub fn id(&self) -> RecordId {
        let key = self.cursor.key();
        key.last_chunk().map_or(RecordId(0), |bytes| RecordId::from_bytes(*bytes))
    }

    /// The current record, which may be in no known format.
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

/// A walk over index keys. Not positioned until the first `advance`.
pub struct IndexCursor {
    cursor: Box<dyn Cursor>,
    ident: Ident,
    keyed_alone: bool,
    forward: bool,
    first: Vec<u8>,
    last: Vec<u8>,
    next: Next<Vec<u8>>,
}

impl IndexCursor {
    /// Goes to the next entry within the bounds; false at the end.
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
        moved.map_err(engine)
    }

    /// Places the cursor so that the next `advance` goes, forward, to the first entry whose key is
    /// `key` or greater, backward, to the last entry whose key is less than `key`. For skipping.
    pub fn seek(&mut self, key: &[u8]) {
        self.next = Next::To([&self.ident.bytes(), key].concat());
    }

    /// Places the cursor so that the next `advance` goes to the entry after (key, id) in the direction
    /// of the walk: what `save` and `restore` need.
    pub fn resume_after(&mut self, key: &[u8], id: RecordId) {
        let mut full = [&self.ident.bytes(), key].concat();
        if !self.keyed_alone {
            full.extend_from_slice(&id.bytes());
        }
        if self.forward {
            // The least key after this one.
            full.push(0);
        }
        self.next = Next::To(full);
    }

    /// The current key string, without the record id.
    pub fn key(&self) -> &[u8] {
        let key = self.cursor.key();
        let tail = if self.keyed_alone { 0 } else { 8 };
        key.get(4..key.len().saturating_sub(tail)).unwrap_or(&[])
    }

    /// What `keystring::decode` needs besides the key.
    pub fn type_bits(&self) -> &[u8] {
        let value = self.cursor.value();
        if self.keyed_alone { value.get(8..).unwrap_or(&[]) } else { value }
    }

    /// The record the current entry points to.
    pub fn record_id(&self) -> RecordId {
        let bytes = match self.keyed_alone {
            true => self.cursor.value().first_chunk(),
            false => self.cursor.key().last_chunk(),
        };
        bytes.map_or(RecordId(0), |bytes| RecordId::from_bytes(*bytes))
    }
}

/// The record id in the value of a unique index's entry.
pub(crate) fn unique_record_id(value: &[u8]) -> Result<RecordId> {
    let bytes = value.first_chunk().ok_or_else(|| Error::bug("an index entry has no record id"))?;
    Ok(RecordId::from_bytes(*bytes))
}
