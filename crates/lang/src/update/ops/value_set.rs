//! A set of values by BSON equality, for operators that ask "is it there?" of many values.
//!
//! Few values are compared one by one; many go to hash buckets, so that a million elements cost a
//! million steps and not their square.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::Value;

use crate::collation::{self, Collation};

/// Values compared one by one up to this many.
const FEW: usize = 8;

/// Borrowed values; equal ones (`1` and `1.0`) count once.
pub(super) struct ValueSet<'v> {
    few: Vec<Value<'v>>,
    many: HashMap<u64, Vec<Value<'v>>, RandomState>,
    collation: Option<&'static Collation>,
}

impl<'v> ValueSet<'v> {
    /// An empty set of values whose strings compare by a collation.
    pub(super) fn new(collation: Option<&'static Collation>) -> ValueSet<'v> {
        ValueSet { few: Vec::new(), many: HashMap::default(), collation }
    }

    /// A set of all these.
    pub(super) fn of(
        values: impl Iterator<Item = Value<'v>>,
        collation: Option<&'static Collation>,
    ) -> ValueSet<'v> {
        let mut set = ValueSet::new(collation);
        values.for_each(|value| {
            set.insert(value);
        });
        set
    }

    fn equal(&self, a: Value<'_>, b: Value<'_>) -> bool {
        collation::equal(a, b, self.collation)
    }

    pub(super) fn contains(&self, value: Value<'_>) -> bool {
        if self.many.is_empty() {
            return self.few.iter().any(|other| self.equal(*other, value));
        }
        let bucket = self.many.get(&collation::hash_of(value, self.collation));
        bucket.is_some_and(|held| held.iter().any(|other| self.equal(*other, value)))
    }

    /// Adds a value; false if an equal one is there.
    pub(super) fn insert(&mut self, value: Value<'v>) -> bool {
        if self.contains(value) {
            return false;
        }
        if self.many.is_empty() && self.few.len() < FEW {
            self.few.push(value);
            return true;
        }
        for value in self.few.drain(..).chain([value]) {
            self.many.entry(collation::hash_of(value, self.collation)).or_default().push(value);
        }
        true
    }
}
