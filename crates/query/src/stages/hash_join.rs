//! Joins by equality where no index serves: the other collection is read once, not once a document.
//!
//! ```text
//!   records of the other collection     r1 {f: 5}   r2 {f: [5, 7]}   r3 {}
//!   hashes of their values              5: r1 r2    7: r2    [5, 7]: r2    null: r3
//!   input document {l: 7}               r2, fetched, and compared again
//! ```
//! The table leads to every record that has a value equal to a local one, and to few others: what it leads
//! to is fetched and tested by the very condition that a scan would test. So arrays on either side, null
//! and missing, numbers of different types and collations need no rules of their own. The records come in
//! the order of the scan.
//!
//! Memory: [`LOOKUP_TABLE_BYTES_MAX`], of the pool of running queries. A collection that takes more is
//! scanned for each document. The table is gone when the cursor waits: the next batch reads another snapshot.

use std::sync::Arc;

use nagi_bson::{Value, ValueBuf};
use nagi_lang::{
    collation::{self, Collation},
    filter::Filter,
    path::{self, FieldPath, Leaf},
};
use nagi_store::{Collection, RecordId};

use super::prelude::*;
use crate::{
    limits::LOOKUP_TABLE_BYTES_MAX,
    source::{Fetch, Held, Ids},
};

/// Records of a collection by the hashes of their values at a path.
pub(super) struct Table {
    collection: Arc<Collection>,
    /// Hash and place in `records`; sorted, each once.
    entries: Vec<(u64, u32)>,
    /// In the order of the scan.
    records: Vec<RecordId>,
    _held: Held,
}

/// The hash that values have in common that a condition takes for equal; null matches what is missing.
fn hash_of(value: Value<'_>, by: Option<&'static Collation>) -> u64 {
    match value {
        Value::Missing => collation::hash_of(Value::Null, by),
        value => collation::hash_of(value, by),
    }
}

impl Table {
    /// Reads all of a collection by `source`; none if the table does not fit.
    pub(super) fn read(
        collection: &Arc<Collection>,
        path: &FieldPath,
        by: Option<&'static Collation>,
        source: &mut dyn Source,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Table>> {
        let (mut entries, mut records) = (Vec::new(), Vec::new());
        let mut held = Held::default();
        while source.advance(cx)? {
            let Some(record) = source.record_id() else { return Ok(None) };
            let Ok(place) = u32::try_from(records.len()) else { return Ok(None) };
            records.push(record);
            path::any(source.doc(), path, Leaf::Traverse, &mut |value, _| {
                entries.push((hash_of(value, by), place));
                Ok(false)
            })?;
            // What the vectors hold, not what they are filled with.
            let bytes = entries.capacity() * size_of::<(u64, u32)>()
                + records.capacity() * size_of::<RecordId>();
            if bytes > LOOKUP_TABLE_BYTES_MAX || !held.fits(cx, bytes) {
                return Ok(None);
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(Some(Table { collection: Arc::clone(collection), entries, records, _held: held }))
    }

    /// The documents that `filter`, equality of the path with any of `values`, matches.
    pub(super) fn find(
        &self,
        values: &[ValueBuf],
        by: Option<&'static Collation>,
        filter: Filter,
    ) -> Box<dyn Source> {
        let mut places: Vec<u32> = Vec::new();
        for value in values {
            let hash = hash_of(value.value(), by);
            let begin = self.entries.partition_point(|(other, _)| *other < hash);
            let same = self.entries[begin..].iter().take_while(|(other, _)| *other == hash);
            places.extend(same.map(|(_, place)| *place));
        }
        places.sort_unstable();
        places.dedup();
        let ids = places.into_iter().map(|place| self.records[place as usize]).collect();
        let filter = Some(Arc::new(filter));
        Box::new(Fetch::new(
            Box::new(Ids::new(ids)),
            self.collection.clone(),
            [filter, None],
            (None, 0),
        ))
    }
}
