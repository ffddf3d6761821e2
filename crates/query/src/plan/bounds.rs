//! Index bounds: converts a predicate to the index keys of the documents that satisfy it.
//!
//! The keys of a document at a path are its values there: for an array, each element (and, in an array of arrays,
//! the inner array as a whole); for `[]`, undefined; for a missing field, null.
//!
//! Bounds are always *complete*: every matching document has a key inside. They are *exact* if in addition every
//! key inside belongs to a matching document; then the predicate need not be tested again, and its negation is the
//! complement.
//!
//! ```text
//!   {a: {$gte: 5}}   [5, inf]                exact
//!   {a: /^ab/}       ["ab", "ac") or the regex itself   exact
//!   {a: /ab/}        ["", {}) or the regex itself       inexact: the pattern is tested on each key or document
//! ```

use nagi_bson::{Array, Binary, Doc, Regex, Type, Value, ValueBuf};
use nagi_lang::{
    collation::{self, Collation},
    filter::{CompareOp, Filter, Pred},
    regex::Pattern,
};

use crate::access::interval::{Interval, Intervals};

/// Bounds of one predicate.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) set: Intervals,
    pub(crate) exact: bool,
}

impl Bounds {
    fn exact(set: Intervals) -> Bounds {
        Bounds { set, exact: true }
    }

    pub(super) fn inexact(set: Intervals) -> Bounds {
        Bounds { set, exact: false }
    }

    pub(crate) fn all() -> Bounds {
        Bounds::inexact(Intervals::all())
    }
}

/// The keys that bounds are built for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    /// Keys of an index. With a collation, strings are represented by collation keys.
    Index(Option<&'static Collation>),
    /// No index: each predicate orders strings by its own collation. Used to examine the set of a single predicate.
    Own,
}

/// An operand in the representation of keys.
pub(super) enum Held {
    Same,
    Keyed(ValueBuf),
    /// The predicate orders strings differently from the keys.
    Otherwise,
}

impl Keys {
    pub(super) fn hold(self, operand: Value<'_>, collation: Option<&'static Collation>) -> Held {
        match self {
            Keys::Index(own) if own != collation && collation::has_text(operand) => Held::Otherwise,
            _ => match collation.and_then(|collation| collation.keyed(operand)) {
                Some(keyed) => Held::Keyed(keyed),
                None => Held::Same,
            },
        }
    }

    fn are_collated(self) -> bool {
        matches!(self, Keys::Index(Some(_)))
    }
}

/// Returns true if a predicate orders strings differently from the keys, so that they are of no use.
pub(crate) fn is_foreign(pred: &Pred, keys: Keys) -> bool {
    let foreign = |value: &ValueBuf, own| matches!(keys.hold(value.value(), own), Held::Otherwise);
    match pred {
        Pred::Compare { value, collation, .. } => foreign(value, *collation),
        Pred::In(list) => list.values().iter().any(|value| foreign(value, list.collation())),
        Pred::ElemMatchValue(filter) => holds_foreign(filter, keys),
        _ => false,
    }
}

fn holds_foreign(filter: &Filter, keys: Keys) -> bool {
    match filter {
        Filter::And(all) | Filter::Or(all) | Filter::Nor(all) => {
            all.iter().any(|part| holds_foreign(part, keys))
        }
        Filter::Not(inner) => holds_foreign(inner, keys),
        Filter::Field { pred, .. } => is_foreign(pred, keys),
        _ => false,
    }
}

const ID_MIN: [u8; 12] = [0; 12];
const ID_MAX: [u8; 12] = [0xFF; 12];
const BINARY_MIN: Value<'static> = Value::Binary(Binary { subtype: 0, bytes: &[] });

