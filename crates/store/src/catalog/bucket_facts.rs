//! What is known of all buckets of a collection, so that conditions on measurements become conditions on buckets that
//! an index serves. Kept with the collection.
//!
//! An id begins with the begin of its bucket, in 32 bits of seconds. That is enough from 1970 to 2106, and other
//! servers take the upper half of it for times before 1970. For other times the bits wrap, so such a bucket is
//! anywhere.
//!
//! ```text
//!   1970         2038        2106
//!   |------------|-----------|          ids in their order
//!                | 1901-1970 |
//! ```
//!
//! The values of a field in a bucket are of one class (numbers, strings, ..), except in buckets of earlier versions of
//! other servers.
//!
//! The bits are set in memory before the write that needs them commits, and stored by it. They are never cleared.
//! Nothing is known of collections that an older version created.

use std::collections::HashSet;

use nagi_bson::{Doc, Element, Value, compare, number};
use nagi_error::Result;
use nagi_kv::{
    Space, Txn,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use super::Collection;
use crate::{
    engine_error::engine,
    ident::{CatalogKey, Ident},
};

/// Some bucket begins before 1970 or after 2038, and its id is in the upper half.
const IN_UPPER_HALF: u8 = 1;
/// The id of some bucket is not its begin: it was made so, or the begin has more than 32 bits.
const ELSEWHERE: u8 = 2;
/// The ends of the range of some field are of different classes, or one of them is no number, or a field has none.
const MIXED: u8 = 4;
/// Nothing is known.
const UNKNOWN: u8 = 0x80;

/// The bits of a collection.
#[derive(Debug)]
pub(crate) struct StoredFacts(AtomicU8);

impl Default for StoredFacts {
    fn default() -> StoredFacts {
        StoredFacts(AtomicU8::new(UNKNOWN))
    }
}

impl StoredFacts {
    /// Of a collection that has no buckets yet; `txn` creates it.
    pub(crate) fn of_nothing(ident: Ident, txn: &mut dyn Txn) -> Result<StoredFacts> {
        let key = ident.catalog_key(CatalogKey::BucketFacts);
        txn.put(Space::Catalog, &key, &[0]).map_err(engine)?;
        Ok(StoredFacts(AtomicU8::new(0)))
    }

    /// Of a stored collection.
    pub(crate) fn load(read: &dyn nagi_kv::Read, ident: Ident) -> Result<StoredFacts> {
        let key = ident.catalog_key(CatalogKey::BucketFacts);
        let mut buf = Vec::new();
        let stored = read.get(Space::Catalog, &key, &mut buf).map_err(engine)?;
        let bits = stored.and_then(|stored| stored.first()).copied().unwrap_or(UNKNOWN);
        Ok(StoredFacts(AtomicU8::new(bits)))
    }
}

impl StoredFacts {
    /// Takes over bits that another node has stored.
    pub(crate) fn learn(&self, stored: &StoredFacts) {
        self.0.fetch_or(stored.0.load(Relaxed), Relaxed);
    }
}

/// What is known of the buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketFacts(u8);

impl Collection {
    /// What is known of a collection of buckets: of those in snapshots that were taken before.
    pub fn bucket_facts(&self) -> BucketFacts {
        BucketFacts(self.state.bucket_facts.0.load(Relaxed))
    }
}

impl BucketFacts {
    /// True if all values of a field in a bucket are of the class of both ends of its range.
    pub fn are_uniform(self) -> bool {
        self.0 & (MIXED | UNKNOWN) == 0
    }

    /// The range of the seconds in the ids of the buckets that begin between two times, in seconds; none if there may
    /// be others. A missing bound is open.
    pub fn id_range(self, first: Option<i64>, last: Option<i64>) -> Option<(u32, u32)> {
        const HALF: i64 = 1 << 31;
        if self.0 & (ELSEWHERE | UNKNOWN) != 0 {
            return None;
        }
        let is_halved = self.0 & IN_UPPER_HALF != 0;
        let from = first.filter(|first| *first > 0);
        let to = last.filter(|last| *last < HALF);
        match (from, to) {
            (None, None) => None,
            // Of the buckets before 1970 none is wanted, and none of them is below.
            (Some(from), Some(to)) => {
                Some((u32::try_from(from).ok()?, u32::try_from(to).unwrap_or(0)))
            }
            (Some(from), None) => Some((u32::try_from(from).ok()?, u32::MAX)),
            (None, Some(to)) if !is_halved => Some((0, u32::try_from(to).unwrap_or(0))),
            (None, Some(_)) => None,
        }
    }
}

/// The bits for a bucket.
fn of_bucket(bucket: Doc<'_>, time_field: &str) -> u8 {
    let control = bucket.get("control").as_doc().unwrap_or(Doc::EMPTY);
    let end = |end| control.get(end).as_doc().unwrap_or(Doc::EMPTY);
    let (min, max) = (end("min"), end("max"));
    let data = bucket.get("data").as_doc().unwrap_or(Doc::EMPTY);
    let uniform = are_uniform(min.iter(), max.iter()) && have_ranges(data, min);
    let mixed = if uniform { 0 } else { MIXED };
    mixed | of_id(bucket, min, time_field)
}

/// True if all columns have a range.
fn have_ranges(data: Doc<'_>, min: Doc<'_>) -> bool {
    let same_order = || {
        let mut names = min.iter().map(|end| end.name());
        data.iter().all(|column| names.any(|name| name == column.name()))
    };
    let any_order = || {
        let names: HashSet<&str> = min.iter().map(|end| end.name()).collect();
        data.iter().all(|column| names.contains(column.name()))
    };
    same_order() || any_order()
}

/// True if the two ends have the same fields, of the same classes.
fn are_uniform<'d>(
    mut min: impl Iterator<Item = Element<'d>>,
    mut max: impl Iterator<Item = Element<'d>>,
) -> bool {
    loop {
        let (low, high) = match (min.next(), max.next()) {
            (Some(low), Some(high)) if low.name() == high.name() => (low.value(), high.value()),
            (None, None) => return true,
            _ => return false,
        };
        let same = match (low, high) {
            (Value::Doc(low), Value::Doc(high)) => are_uniform(low.iter(), high.iter()),
            (Value::Array(low), Value::Array(high)) => are_uniform(low.elements(), high.elements()),
            // Not a number is less than all numbers, but in no range of numbers.
            (low, high) => {
                compare::class(low) == compare::class(high)
                    && number::is_nan(low) == number::is_nan(high)
            }
        };
        if !same {
            return false;
        }
    }
}

