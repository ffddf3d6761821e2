//! A set of values by BSON equality, for operators that ask "is it there?" of many values.
//!
//! Few values are compared one by one; many go to hash buckets, so that a million elements cost a
//! million steps and not their square.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::{Value, compare};

/// Values compared one by one up to this many.
const FEW: usize = 8;

/// Borrowed values; equal ones (`1` and `1.0`) count once.
#[derive(Default)]
pub(super) struct ValueSet<'v> {
    few: Vec<Value<'v>>,
    many: HashMap<u64, Vec<Value<'v>>, RandomState>,
}

impl<'v> ValueSet<'v> {
    pub(super) fn contains(&self, value: Value<'_>) -> bool {
        if self.many.is_empty() {
            return self.few.iter().any(|other| compare::equal(*other, value));
        }
        let bucket = self.many.get(&compare::hash_of(value));
        bucket.is_some_and(|held| held.iter().any(|other| compare::equal(*other, value)))
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
            self.many.entry(compare::hash_of(value)).or_default().push(value);
        }
        true
    }
}

impl<'v> FromIterator<Value<'v>> for ValueSet<'v> {
    fn from_iter<I: IntoIterator<Item = Value<'v>>>(values: I) -> Self {
        let mut set = ValueSet::default();
        values.into_iter().for_each(|value| {
            set.insert(value);
        });
        set
    }
}
