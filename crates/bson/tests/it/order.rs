//! The order of values is total, and equal values have the same hash.

use std::cmp::Ordering;

use nagi_bson::{Value, compare, number};
use proptest::prelude::*;

use crate::generate::tree;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn order_is_total(a in tree(), b in tree(), c in tree()) {
        let (a, b, c) = (a.to_value(), b.to_value(), c.to_value());
        let (a, b, c) = (a.value(), b.value(), c.value());
        prop_assert_eq!(compare::values(a, a), Ordering::Equal);
        prop_assert_eq!(compare::values(a, b), compare::values(b, a).reverse());
        let mut sorted = [a, b, c];
        sorted.sort_by(|x, y| compare::values(*x, *y));
        prop_assert_ne!(compare::values(sorted[0], sorted[2]), Ordering::Greater);
        if compare::equal(a, b) {
            prop_assert_eq!(compare::hash_of(a), compare::hash_of(b));
            prop_assert_eq!(compare::values(a, c), compare::values(b, c));
        }
    }

    #[test]
    fn sums_agree_with_the_widest_type(a in any::<i32>(), b in any::<i64>()) {
        let sum = number::add(Value::Int32(a), Value::Int64(b));
        match i64::from(a).checked_add(b) {
            Some(n) => prop_assert_eq!(sum, Value::Int64(n)),
            None => prop_assert_eq!(sum, Value::Double(f64::from(a) + b as f64)),
        }
    }
}