/// The bounds of a predicate on a path. `simple` means that no document has an array above the path's last
/// component (so a null key means that the value is null or missing).
///
/// Strings in bounds have the representation of `keys`; a predicate that orders strings differently has no bounds.
pub(crate) fn of_pred(pred: &Pred, simple: bool, keys: Keys) -> Bounds {
    match pred {
        Pred::Compare { op, value, collation } => match keys.hold(value.value(), *collation) {
            Held::Same => of_compare(*op, value.value(), simple),
            Held::Keyed(value) => of_compare(*op, value.value(), simple),
            Held::Otherwise => Bounds::all(),
        },
        Pred::In(list) => {
            let mut out = Bounds::exact(Intervals::default());
            let mut intervals = Vec::new();
            for value in list.values() {
                let held = keys.hold(value.value(), list.collation());
                let bounds = match &held {
                    Held::Same => of_compare(CompareOp::Eq, value.value(), simple),
                    Held::Keyed(value) => of_compare(CompareOp::Eq, value.value(), simple),
                    Held::Otherwise => return Bounds::all(),
                };
                out.exact &= bounds.exact;
                intervals.extend(bounds.set.0);
            }
            for pattern in list.patterns() {
                let bounds = of_regex(pattern, keys);
                out.exact &= bounds.exact;
                intervals.extend(bounds.set.0);
            }
            out.set = Intervals::from_any(intervals);
            out
        }
        Pred::Exists => Bounds::all(),
        Pred::Type(types) => {
            let mut out = Bounds::exact(Intervals::default());
            let mut intervals = Vec::new();
            if types.contains(Type::Array) {
                return Bounds::all();
            }
            let numbers = [Type::Double, Type::Int, Type::Long, Type::Decimal];
            let all_numbers = numbers.iter().all(|kind| types.contains(*kind));
            for kind in types.iter() {
                let bounds = of_type(kind, all_numbers);
                out.exact &= bounds.exact;
                intervals.extend(bounds.set.0);
            }
            out.set = Intervals::from_any(intervals);
            out
        }
        Pred::Regex(pattern) => of_regex(pattern, keys),
        Pred::Mod { .. } => Bounds::inexact(class_of(Type::Int)),
        Pred::Size(_) | Pred::Bits(_) | Pred::ElemMatchObject(_) | Pred::Geo(_) | Pred::Near(_) => {
            Bounds::all()
        }
        Pred::ElemMatchValue(filter) => Bounds::inexact(of_element(filter, keys)),
    }
}

/// The bounds of the negation of a predicate; none if an index is of no use. They are exact only if no document has
/// several keys.
pub(crate) fn of_negation(pred: &Pred, simple: bool, keys: Keys) -> Option<Bounds> {
    if let Pred::Exists = pred {
        return Some(Bounds::inexact(Intervals::point(Value::Null)));
    }
    if let Pred::Regex(_) | Pred::Mod { .. } | Pred::Type(_) = pred {
        return None;
    }
    let bounds = of_pred(pred, simple, keys);
    bounds.exact.then(|| Bounds::exact(bounds.set.complement()))
}

/// The bounds of conditions on one array element.
fn of_element(filter: &Filter, keys: Keys) -> Intervals {
    match filter {
        Filter::And(all) => {
            Intervals::all_of(all.iter().map(|part| of_element(part, keys)).collect())
        }
        Filter::Or(any) => Intervals::any_of(any.iter().map(|part| of_element(part, keys))),
        Filter::Field { path, pred } if path.is_empty() => of_pred(pred, false, keys).set,
        Filter::Not(inner) => match &**inner {
            Filter::Field { path, pred } if path.is_empty() => {
                of_negation(pred, false, keys).map_or_else(Intervals::all, |b| b.set)
            }
            _ => Intervals::all(),
        },
        Filter::AlwaysFalse => Intervals::default(),
        _ => Intervals::all(),
    }
}

fn of_compare(op: CompareOp, value: Value<'_>, simple: bool) -> Bounds {
    match value {
        Value::Null => match op {
            CompareOp::Lt | CompareOp::Gt => Bounds::exact(Intervals::default()),
            _ => Bounds { set: Intervals::point(Value::Null), exact: simple },
        },
        Value::Array(array) if op == CompareOp::Eq => Bounds::inexact(of_array(array)),
        // An array is compared as a whole, but its keys are its elements.
        Value::Array(_) => Bounds::all(),
        Value::MinKey | Value::MaxKey if op == CompareOp::Eq => {
            Bounds::exact(Intervals::point(value))
        }
        Value::MinKey | Value::MaxKey | Value::Undefined => Bounds::all(),
        _ if op == CompareOp::Eq => Bounds::exact(Intervals::point(value)),
        _ if is_nan(value) => match op {
            CompareOp::Lt | CompareOp::Gt => Bounds::exact(Intervals::default()),
            _ => Bounds::exact(Intervals::point(value)),
        },
        _ => of_range(op, value),
    }
}