fn of_id(bucket: Doc<'_>, min: Doc<'_>, time_field: &str) -> u8 {
    let (Value::ObjectId(id), Value::DateTime(begin)) = (bucket.get("_id"), min.get(time_field))
    else {
        return ELSEWHERE;
    };
    let in_id = id.first_chunk().map_or(0, |seconds| u32::from_be_bytes(*seconds));
    let begin = begin.div_euclid(1000);
    if begin == i64::from(in_id) {
        return if in_id >> 31 == 0 { 0 } else { IN_UPPER_HALF };
    }
    // Before 1970.
    let wraps = begin == i64::from(in_id as i32);
    if wraps { IN_UPPER_HALF } else { ELSEWHERE }
}

impl Collection {
    /// What a bucket that is written adds to what is known: the bits of this collection, if they are not all set in
    /// `stored`. They are set in memory at once. None for another collection.
    pub(crate) fn note_bucket(
        &self,
        bucket: Doc<'_>,
        stored: &dyn Fn() -> Result<Option<u8>>,
    ) -> Result<Option<u8>> {
        let Some(series) = self.options.timeseries.as_ref() else { return Ok(None) };
        if !self.namespace.is_buckets() {
            return Ok(None);
        }
        let bits = of_bucket(bucket, &series.time_field);
        let known = &self.state.bucket_facts.0;
        if bits == 0 || known.load(Relaxed) & UNKNOWN != 0 {
            return Ok(None);
        }
        known.fetch_or(bits, Relaxed);
        let is_stored = stored()?.is_some_and(|stored| stored & bits == bits);
        Ok((!is_stored).then_some(bits))
    }

