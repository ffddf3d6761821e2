//! Documents with the `_id` of another document: after the loss of a table, a deleted document may be there again
//! beside one that took its `_id` later. The one that was inserted last stays; the others go to the lost and found.

use std::{collections::HashSet, hash::RandomState};

use nagi_error::Result;

use super::quarantine::{BYTES_AT_ONCE, Corrupt, RECORDS_AT_ONCE};
use crate::{Collection, Store, engine_error::engine, index, record};

/// `_id`s that are remembered at a time: 64 MB. More take further passes over the collection.
const IDS_AT_ONCE: u64 = 2 << 20;

/// The ids of one pass: each id belongs to one.
struct Pass {
    number: u64,
    of: u64,
    states: [RandomState; 2],
    seen: HashSet<u128>,
}

impl Pass {
    /// Returns true if the id belongs to this pass and was passed before.
    fn repeats(&mut self, id: &[u8]) -> bool {
        let [high, low] = [&self.states[0], &self.states[1]].map(|state| hash(state, id));
        low % self.of == self.number && !self.seen.insert(u128::from(high) << 64 | u128::from(low))
    }
}

fn hash(state: &RandomState, bytes: &[u8]) -> u64 {
    std::hash::BuildHasher::hash_one(state, bytes)
}

impl Store {
    /// Moves documents with the `_id` of a later one to the lost and found. Returns their number. Index keys are
    /// unchanged. Reads the collection once for each two million documents.
    pub(crate) fn quarantine_repeats(&self, collection: &Collection) -> Result<i64> {
        let count = u64::try_from(collection.count()).unwrap_or(0);
        let of = count / IDS_AT_ONCE + 1;
        let states = [RandomState::new(), RandomState::new()];
        let mut moved = 0;
        for number in 0..of {
            let mut pass = Pass { number, of, states: states.clone(), seen: HashSet::new() };
            let mut end = Some(collection.ident.end().to_vec());
            while let Some(before) = end {
                let (found, next) = self.repeated(collection, &before, &mut pass)?;
                if !found.is_empty() {
                    moved += self.move_out(collection, &found, None)?;
                }
                end = next;
            }
        }
        if moved > 0 {
            log::warn!(target: "STORAGE", id = 9_000_058, namespace = collection.namespace.as_str(),
                records = moved; "Repair: documents with the _id of another one were moved out of their collection");
        }
        Ok(moved)
    }

    /// The next documents that repeat an id, backward from `end`, and where to continue; none at the beginning.
    fn repeated(
        &self,
        collection: &Collection,
        end: &[u8],
        pass: &mut Pass,
    ) -> Result<(Vec<Corrupt>, Option<Vec<u8>>)> {
        let Some(index) = collection.id_index() else { return Ok((Vec::new(), None)) };
        let snapshot = self.snapshot()?;
        let start = collection.ident.bytes();
        let cursor = snapshot.reader().read.cursor(collection.space, &start, end);
        let mut cursor = cursor.map_err(engine)?;
        let mut more = cursor.seek_back(end).map_err(engine)?;
        let (mut found, mut bytes, mut spare, mut id) = (Vec::new(), 0, Vec::new(), Vec::new());
        while more && found.len() < RECORDS_AT_ONCE && bytes < BYTES_AT_ONCE {
            // Records that are not valid documents are moved by `quarantine_corrupt`.
            if let Ok(doc) = record::decode(cursor.value(), &mut spare) {
                id.clear();
                index::append_id(index, doc.get("_id"), &mut id);
                if pass.repeats(&id) {
                    let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
                    let counted = doc.as_bytes().len() as i64;
                    let error = "has the _id of another document".to_owned();
                    bytes += value.len();
                    found.push(Corrupt { key, value, error, counted, home: None });
                }
            }
            more = cursor.prev().map_err(engine)?;
        }
        let next = more.then(|| [cursor.key(), &[0]].concat());
        Ok((found, next))
    }
}
