//! Key strings: their byte order is the order of the values, and they decode to the values.

use std::cmp::Ordering;

use nagi_bson::{DocBuf, Value, ValueBuf, compare, json};
use nagi_lang::collation::{self, Collation};
use nagi_store::keystring::{self, TypeBits};

use crate::random::Random;

fn encode(value: Value<'_>, descending: bool) -> (Vec<u8>, TypeBits) {
    let (mut key, mut bits) = (Vec::new(), TypeBits::new());
    keystring::append_typed(value, descending, &mut key, &mut bits);
    (key, bits)
}

fn check_order(a: &ValueBuf, b: &ValueBuf) {
    let (a, b) = (a.value(), b.value());
    let expected = compare::values(a, b);
    let ((x, _), (y, _)) = (encode(a, false), encode(b, false));
    assert_eq!(x.cmp(&y), expected, "{a} and {b}: {x:02x?} {y:02x?}");
    let ((x, _), (y, _)) = (encode(a, true), encode(b, true));
    assert_eq!(x.cmp(&y), expected.reverse(), "descending {a} and {b}");
    if expected != Ordering::Equal {
        assert!(!x.starts_with(&y) && !y.starts_with(&x), "{a} and {b}: one is a prefix");
    }
}

fn check_decode(value: &ValueBuf, descending: bool) {
    let (key, bits) = encode(value.value(), descending);
    let decoded = DocBuf::build(|w| {
        let fields = [("", descending)].into_iter();
        keystring::decode(&key, bits.as_bytes(), fields, w).unwrap();
    });
    let back = decoded.get("");
    let same = back.same_bytes(&value.value()) || is_nan(back) && is_nan(value.value());
    assert!(same, "{} came back as {back}", value.value());
    assert_eq!(keystring::field_len(&key, descending).unwrap(), key.len());
}

fn is_nan(value: Value<'_>) -> bool {
    nagi_bson::number::is_nan(value)
}

#[test]
fn numbers_order_exactly() {
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        check_order(&random.number(), &random.number());
    }
}

#[test]
fn values_of_all_types_order_as_bson() {
    let mut random = Random::new(2);
    for _ in 0..8_000 {
        check_order(&random.value(2), &random.value(2));
    }
}

#[test]
fn values_come_back() {
    let mut random = Random::new(3);
    for _ in 0..8_000 {
        check_decode(&random.number(), false);
        check_decode(&random.value(2), random.below(2) == 0);
    }
}

#[test]
fn fields_are_passed_over_with_their_type_bits() {
    let mut random = Random::new(6);
    for _ in 0..8_000 {
        let values = [random.number(), random.value(2), random.number(), random.value(1)];
        let (mut key, mut bits) = (Vec::new(), TypeBits::new());
        let descending = random.below(2) == 0;
        for value in &values {
            keystring::append_typed(value.value(), descending, &mut key, &mut bits);
        }
        let names = ["a", "b", "c", "d"].map(|name| (random.below(2) == 0).then_some(name));
        let decoded = DocBuf::build(|w| {
            let fields = names.into_iter().map(|name| (name, descending));
            keystring::decode_some(&key, bits.as_bytes(), fields, w).unwrap();
        });
        let expected = DocBuf::build(|w| {
            let named =
                names.iter().zip(&values).filter_map(|(name, value)| Some(((*name)?, value)));
            named.for_each(|(name, value)| w.put(name, value.value()));
        });
        let same = compare::values(Value::Doc(decoded.as_doc()), Value::Doc(expected.as_doc()))
            == Ordering::Equal;
        assert!(same, "{names:?} of {values:?}: {decoded:?}");
    }
}

#[test]
fn compound_keys_order_field_by_field() {
    let mut random = Random::new(4);
    for _ in 0..8_000 {
        let directions = [random.below(2) == 0, random.below(2) == 0];
        let a = [random.value(1), random.value(1)];
        let other = random.value(1);
        let b = [random.pick(&[&a[0], &other]).clone(), random.value(1)];
        let mut keys = [Vec::new(), Vec::new()];
        let mut expected = Ordering::Equal;
        for (at, descending) in directions.into_iter().enumerate() {
            keystring::append(a[at].value(), descending, &mut keys[0]);
            keystring::append(b[at].value(), descending, &mut keys[1]);
            let order = compare::values(a[at].value(), b[at].value());
            expected = expected.then(if descending { order.reverse() } else { order });
        }
        assert_eq!(keys[0].cmp(&keys[1]), expected, "{a:?} {b:?} {directions:?}");
    }
}

#[test]
fn a_prefix_is_bounded_by_after() {
    let mut random = Random::new(5);
    for _ in 0..10_000 {
        let descending = random.below(2) == 0;
        let (first, second) = (random.value(1), random.value(1));
        let mut prefix = Vec::new();
        keystring::append(first.value(), random.below(2) == 0, &mut prefix);
        let mut key = prefix.clone();
        keystring::append(second.value(), descending, &mut key);
        let mut after = prefix.clone();
        after.push(keystring::AFTER);
        assert!(prefix < key && key < after, "{first:?} {second:?}");
    }
}

/// Also for strings in documents and arrays, in both directions; values that are equal under the collation have one
/// key.
#[test]
fn collated_keys_order_as_collations_compare() {
    let specs = [
        "{locale: 'en'}",
        "{locale: 'en', strength: 1}",
        "{locale: 'en', strength: 1, caseLevel: true, caseFirst: 'upper'}",
        "{locale: 'en', strength: 2, numericOrdering: true}",
        "{locale: 'de', alternate: 'shifted', maxVariable: 'space'}",
        "{locale: 'fr', strength: 3, backwards: true, normalization: true}",
        "{locale: 'sv', strength: 4, alternate: 'shifted'}",
        "{locale: 'en', strength: 5}",
    ];
    let mut random = Random::new(6);
    for spec in specs {
        let parsed = json::parse(spec).unwrap();
        let collation = Collation::parse(parsed.as_doc()).unwrap().unwrap();
        for _ in 0..3_000 {
            let (a, b) = (random.value(2), random.value(2));
            let expected = collation::values(a.value(), b.value(), Some(collation));
            for descending in [false, true] {
                let [x, y] = [&a, &b].map(|value| {
                    let keyed = collation.keyed(value.value());
                    encode(keyed.as_ref().unwrap_or(value).value(), descending).0
                });
                let expected = if descending { expected.reverse() } else { expected };
                assert_eq!(x.cmp(&y), expected, "{spec}: {a:?} and {b:?}, descending {descending}");
            }
        }
    }
}
