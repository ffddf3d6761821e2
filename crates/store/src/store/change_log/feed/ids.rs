//! The ids of changed documents, for streams that want the changes of one document only.

use std::{cell::RefCell, hash::BuildHasher, sync::LazyLock};

use foldhash::fast::RandomState;
use nagi_bson::Value;

use crate::keystring;

/// A set of hashes is stored as the set of their upper bits.
const PART_BITS: u32 = 8;
const PARTS: usize = 1 << PART_BITS;

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

thread_local! {
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The hash of a document's `_id`. Ids that are equal, such as 1 and 1.0, have equal hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash(u64);

impl IdHash {
    pub fn of(id: Value<'_>) -> IdHash {
        KEY.with_borrow_mut(|key| {
            key.clear();
            keystring::append(id, false, key);
            IdHash(HASHER.hash_one(&**key))
        })
    }

    fn part(self) -> usize {
        (self.0 >> (u64::BITS - PART_BITS)) as usize
    }

    /// The range of hashes of a part.
    fn of_part(part: usize) -> std::ops::RangeInclusive<IdHash> {
        let first = (part as u64) << (u64::BITS - PART_BITS);
        IdHash(first)..=IdHash(first | (u64::MAX >> PART_BITS))
    }
}

/// The documents that a transaction has changed: a superset, in little space.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChangedIds {
    parts: [u64; PARTS / 64],
    /// There are changes of which no ids are known.
    others: bool,
}

impl ChangedIds {
    pub(crate) fn add(&mut self, id: IdHash) {
        self.parts[id.part() / 64] |= 1 << (id.part() % 64);
    }

    pub(crate) fn add_others(&mut self) {
        self.others = true;
    }

    /// The ranges of hashes that may be among them; `None`: all.
    pub(super) fn ranges(&self) -> Option<impl Iterator<Item = std::ops::RangeInclusive<IdHash>>> {
        let has = |part: &usize| self.parts[part / 64] & (1 << (part % 64)) != 0;
        (!self.others).then(|| (0..PARTS).filter(has).map(IdHash::of_part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_have_one_hash_and_are_found_in_a_set() {
        let of = |value: Value<'_>| IdHash::of(value);
        assert_eq!(of(Value::Int32(5)), of(Value::Double(5.0)));
        assert_eq!(of(Value::Int32(5)), of(Value::Int64(5)));
        assert_ne!(of(Value::Int32(5)), of(Value::String("5")));
        let mut set = ChangedIds::default();
        assert_eq!(set.ranges().unwrap().count(), 0);
        for n in 0..20 {
            set.add(of(Value::Int32(n)));
        }
        let within = |id| set.ranges().unwrap().any(|range| range.contains(&id));
        assert!((0..20).all(|n| within(of(Value::Int64(n)))));
        let others = (1000..2000).filter(|n| within(of(Value::Int64(*n)))).count();
        assert!(others < 300, "a superset, but not of everything: {others}");
        set.add_others();
        assert!(set.ranges().is_none());
    }
}
