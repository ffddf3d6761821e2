//! The numbers of a sample in the order of its fields, and the comparison of two samples' fields.

use nagi_bson::number::truncate_to_i64;
use nagi_bson::{Doc, Element, Elements, Type, Value};

/// Nesting beyond which fields are no columns. Statistics are far flatter; the bound keeps the recursion short.
const DEPTH_MAX: u32 = 32;

/// Appends the numbers of `doc` to `out`: of a timestamp two, seconds and increment.
pub(crate) fn extract(doc: Doc<'_>, out: &mut Vec<u64>) {
    extract_within(doc.iter(), 0, out);
}

fn extract_within(fields: Elements<'_>, depth: u32, out: &mut Vec<u64>) {
    for field in fields {
        match field.value() {
            Value::Doc(doc) if depth < DEPTH_MAX => extract_within(doc.iter(), depth + 1, out),
            Value::Array(array) if depth < DEPTH_MAX => {
                extract_within(array.elements(), depth + 1, out);
            }
            Value::Timestamp(both) => out.extend([both >> 32, both & 0xffff_ffff]),
            value => out.extend(number(value)),
        }
    }
}

/// The number as 64 bits; doubles and decimals lose their fraction, as in MongoDB.
fn number(value: Value<'_>) -> Option<u64> {
    let number = match value {
        Value::DateTime(n) => n,
        Value::Bool(b) => i64::from(b),
        other => truncate_to_i64(other)?,
    };
    Some(number as u64)
}

/// True if both have the same numbers in the same order: names and kinds, not values. Numbers of different types are of
/// one kind: a counter may grow from 32 to 64 bits. Fields of other types are not compared.
pub(crate) fn same_fields(a: Doc<'_>, b: Doc<'_>) -> bool {
    same_within(a.iter(), b.iter(), 0)
}

fn same_within(a: Elements<'_>, b: Elements<'_>, depth: u32) -> bool {
    let (mut a, mut b) = (a.filter(is_recorded), b.filter(is_recorded));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.name() == b.name() && same_kind(a, b, depth) => {}
            _ => return false,
        }
    }
}

/// True for what has numbers, or is one.
fn is_recorded(field: &Element<'_>) -> bool {
    use Type::{Array, Bool, Date, Decimal, Double, Int, Long, Object, Timestamp};
    let kind = field.kind();
    matches!(kind, Array | Bool | Date | Decimal | Double | Int | Long | Object | Timestamp)
}

fn same_kind(a: Element<'_>, b: Element<'_>, depth: u32) -> bool {
    match (a.value(), b.value()) {
        (Value::Doc(a), Value::Doc(b)) if depth < DEPTH_MAX => {
            same_within(a.iter(), b.iter(), depth + 1)
        }
        (Value::Array(a), Value::Array(b)) if depth < DEPTH_MAX => {
            same_within(a.elements(), b.elements(), depth + 1)
        }
        _ => kind(a.kind()) == kind(b.kind()),
    }
}

fn kind(of: Type) -> Type {
    match of {
        Type::Double | Type::Int | Type::Decimal => Type::Long,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::doc;

    #[test]
    fn numbers_are_taken_in_the_order_of_fields() {
        let sample = doc! { "a": 1, "s": "x", "b": { "c": 2.9, "d": [true, -1_i64] } };
        let mut numbers = Vec::new();
        extract(sample.as_doc(), &mut numbers);
        assert_eq!(numbers, [1, 2, 1, u64::MAX]);
    }

    #[test]
    fn numbers_of_all_types_are_of_one_kind() {
        let of = |a: &nagi_bson::DocBuf, b: &nagi_bson::DocBuf| same_fields(a.as_doc(), b.as_doc());
        let one = doc! { "a": 1, "b": { "c": "x" } };
        assert!(of(&one, &doc! { "a": 2_i64, "b": { "c": "other" } }));
        assert!(of(&one, &doc! { "a": 2.5, "b": { "c": "" } }));
        assert!(!of(&one, &doc! { "a": true, "b": { "c": "x" } }));
        assert!(of(&one, &doc! { "a": 1, "b": { "d": "x" } }), "texts are not compared");
        assert!(!of(&one, &doc! { "a": 1, "b": { "d": 1 } }));
        assert!(!of(&one, &doc! { "c": 1, "b": {} }));
        assert!(!of(&one, &doc! { "a": 1, "b": { "c": "x" }, "e": 1 }));
        assert!(!of(&one, &doc! { "a": 1, "b": 1 }));
    }
}
