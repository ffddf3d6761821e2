//! Which buckets of a time series collection are open: for each metadata, the buckets that got measurements most
//! recently. The documents themselves are read again by each insert, so an entry that is wrong costs only a lookup.
//!
//! The memory is bounded by two generations: entries that are used move to the young one, and when it is full, it
//! becomes the old one and the entries of the old one are dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use nagi_bson::ValueBuf;

/// The size of one generation of a collection, in bytes.
const GENERATION_BYTES_MAX: usize = 2 << 20;

/// The most open buckets for one metadata. Several, because late measurements have another bucket than new ones.
const BUCKETS_MAX: usize = 4;

/// The bytes of an entry beside its metadata.
const ENTRY_OVERHEAD: usize = 96 + BUCKETS_MAX * 12;

/// Metadata as a key; none for measurements without.
type Meta = Option<ValueBuf>;

type Ids = Vec<[u8; 12]>;

#[derive(Default)]
struct Generations {
    young: HashMap<Meta, Ids>,
    young_bytes: usize,
    old: HashMap<Meta, Ids>,
}

/// The open buckets of one collection.
#[derive(Default)]
pub(super) struct OpenBuckets(Mutex<Generations>);

impl OpenBuckets {
    /// The ids of the open buckets for a metadata, the most recent first.
    pub(super) fn of(&self, meta: &Meta) -> Ids {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.young.get(meta).or_else(|| all.old.get(meta)).cloned().unwrap_or_default()
    }

    /// Makes a bucket the most recent one.
    pub(super) fn note(&self, meta: &Meta, id: [u8; 12]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &mut *all;
        if !all.young.contains_key(meta) {
            all.young_bytes += ENTRY_OVERHEAD + meta.as_ref().map_or(0, ValueBuf::heap_bytes);
            if all.young_bytes > GENERATION_BYTES_MAX {
                all.old = std::mem::take(&mut all.young);
                all.young_bytes = ENTRY_OVERHEAD + meta.as_ref().map_or(0, ValueBuf::heap_bytes);
            }
            let before = all.old.remove(meta).unwrap_or_default();
            all.young.insert(meta.clone(), before);
        }
        let Some(ids) = all.young.get_mut(meta) else { return };
        ids.retain(|other| *other != id);
        ids.truncate(BUCKETS_MAX - 1);
        ids.insert(0, id);
    }

    /// Forgets a bucket that is full or gone.
    pub(super) fn forget(&self, meta: &Meta, id: [u8; 12]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &mut *all;
        for generation in [&mut all.young, &mut all.old] {
            if let Some(ids) = generation.get_mut(meta) {
                ids.retain(|other| *other != id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::Value;

    fn meta(n: i32) -> Meta {
        Some(ValueBuf::new(Value::Int32(n)))
    }

    #[test]
    fn recent_buckets_come_first() {
        let open = OpenBuckets::default();
        for n in 0..6 {
            open.note(&meta(1), [n; 12]);
        }
        open.note(&meta(1), [3; 12]);
        assert_eq!(open.of(&meta(1)), [[3; 12], [5; 12], [4; 12], [2; 12]]);
        open.forget(&meta(1), [5; 12]);
        assert_eq!(open.of(&meta(1)), [[3; 12], [4; 12], [2; 12]]);
        assert!(open.of(&meta(2)).is_empty() && open.of(&None).is_empty());
        open.note(&None, [9; 12]);
        assert_eq!(open.of(&None), [[9; 12]]);
    }

    #[test]
    fn memory_is_bounded() {
        let open = OpenBuckets::default();
        for n in 0..200_000 {
            open.note(&meta(n), [1; 12]);
            open.note(&meta(-1), [2; 12]);
        }
        let all = open.0.lock().unwrap();
        assert!(all.young.len() + all.old.len() < 2 * GENERATION_BYTES_MAX / ENTRY_OVERHEAD);
        drop(all);
        assert_eq!(open.of(&meta(-1)), [[2; 12]], "what is used stays");
        assert!(open.of(&meta(0)).is_empty());
    }
}
