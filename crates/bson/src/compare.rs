//! MongoDB's order of values across types. Numbers of different types are compared without rounding.
//!
//! ```text
//!   MinKey < undefined < null = missing < numbers < strings = symbols < objects < arrays < binary
//!   < ObjectId < bool < date < timestamp < regex < DBPointer < code < code with scope < MaxKey
//! ```
//!
//! In aggregation expressions, missing sorts below null: [`expr_values`]. The recursion is bounded by the nesting
//! that validation accepts.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::LazyLock;

use crate::{Array, Doc, Element, Value, number};

const MIN_KEY: u8 = 0;
const UNDEFINED: u8 = 1;
const NULL: u8 = 5;
const NUMBER: u8 = 10;
const MAX_KEY: u8 = 127;

/// The type class, which is compared before the values. `Missing` has the class of null.
pub const fn class(value: Value<'_>) -> u8 {
    match value {
        Value::MinKey => MIN_KEY,
        Value::Undefined => UNDEFINED,
        Value::Missing | Value::Null => NULL,
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => NUMBER,
        Value::String(_) | Value::Symbol(_) => 15,
        Value::Doc(_) => 20,
        Value::Array(_) => 25,
        Value::Binary(_) => 30,
        Value::ObjectId(_) => 35,
        Value::Bool(_) => 40,
        Value::DateTime(_) => 45,
        Value::Timestamp(_) => 47,
        Value::Regex(_) => 50,
        Value::DbPointer(_) => 55,
        Value::Code(_) => 60,
        Value::CodeWithScope(_) => 65,
        Value::MaxKey => MAX_KEY,
    }
}

/// The order of strings and symbols. Values of other types have only one order.
pub trait Texts {
    fn order(&self, a: &str, b: &str) -> Ordering;
}

/// Orders strings by their bytes. It compiles to the plain comparison.
struct Bytes;

impl Texts for Bytes {
    #[inline(always)]
    fn order(&self, a: &str, b: &str) -> Ordering {
        a.cmp(b)
    }
}

/// Compares values as sorts, indexes and `$lt` do: missing equals null.
pub fn values(a: Value<'_>, b: Value<'_>) -> Ordering {
    values_by(a, b, &Bytes)
}

/// [`values`] with another order of the strings in the values.
pub fn values_by(a: Value<'_>, b: Value<'_>, texts: &impl Texts) -> Ordering {
    class(a).cmp(&class(b)).then_with(|| within_class(a, b, texts))
}

/// Compares values as expressions do: missing (and undefined) sort below null.
pub fn expr_values(a: Value<'_>, b: Value<'_>) -> Ordering {
    expr_values_by(a, b, &Bytes)
}

/// [`expr_values`] with another order of strings.
pub fn expr_values_by(a: Value<'_>, b: Value<'_>, texts: &impl Texts) -> Ordering {
    let class_of = |v: Value<'_>| if v.is_missing() { UNDEFINED } else { class(v) };
    class_of(a).cmp(&class_of(b)).then_with(|| within_class(a, b, texts))
}

/// Returns true if two values are equal in MongoDB's order: `1 == 1.0`, null equals missing.
pub fn equal(a: Value<'_>, b: Value<'_>) -> bool {
    values(a, b) == Ordering::Equal
}

