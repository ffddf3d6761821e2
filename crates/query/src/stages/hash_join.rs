//! Hash join: the joined rows are read once into a hash table, instead of once per input document.
//!
//! ```text
//!   pipeline      [{$match: {t: 1}}, {$match: {$expr: {$eq: ["$f", "$$v"]}}}, {$project: {g: 1}}]
//!                  ---- rows ------   ---------- condition ---------------     ---- rest -------
//!   rows          r1 {f: 5}   r2 {f: 7}   r3 {f: 5}        independent of the input document
//!   hashes        5: r1 r3    7: r2                        of the values that a condition compares
//!   v is 7        r2 is found, tested by the condition, then the rest runs
//! ```
//!
//! The rows are the documents of a collection or of a view, after the stages that do not depend on the input
//! document. With `localField` and `foreignField` a row has the hashes of all its values at the path; with `$expr`
//! it has the hash of the value at each path that is compared with `$eq`.
//!
//! The table finds every row that the condition matches, and few others. Each row found is tested by the same
//! condition that a scan would test. So arrays on either side, null and missing, numbers of different types, and
//! collations need no special rules. The rows are returned in the order of the scan. Without such a condition all
//! rows are tested or passed on, but they are still read only once.
//!
//! Memory: [`LOOKUP_TABLE_BYTES_MAX`], charged to the pool of running queries: for record ids if rows are documents
//! of a collection, otherwise for the rows themselves. If the rows take more, they are read for each document. The
//! table is dropped when the cursor is parked, because the next batch reads another snapshot.

use std::sync::Arc;

use nagi_bson::{Value, ValueBuf};
use nagi_lang::{
    collation::{self, Collation},
    filter::{ExprEquality, Filter},
    path::{self, FieldPath, Leaf},
};
use nagi_store::{Collection, RecordId, RecordKey};

use super::{
    Pipeline,
    inner::{Halves, Inner, Target, Used},
    prelude::*,
};
use crate::{
    limits::LOOKUP_TABLE_BYTES_MAX,
    source::{
        ExecutionStats, Fetch, Filtered, Ids, Materialized, MaterializedScan, OperatorMemory,
        sum_stats,
    },
};

/// The specification of a table.
pub(super) struct Recipe {
    pub(super) halves: Halves,
    key: Key,
    /// The conditions at the beginning of the second half, and their number of stages.
    conditions: Option<Arc<Filter>>,
    planned: usize,
}

/// The key by which rows are found.
enum Key {
    /// Without a key: each row is tested.
    All,
    /// By any of the values at a path.
    Values(FieldPath, Option<&'static Collation>),
    /// By the values of expressions, all of them.
    Exprs(Vec<ExprEquality>),
}

/// Rows by the hashes of the compared values.
pub(super) struct Table {
    key: Key,
    /// Hash and row number; sorted, without duplicates.
    entries: Vec<(u64, u32)>,
    rows: Rows,
    conditions: Option<Arc<Filter>>,
    rest: Pipeline,
    planned: usize,
    _held: OperatorMemory,
}

/// The rows, in the order of the scan.
enum Rows {
    Records(Arc<Collection>, Vec<RecordId>),
    Documents(Arc<Materialized>),
}

/// The hash shared by values that a condition treats as equal; null equals missing values.
fn hash_of(value: Value<'_>, by: Option<&'static Collation>) -> u64 {
    match value {
        Value::Missing | Value::Undefined => collation::hash_of(Value::Null, by),
        value => collation::hash_of(value, by),
    }
}

/// Combines the hash of the previous values with the hash of the next one.
fn combine(before: u64, next: u64) -> u64 {
    before.rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ next
}

impl Recipe {
    /// The specification for `inner` over `target`; `path` is the foreign field, if there is one. None if a table
    /// is of no use.
    pub(super) fn of(
        inner: &Inner,
        target: &Target,
        path: Option<&FieldPath>,
    ) -> Result<Option<Recipe>> {
        let Some(halves) = inner.halves(target, path.is_some())? else { return Ok(None) };
        let (conditions, planned) = halves.rest.conditions();
        if conditions.as_ref().is_some_and(|all| all.text().is_some() || all.near().is_some()) {
            return Ok(None);
        }
        let equalities = || conditions.as_ref().map_or(Vec::new(), |all| all.expr_equalities());
        let key = match path {
            Some(path) => Key::Values(path.clone(), inner.collation),
            None => match equalities() {
                none if none.is_empty() => Key::All,
                equalities => Key::Exprs(equalities),
            },
        };
        let rereads = halves.first.stages.is_empty() && !halves.rest.stages.is_empty();
        if rereads && matches!(key, Key::All) {
            return Ok(None);
        }
        Ok(Some(Recipe { halves, key, conditions, planned }))
    }

    /// Returns true if the table finds rows by values.
    pub(super) fn has_key(&self) -> bool {
        !matches!(self.key, Key::All)
    }

