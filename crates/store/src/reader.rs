//! Reading records and index entries from one state of the store.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::Result;
use nagi_kv::{Cursor, Read};

use crate::{Collection, Index};

/// A record's place in its collection: ascending in the order of insertion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RecordId(pub i64);

/// One state of the store for many reads; shareable between threads. Keep it for seconds at most.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) inner: Arc<dyn nagi_kv::Snapshot>,
}

impl Snapshot {
    pub fn reader(&self) -> Reader<'_> {
        Reader { read: &*self.inner }
    }
}

/// Reads a snapshot, the newest state, or a transaction. Costs nothing to make. Cursors opened
/// through it are their own: they outlive the reader.
#[derive(Clone, Copy)]
pub struct Reader<'r> {
    pub(crate) read: &'r dyn Read,
}

impl<'r> Reader<'r> {
    /// One record, in `buf` or lent by the engine. One get, no allocation once `buf` is large enough.
    pub fn record<'b>(
        &self,
        collection: &Collection,
        id: RecordId,
        buf: &'b mut Vec<u8>,
    ) -> Result<Option<Doc<'b>>>
    where
        'r: 'b,
    {
        let _ = (collection, id, buf, self.read);
        unimplemented!("next commit")
    }

    /// The record id of the document with this `_id`. One get.
    pub fn find_id(&self, collection: &Collection, id: Value<'_>) -> Result<Option<RecordId>> {
        let _ = (collection, id);
        unimplemented!("next commit")
    }

    /// A cursor over all records, in the order of insertion or against it.
    pub fn scan(&self, collection: &Collection, forward: bool) -> Result<RecordCursor> {
        let _ = (collection, forward);
        unimplemented!("next commit")
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
        let _ = (index, forward, start, end);
        unimplemented!("next commit")
    }
}

/// A walk over records. Not positioned until the first `advance`.
pub struct RecordCursor {
    cursor: Box<dyn Cursor>,
}

impl RecordCursor {
    /// Goes to the next record; false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        unimplemented!("next commit")
    }

    /// Places the cursor so that the next `advance` goes to the first record after `id` in the
    /// direction of the walk.
    pub fn resume_after(&mut self, id: RecordId) {
        let _ = id;
        unimplemented!("next commit")
    }

    /// The current record's id.
    pub fn id(&self) -> RecordId {
        unimplemented!("next commit")
    }

    /// The current record.
    pub fn doc(&self) -> Doc<'_> {
        let _ = self.cursor.value();
        unimplemented!("next commit")
    }
}

/// A walk over index keys. Not positioned until the first `advance`.
pub struct IndexCursor {
    cursor: Box<dyn Cursor>,
}

impl IndexCursor {
    /// Goes to the next entry within the bounds; false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        unimplemented!("next commit")
    }

    /// Places the cursor so that the next `advance` goes, forward, to the first entry whose key is
    /// `key` or greater, backward, to the last entry whose key is less than `key`. For skipping.
    pub fn seek(&mut self, key: &[u8]) {
        let _ = key;
        unimplemented!("next commit")
    }

    /// Places the cursor so that the next `advance` goes to the entry after (key, id) in the direction
    /// of the walk: what `save` and `restore` need.
    pub fn resume_after(&mut self, key: &[u8], id: RecordId) {
        let _ = (key, id);
        unimplemented!("next commit")
    }

    /// The current key string, without the record id.
    pub fn key(&self) -> &[u8] {
        unimplemented!("next commit")
    }

    /// What `keystring::decode` needs besides the key.
    pub fn type_bits(&self) -> &[u8] {
        let _ = self.cursor.value();
        unimplemented!("next commit")
    }

    /// The record the current entry points to.
    pub fn record_id(&self) -> RecordId {
        unimplemented!("next commit")
    }
}