/// `<`, `<=`, `>`, `>=` match only values of the operand's type class.
fn of_range(op: CompareOp, value: Value<'_>) -> Bounds {
    let Some((low, high, high_included)) = class_ends(value.kind()) else {
        return Bounds::inexact(class_of(value.kind()));
    };
    let low = if value.is_number() { Value::Double(f64::NEG_INFINITY) } else { low };
    let interval = match op {
        CompareOp::Lt => Interval::new(low, true, value, false),
        CompareOp::Lte => Interval::new(low, true, value, true),
        CompareOp::Gt => Interval::new(value, false, high, high_included),
        _ => Interval::new(value, true, high, high_included),
    };
    Bounds::exact(Intervals::one(interval))
}

/// Equality with an array: a key for the array as an element of an array, or for its first element.
fn of_array(array: Array<'_>) -> Intervals {
    let first = array.iter().next().unwrap_or(Value::Undefined);
    Intervals::from_any(vec![Interval::point(first), Interval::point(Value::Array(array))])
}

fn of_type(kind: Type, all_numbers: bool) -> Bounds {
    let set = class_of(kind);
    let exact = match kind {
        Type::Double | Type::Int | Type::Long | Type::Decimal => all_numbers,
        Type::Object
        | Type::BinData
        | Type::ObjectId
        | Type::Bool
        | Type::Date
        | Type::Timestamp
        | Type::MinKey
        | Type::MaxKey => true,
        // Strings share their class with symbols, and null shares its key with missing fields.
        _ => false,
    };
    Bounds { set, exact }
}

fn of_regex(pattern: &Pattern, keys: Keys) -> Bounds {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(pattern.pattern().as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(pattern.options().as_bytes());
    bytes.push(0);
    let itself = Regex::from_bytes(&bytes).map(|regex| Interval::point(Value::Regex(regex)));
    let (strings, exact) = match pattern.prefix() {
        // Collation keys of strings do not have the strings' prefixes.
        Some((prefix, exact)) if !prefix.is_empty() && !keys.are_collated() => {
            (starting_with(prefix), exact)
        }
        _ => (class_of(Type::String).0.pop(), false),
    };
    let all = strings.into_iter().chain(itself).collect();
    Bounds { set: Intervals::from_any(all), exact }
}

/// The interval of strings that begin with `prefix`.
fn starting_with(prefix: &str) -> Option<Interval> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            let end: String = chars.iter().collect();
            return Interval::new(Value::String(prefix), true, Value::String(&end), false);
        }
    }
    Interval::new(Value::String(prefix), true, Value::Doc(Doc::EMPTY), false)
}

/// Least and greatest value of a type class, and true if the greatest belongs to it.
fn class_ends(kind: Type) -> Option<(Value<'static>, Value<'static>, bool)> {
    Some(match kind {
        Type::Double | Type::Int | Type::Long | Type::Decimal => {
            (Value::Double(f64::NAN), Value::Double(f64::INFINITY), true)
        }
        Type::String | Type::Symbol => (Value::String(""), Value::Doc(Doc::EMPTY), false),
        Type::Object => (Value::Doc(Doc::EMPTY), Value::Array(Array::EMPTY), false),
        Type::Array => (Value::Array(Array::EMPTY), BINARY_MIN, false),
        Type::BinData => (BINARY_MIN, Value::ObjectId(&ID_MIN), false),
        Type::ObjectId => (Value::ObjectId(&ID_MIN), Value::ObjectId(&ID_MAX), true),
        Type::Bool => (Value::Bool(false), Value::Bool(true), true),
        Type::Date => (Value::DateTime(i64::MIN), Value::DateTime(i64::MAX), true),
        Type::Timestamp => (Value::Timestamp(0), Value::Timestamp(u64::MAX), true),
        Type::MinKey => (Value::MinKey, Value::MinKey, true),
        Type::MaxKey => (Value::MaxKey, Value::MaxKey, true),
        Type::Null | Type::Missing => (Value::Null, Value::Null, true),
        Type::Undefined => (Value::Undefined, Value::Undefined, true),
        _ => return None,
    })
}

/// All values of a type class; for the rare classes at the end of the order, everything from there.
fn class_of(kind: Type) -> Intervals {
    Intervals::one(match class_ends(kind) {
        Some((low, high, high_included)) => Interval::new(low, true, high, high_included),
        None => Interval::new(Value::Timestamp(u64::MAX), false, Value::MaxKey, false),
    })
}

fn is_nan(value: Value<'_>) -> bool {
    match value {
        Value::Double(n) => n.is_nan(),
        Value::Decimal128(d) => d.is_nan(),
        _ => false,
    }
}
