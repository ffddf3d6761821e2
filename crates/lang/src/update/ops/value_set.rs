//! A set of values by BSON equality, for operators that test many values for membership.
//!
//! A few values are compared one by one. Larger sets are hash tables, so that the cost for a million elements is
//! linear and not quadratic.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_bson::Value;
use nagi_budget::meter;

use crate::collation::{self, Collation};

/// The number of values up to which they are compared one by one.
const FEW: usize = 8;

/// The values with the same hash. A single value, the usual case, needs no allocation.
enum Bucket<'v> {
    One(Value<'v>),
    Several(Vec<Value<'v>>),
}

impl<'v> Bucket<'v> {
    fn values(&self) -> &[Value<'v>] {
        match self {
            Bucket::One(value) => std::slice::from_ref(value),
            Bucket::Several(values) => values,
        }
    }

    fn push(&mut self, value: Value<'v>) {
        match self {
            Bucket::One(first) => *self = Bucket::Several(vec![*first, value]),
            Bucket::Several(values) => values.push(value),
        }
    }
}

/// A set of borrowed values. Equal values (`1` and `1.0`) count once.
pub(super) struct ValueSet<'v> {
    few: Vec<Value<'v>>,
    many: HashMap<u64, Bucket<'v>, RandomState>,
    collation: Option<&'static Collation>,
}

impl<'v> ValueSet<'v> {
    /// An empty set of values whose strings compare by the collation.
    pub(super) fn new(collation: Option<&'static Collation>) -> ValueSet<'v> {
        ValueSet { few: Vec::new(), many: HashMap::default(), collation }
    }

    /// A set of the given values.
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
        bucket.is_some_and(|held| held.values().iter().any(|other| self.equal(*other, value)))
    }

    /// Returns true if the memory for a table of twice the size is available, beside the current table. Otherwise the
    /// request is cancelled (see [`meter::must_fit`]), and the contents of the set no longer matter.
    fn may_double(&self) -> bool {
        let place = size_of::<(u64, Bucket<'_>)>() + 1;
        meter::must_fit(self.many.capacity().max(FEW) * 2 * 2 * place)
    }

    /// Adds a value. Returns false if the set contains an equal one.
    pub(super) fn insert(&mut self, value: Value<'v>) -> bool {
        if self.contains(value) {
            return false;
        }
        if self.many.is_empty() && self.few.len() < FEW {
            self.few.push(value);
            return true;
        }
        if self.many.len() == self.many.capacity() && !self.may_double() {
            return false;
        }
        for value in self.few.drain(..).chain([value]) {
            let bucket = self.many.entry(collation::hash_of(value, self.collation));
            bucket.and_modify(|held| held.push(value)).or_insert(Bucket::One(value));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use nagi_budget::{Budget, Metering};

    use super::*;

    #[test]
    fn a_set_that_has_no_room_to_grow_ends_the_request() {
        let values = || (0..200_000).map(Value::Int32);
        let mut set = ValueSet::of(values(), None);
        assert!(!set.insert(Value::Double(7.0)) && set.insert(Value::Int32(-1)));
        assert!(!meter::check_refused());
        let budget = Budget::new(4 << 20);
        let _request = Metering::begin(&budget);
        let set = ValueSet::of(values(), None);
        assert!(meter::check_refused());
        assert!(set.many.len() < 100_000, "{}", set.many.len());
    }
}
