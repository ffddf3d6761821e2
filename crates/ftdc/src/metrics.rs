//! The numbers of a sample in the order of its fields, and the comparison of two samples' fields.

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

/// The number as 64 bits; doubles lose their fraction, as in MongoDB.
fn number(value: Value<'_>) -> Option<u64> {
    Some(match value {
        Value::Double(n) => n as i64 as u64,
        Value::Int32(n) => i64::from(n) as u64,
        Value::Int64(n) | Value::DateTime(n) => n as u64,
        Value::Bool(b) => u64::from(b),
        _ => return None,
    })
}

/// True if both have the same fields in the same order, and the same kinds of values. Numbers of different types are
/// of one kind: a counter may grow from 32 to 64 bits.
pub(crate) fn same_fields(a: Doc<'_>, b: Doc<'_>) -> bool {
    same_within(a.iter(), b.iter(), 0)
}

fn same_within(mut a: Elements<'_>, mut b: Elements<'_>, depth: u32) -> bool {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.name() == b.name() && same_kind(a, b, depth) => {}
            _ => return false,
        }
    }
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
        Type::Double | Type::Int => Type::Long,
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
        assert!(!of(&one, &doc! { "a": 1, "b": { "d": "x" } }));
        assert!(!of(&one, &doc! { "a": 1, "b": { "c": "x" }, "e": 1 }));
        assert!(!of(&one, &doc! { "a": 1, "b": 1 }));
    }
}