    /// All bits that are known now.
    pub(crate) fn bucket_bits(&self) -> u8 {
        self.state.bucket_facts.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(seconds: u32, begin_ms: i64) -> u8 {
        let mut id = [7; 12];
        id[..4].copy_from_slice(&seconds.to_be_bytes());
        let ends = nagi_bson::doc! { "t": (Value::DateTime(begin_ms)) };
        let bucket = nagi_bson::doc! {
            "_id": (Value::ObjectId(&id)), "control": { "min": (&ends), "max": (&ends) }
        };
        of_bucket(bucket.as_doc(), "t")
    }

    #[test]
    fn ids_are_compared_with_begins() {
        assert_eq!(bits(0, 0), 0);
        assert_eq!(bits(5, 5999), 0);
        assert_eq!(bits(u32::MAX, -1), IN_UPPER_HALF);
        assert_eq!(bits(1 << 31, 1000 << 31), IN_UPPER_HALF);
        assert_eq!(bits(1 << 31, -1000 << 31), IN_UPPER_HALF);
        assert_eq!(bits(0, 1000 << 32), ELSEWHERE);
        assert_eq!(bits(u32::MAX >> 1, (-1000 << 31) - 1000), ELSEWHERE);
        assert_eq!(bits(0, i64::MIN), ELSEWHERE);
        assert_eq!(bits(0, i64::MAX), ELSEWHERE);
        assert_eq!(bits(6, 5999), ELSEWHERE);
        assert_eq!(of_bucket(Doc::EMPTY, "t"), ELSEWHERE);
    }

    #[test]
    fn ends_of_ranges_are_compared() {
        let uniform = |min: &str, max: &str| {
            let [min, max] = [min, max].map(|text| nagi_bson::json::parse(text).unwrap());
            are_uniform(min.as_doc().iter(), max.as_doc().iter())
        };
        assert!(uniform("{}", "{}"));
        assert!(uniform("{a: 1, b: {c: [1, 'x']}}", "{a: 2.5, b: {c: [NumberLong(7), 'z']}}"));
        for (min, max) in [
            ("{a: 1}", "{a: 'x'}"),
            ("{a: null}", "{a: 1}"),
            ("{a: 1}", "{}"),
            ("{}", "{a: 1}"),
            ("{a: 1, b: 1}", "{b: 1, a: 1}"),
            ("{a: {b: 1}}", "{a: {b: true}}"),
            ("{a: {b: 1}}", "{a: [1]}"),
            ("{a: [1]}", "{a: [1, 2]}"),
            ("{a: NaN}", "{a: 1}"),
        ] {
            assert!(!uniform(min, max), "{min} {max}");
        }
        let have = |data: &str, min: &str| {
            let [data, min] = [data, min].map(|text| nagi_bson::json::parse(text).unwrap());
            have_ranges(data.as_doc(), min.as_doc())
        };
        assert!(have("{t: 1, a: 1}", "{t: 1, x: 1, a: 1}") && have("{a: 1, t: 1}", "{t: 1, a: 1}"));
        assert!(!have("{t: 1, a: 1}", "{t: 1}"));
    }

    #[test]
    fn ranges_contain_each_bucket_in_question() {
        let (near, halved) = (BucketFacts(0), BucketFacts(IN_UPPER_HALF));
        assert_eq!(near.id_range(Some(5), None), Some((5, u32::MAX)));
        assert_eq!(near.id_range(None, Some(5)), Some((0, 5)));
        assert_eq!(near.id_range(None, Some(-5)), Some((0, 0)));
        assert_eq!(near.id_range(Some(-5), Some(5)), Some((0, 5)));
        assert_eq!(near.id_range(Some(3), Some(5)), Some((3, 5)));
        assert_eq!(near.id_range(None, Some(1 << 31)), None);
        assert_eq!(near.id_range(Some(1 << 32), None), None);
        assert_eq!(near.id_range(None, None), None);
        assert_eq!(halved.id_range(Some(5), None), Some((5, u32::MAX)));
        assert_eq!(halved.id_range(Some(3), Some(5)), Some((3, 5)));
        assert_eq!(halved.id_range(None, Some(5)), None);
        assert_eq!(halved.id_range(Some(-3), Some(5)), None);
        assert_eq!(halved.id_range(Some(3), Some(1 << 31)), Some((3, u32::MAX)));
        for unknown in [BucketFacts(ELSEWHERE), BucketFacts(UNKNOWN)] {
            assert_eq!(unknown.id_range(Some(3), Some(5)), None);
        }
    }
}
