//! Index bounds from facts that an `$expr` implies about a path.
//!
//! Expressions compare across all types, so a range ends at the end of the order, not at the end of a type: `{$gt:
//! ["$a", 5]}` is `(5, MaxKey]`. In expressions a missing value is less than all others; in an index it is null.
//! The bounds are complete and never exact: the expression is evaluated on the document. They are valid only for
//! paths without arrays.

use nagi_bson::Value;
use nagi_lang::{
    collation::Collation,
    expr::Relation,
    filter::{CompareOp, Known},
};

use super::bounds::{Held, Keys};
use crate::access::interval::{Interval, Intervals};

/// The keys of the documents for which `known` is true; none if an index is of no use.
pub(super) fn of(known: &Known, keys: Keys) -> Option<Intervals> {
    let value = known.value.value();
    match (known.relation, value) {
        (Relation::Is(op), _) => of_compare(op, value, known.collation, keys),
        (Relation::In, Value::Array(elements)) => {
            let mut points = Vec::new();
            for element in elements.iter() {
                points.extend(of_compare(CompareOp::Eq, element, known.collation, keys)?.0);
            }
            Some(Intervals::from_any(points))
        }
        // The expression fails, or may fail on some document.
        (Relation::In, _) => None,
    }
}

fn of_compare(
    op: CompareOp,
    value: Value<'_>,
    collation: Option<&'static Collation>,
    keys: Keys,
) -> Option<Intervals> {
    match value {
        Value::Undefined | Value::Array(_) => None,
        Value::Missing => match op {
            CompareOp::Eq => Some(Intervals::point(Value::Null)),
            CompareOp::Lt | CompareOp::Lte => {
                Some(Intervals::one(Interval::new(Value::MinKey, true, Value::Null, true)))
            }
            CompareOp::Gt | CompareOp::Gte => None,
        },
        _ => match keys.hold(value, collation) {
            Held::Same => Some(of_value(op, value)),
            Held::Keyed(keyed) => Some(of_value(op, keyed.value())),
            Held::Otherwise => None,
        },
    }
}

fn of_value(op: CompareOp, value: Value<'_>) -> Intervals {
    let below = |included| {
        let range = Interval::new(Value::MinKey, true, value, included);
        let missing = Interval::point(Value::Null);
        Intervals::from_any(range.into_iter().chain([missing]).collect())
    };
    let above = |included| Intervals::one(Interval::new(value, included, Value::MaxKey, true));
    match op {
        CompareOp::Eq => Intervals::point(value),
        CompareOp::Lt => below(false),
        CompareOp::Lte => below(true),
        CompareOp::Gt => above(false),
        CompareOp::Gte => above(true),
    }
}