/// Compares two values of the same class.
fn within_class(a: Value<'_>, b: Value<'_>, texts: &impl Texts) -> Ordering {
    match (a, b) {
        (Value::String(a) | Value::Symbol(a), Value::String(b) | Value::Symbol(b)) => {
            texts.order(a, b)
        }
        (Value::Doc(a), Value::Doc(b)) => docs_by(a, b, texts),
        (Value::Array(a), Value::Array(b)) => arrays_by(a, b, texts),
        (Value::Binary(a), Value::Binary(b)) => {
            let (x, y) = (a.bytes, b.bytes);
            let (s, t) = (a.subtype, b.subtype);
            x.len().cmp(&y.len()).then(s.cmp(&t)).then_with(|| x.cmp(y))
        }
        (Value::ObjectId(a), Value::ObjectId(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        (Value::DateTime(a), Value::DateTime(b)) => a.cmp(&b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (Value::Regex(a), Value::Regex(b)) => {
            a.pattern().cmp(b.pattern()).then_with(|| a.options().cmp(b.options()))
        }
        (Value::DbPointer(a), Value::DbPointer(b)) => {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        }
        (Value::Code(a), Value::Code(b)) => a.cmp(b),
        (Value::CodeWithScope(a), Value::CodeWithScope(b)) => {
            a.code().cmp(b.code()).then_with(|| docs(a.scope(), b.scope()))
        }
        (a, b) if a.is_number() => number::compare(a, b),
        _ => Ordering::Equal,
    }
}

/// Compares documents field by field, by class, name and value. A prefix sorts first.
pub fn docs(a: Doc<'_>, b: Doc<'_>) -> Ordering {
    docs_by(a, b, &Bytes)
}

fn docs_by(a: Doc<'_>, b: Doc<'_>, texts: &impl Texts) -> Ordering {
    if a.as_bytes() == b.as_bytes() {
        return Ordering::Equal;
    }
    pairwise(a.iter(), b.iter(), |x, y| x.name().cmp(y.name()), texts)
}

/// Compares arrays element by element, ignoring names. A prefix sorts first.
pub fn arrays(a: Array<'_>, b: Array<'_>) -> Ordering {
    arrays_by(a, b, &Bytes)
}

fn arrays_by(a: Array<'_>, b: Array<'_>, texts: &impl Texts) -> Ordering {
    if a.as_bytes() == b.as_bytes() {
        return Ordering::Equal;
    }
    pairwise(a.elements(), b.elements(), |_, _| Ordering::Equal, texts)
}

fn pairwise<'a>(
    mut a: impl Iterator<Item = Element<'a>>,
    mut b: impl Iterator<Item = Element<'a>>,
    names: impl Fn(&Element<'a>, &Element<'a>) -> Ordering,
    texts: &impl Texts,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => {
                let (v, w) = (x.value(), y.value());
                let order = class(v)
                    .cmp(&class(w))
                    .then_with(|| names(&x, &y))
                    .then_with(|| within_class(v, w, texts));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

/// Feeds a value to a hasher. Values that are [`equal`] have the same hash.
pub fn hash(value: Value<'_>, state: &mut impl Hasher) {
    class(value).hash(state);
    match value {
        Value::Int32(n) => i64::from(n).hash(state),
        Value::Int64(n) => n.hash(state),
        Value::Double(n) => hash_f64(n, state),
        Value::Decimal128(n) => match n.to_i64_exact() {
            Some(n) => n.hash(state),
            None => hash_f64(n.to_f64(), state),
        },
        Value::String(s) | Value::Symbol(s) | Value::Code(s) => s.hash(state),
        Value::Doc(d) => hash_doc(d, state),
        Value::Array(a) => a.iter().for_each(|v| hash(v, state)),
        Value::Binary(b) => {
            let (subtype, bytes) = (b.subtype, b.bytes);
            subtype.hash(state);
            bytes.hash(state);
        }
        Value::ObjectId(id) => id.hash(state),
        Value::Bool(v) => v.hash(state),
        Value::DateTime(v) => v.hash(state),
        Value::Timestamp(v) => v.hash(state),
        Value::Regex(v) => v.as_bytes().hash(state),
        Value::DbPointer(v) => v.as_bytes().hash(state),
        Value::CodeWithScope(v) => {
            v.code().hash(state);
            hash_doc(v.scope(), state);
        }
        Value::Missing | Value::Null | Value::Undefined | Value::MinKey | Value::MaxKey => {}
    }
}

/// [`hash`] with a fast hasher. Its seed is chosen at random per process, so that clients cannot construct
/// collisions; the result is only valid within the process.
pub fn hash_of(value: Value<'_>) -> u64 {
    static HASHER: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    let mut state = HASHER.build_hasher();
    hash(value, &mut state);
    state.finish()
}

fn hash_doc(doc: Doc<'_>, state: &mut impl Hasher) {
    for element in doc {
        element.name().hash(state);
        hash(element.value(), state);
    }
}

/// Integers are hashed as int64, so that 1.0 and 1 agree. Other numbers are hashed by their bits, with a single NaN.
/// A decimal that is not an int64 is rounded to the double that any equal value rounds to.
fn hash_f64(n: f64, state: &mut impl Hasher) {
    match number::f64_as_i64_exact(n) {
        Some(n) => n.hash(state),
        None if n.is_nan() => f64::NAN.to_bits().hash(state),
        None => n.to_bits().hash(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn classes_decide_first() {
        let d = doc! {};
        let a = crate::array! {};
        let id = [0; 12];
        let sorted = [
            Value::MinKey,
            Value::Undefined,
            Value::Null,
            Value::Double(f64::NAN),
            Value::Int32(-1),
            Value::Double(0.5),
            Value::Int64(7),
            Value::String(""),
            Value::Symbol("a"),
            Value::from(&d),
            Value::from(&a),
            Value::Binary(crate::Binary { subtype: 0, bytes: &[] }),
            Value::ObjectId(&id),
            Value::Bool(false),
            Value::Bool(true),
            Value::DateTime(-5),
            Value::Timestamp(0),
            Value::Regex(crate::Regex::from_bytes(b"a\0\0").unwrap()),
            Value::Code(""),
            Value::MaxKey,
        ];
        for (i, x) in sorted.iter().enumerate() {
            for (j, y) in sorted.iter().enumerate() {
                assert_eq!(values(*x, *y), i.cmp(&j), "{x} {y}");
            }
        }
        assert!(equal(Value::Missing, Value::Null));
        assert_eq!(expr_values(Value::Missing, Value::Null), Ordering::Less);
    }

    #[test]
    fn documents_compare_by_class_then_name_then_value() {
        let cases = [
            (doc! { "b": 1 }, doc! { "a": "x" }, Ordering::Less),
            (doc! { "a": 2 }, doc! { "b": 1 }, Ordering::Less),
            (doc! { "a": 1 }, doc! { "a": 1, "b": 1 }, Ordering::Less),
            (doc! { "a": 1 }, doc! { "a": 1.0 }, Ordering::Equal),
        ];
        for (a, b, order) in cases {
            assert_eq!(docs(a.as_doc(), b.as_doc()), order);
        }
        let (a, b) = (doc! { "a": [1, 2] }, doc! { "a": [1.0, 2i64] });
        assert_eq!(hash_of(Value::from(&a)), hash_of(Value::from(&b)));
    }
}
