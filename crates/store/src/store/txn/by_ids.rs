//! Locks and reads several documents by `_id`: for statements that are executed together.
//!
//! ```text
//!   index entries of all ids      one batched get of the newest commits
//!   lock each record              no other transaction can change it from now on
//!   the records                   one batched get of the newest commits: what was read stays true until the commit
//! ```

use nagi_bson::{Doc, Value};
use nagi_error::Result;

use super::WriteTxn;
use crate::{Collection, Index, Reader, RecordBuf, RecordId, engine_error::engine, index};

/// The key strings of ids in the index on `_id`.
struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
    /// The positions of the ids in the order of their keys, without those behind the first repetition.
    order: Vec<usize>,
}

impl Keys {
    fn of(index: &Index, ids: &[Value<'_>]) -> Keys {
        let (mut bytes, mut ends) = (Vec::with_capacity(16 * ids.len()), Vec::new());
        for id in ids {
            index::append_id(index, *id, &mut bytes);
            ends.push(bytes.len());
        }
        let mut keys = Keys { bytes, ends, order: (0..ids.len()).collect() };
        let mut order = std::mem::take(&mut keys.order);
        order.sort_by(|a, b| keys.get(*a).cmp(keys.get(*b)));
        let again = order.windows(2).filter(|pair| keys.get(pair[0]) == keys.get(pair[1]));
        let distinct = again.map(|pair| pair[1]).min().unwrap_or(ids.len());
        order.retain(|at| *at < distinct);
        keys.order = order;
        keys
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

impl WriteTxn<'_> {
    /// Locks the documents with these ids and reads their newest versions. It ends before the first id that occurs a
    /// second time, and returns how many it has handled. `visit` gets the position of each id that exists, its record
    /// and its document, in any order. The transaction must not have written to the collection before. Two batched
    /// gets, or one in a collection clustered by `_id`.
    ///
    /// # Errors
    /// 112 if another transaction has one of the documents; then this one cannot go on.
    pub fn lock_by_ids(
        &mut self,
        collection: &Collection,
        ids: &[Value<'_>],
        visit: &mut dyn FnMut(usize, &RecordId, Doc<'_>),
    ) -> Result<usize> {
        let at = self.touch(collection)?;
        let collection = std::sync::Arc::clone(&self.touched[at].collection);
        let Some(index) = collection.id_index() else {
            return Err(engine(nagi_kv::Error::Conflict));
        };
        let keys = Keys::of(index, ids);
        index.note_uses(keys.order.len() as u64);
        let found = self.find_records(index, &keys)?;
        for (_, id) in &found {
            let key = id.key().stored(collection.ident);
            self.lock_key(collection.space, &key)?;
        }
        let (positions, records): (Vec<usize>, Vec<RecordId>) = found.into_iter().unzip();
        let (mut buf, mut gone) = (RecordBuf::default(), false);
        self.locked_reader().records(
            &collection,
            &records,
            &mut buf,
            &mut |at, doc| match doc {
                Some(doc) => visit(positions[at], &records[at], doc),
                None => gone = true,
            },
        )?;
        // Its index entry was read before it was locked: there may be a new document with this id.
        match gone && !index.is_of_records() {
            true => Err(engine(nagi_kv::Error::Conflict)),
            false => Ok(keys.order.len()),
        }
    }

    /// Reads what this transaction has locked: the newest commits. Where conflicts are found by the commit, its
    /// snapshot is as good, and needs no further timestamps.
    fn locked_reader(&self) -> Reader<'_> {
        match self.store.promises.conflicts_at_once {
            true => self.store.latest(),
            false => self.reader(),
        }
    }

    /// The records of the ids that exist, with their positions; in a clustered collection those of all ids.
    fn find_records(&self, index: &Index, keys: &Keys) -> Result<Vec<(usize, RecordId)>> {
        let order = &keys.order;
        let lent: Vec<&[u8]> = order.iter().map(|at| keys.get(*at)).collect();
        let mut found = Vec::with_capacity(lent.len());
        self.locked_reader()
            .find_ids(index, &lent, &mut |at, id| found.push((order[at], id)))
            .map(|()| found)
    }
}