    /// Reads all rows; none if they do not fit into memory.
    pub(super) fn read(
        self,
        inner: &Inner,
        used: &mut Used,
        examined: &mut ExecutionStats,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Table>> {
        let Halves { collection, first, rest } = self.halves;
        let mut source = inner.open_planned(collection.clone(), &first, None, used, cx)?;
        let mut maker =
            Maker { key: &self.key, entries: Vec::new(), held: OperatorMemory::default() };
        let rows = maker.rows(collection, &mut *source, cx);
        sum_stats(&mut *source, examined);
        let Some(rows) = rows? else { return Ok(None) };
        let Maker { mut entries, held, .. } = maker;
        entries.sort_unstable();
        entries.dedup();
        Ok(Some(Table {
            key: self.key,
            entries,
            rows,
            conditions: self.conditions,
            rest,
            planned: self.planned,
            _held: held,
        }))
    }
}

/// A table that is being built.
struct Maker<'k> {
    key: &'k Key,
    entries: Vec<(u64, u32)>,
    held: OperatorMemory,
}

impl Maker<'_> {
    /// Reads the rows; none if they do not fit into memory.
    fn rows(
        &mut self,
        collection: Option<Arc<Collection>>,
        source: &mut dyn Source,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Rows>> {
        let (mut records, mut kept, mut count) = (Vec::new(), Materialized::default(), 0);
        let mut key_bytes = 0;
        let mut arena = Bump::new();
        while source.advance(cx)? {
            // By its record id a document can be read again, which is good for a few rows. If all rows are tested,
            // they are kept.
            let record = match self.key {
                Key::All => None,
                _ if !source.meta().is_empty() => None,
                _ => source.record_id().map(RecordKey::to_id),
            };
            match record {
                Some(record) if kept.count() == 0 => {
                    key_bytes += record.heap_bytes();
                    records.push(record);
                }
                None if records.is_empty() => kept.push(source),
                _ => return Ok(None),
            }
            self.add(source, count, cx, &arena)?;
            renew(&mut arena);
            let Some(next) = count.checked_add(1) else { return Ok(None) };
            count = next;
            // The capacity of the vectors counts, not their length.
            let bytes = self.entries.capacity() * size_of::<(u64, u32)>()
                + records.capacity() * size_of::<RecordId>()
                + key_bytes;
            if bytes + kept.bytes() > LOOKUP_TABLE_BYTES_MAX
                || !self.held.fits(cx, bytes)
                || !kept.fits(cx)
            {
                return Ok(None);
            }
        }
        Ok(Some(match collection.filter(|_| !records.is_empty()) {
            Some(collection) => Rows::Records(collection, records),
            None => Rows::Documents(Arc::new(kept)),
        }))
    }

    /// Adds the hashes of the current document of `source`.
    fn add(&mut self, source: &dyn Source, place: u32, cx: &Cx<'_>, arena: &Bump) -> Result<()> {
        match self.key {
            Key::All => Ok(()),
            Key::Values(path, by) => {
                path::any(source.doc(), path, Leaf::Traverse, &mut |value, _| {
                    self.entries.push((hash_of(value, *by), place));
                    Ok(false)
                })
                .map(drop)
            }
            Key::Exprs(equalities) => {
                let eval = cx.eval(source.doc(), arena);
                let hashes = equalities.iter().map(|e| hash_of(e.of_doc(&eval), e.collation()));
                self.entries.push((hashes.fold(0, combine), place));
                Ok(())
            }
        }
    }
}

impl Table {
    /// Returns true if it finds rows by values.
    pub(super) fn has_key(&self) -> bool {
        !matches!(self.key, Key::All)
    }

    /// Opens the rows that belong to a document. `by_field`: the document's values, and the condition that the
    /// foreign field equals any of them. None if that cannot be determined here.
    pub(super) fn open(
        &self,
        by_field: Option<(&[ValueBuf], Filter)>,
        cx: &Cx<'_>,
    ) -> Option<Box<dyn Source>> {
        let mut equal = None;
        let places = match (&self.key, by_field) {
            (Key::All, _) => None,
            (Key::Values(_, by), Some((values, filter))) => {
                equal = Some(Arc::new(filter));
                Some(self.places(values.iter().map(|value| hash_of(value.value(), *by))))
            }
            (Key::Values(..), None) => return None,
            (Key::Exprs(equalities), _) => {
                let arena = Bump::new();
                let mut hash = 0;
                for equality in equalities {
                    let value = equality.operand(cx.vars, cx.env.now_ms(), &arena)?;
                    hash = combine(hash, hash_of(value, equality.collation()));
                }
                Some(self.places([hash].into_iter()))
            }
        };
        let mut source: Box<dyn Source> = match &self.rows {
            Rows::Records(collection, records) => {
                let places = places.unwrap_or_default();
                let ids = places.into_iter().map(|place| records[place as usize].clone()).collect();
                let ids = Box::new(Ids::new(ids));
                Box::new(Fetch::new(ids, Arc::clone(collection), [equal.take(), None], (None, 0)))
            }
            Rows::Documents(kept) => Box::new(MaterializedScan::new(kept, places)),
        };
        for filter in equal.into_iter().chain(self.conditions.clone()) {
            source = Box::new(Filtered::new(source, filter));
        }
        Some(self.rest.open(self.planned, source))
    }

    /// The numbers of the rows with any of the hashes, in order.
    fn places(&self, hashes: impl Iterator<Item = u64>) -> Vec<u32> {
        let mut places: Vec<u32> = Vec::new();
        for hash in hashes {
            let begin = self.entries.partition_point(|(other, _)| *other < hash);
            let same = self.entries[begin..].iter().take_while(|(other, _)| *other == hash);
            places.extend(same.map(|(_, place)| *place));
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}
