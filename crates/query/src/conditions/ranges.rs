//! Conditions on the ranges of buckets (`control.min`, `control.max`) that follow from conditions on fields of
//! measurements.
//!
//!   {a: {$gt: 5}}     not ("control.max.a" <= 5, and both ends are numbers)     any buckets
//!                     "control.max.a" > 5                                       buckets with one class in each field
//!
//! Buckets of earlier versions of other servers may have several types in a field. Then an end of the range may have
//! another type than the values that match, or arrays are between the ends, whose elements match. So by the first form,
//! buckets are excluded, for which both ends must be of the type of the value. It is of no use for an index.

use nagi_bson::{Type, Value, compare, number};
use nagi_lang::{
    collation::Collation,
    filter::{CompareOp, Filter, Pred, TypeSet},
    path::FieldPath,
};

/// The most values of a list that are looked for one by one; of longer lists only both ends count.
pub(super) const POINTS_MAX: usize = 8;

/// A condition on one end of the range that a bucket has for a field.
pub(super) fn end(end: &str, field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let pred = Pred::Compare { op, value: value.into(), collation: None };
    Filter::Field { path: FieldPath::new(&format!("control.{end}.{field}")), pred }
}

/// What a condition on a field compares it with.
enum Wanted<'p> {
    /// With one value.
    One(CompareOp, Value<'p>),
    /// With any of a few.
    Few(Vec<Value<'p>>),
    /// With several between these two.
    Between(Value<'p>, Value<'p>),
}

/// None for a condition that is not by values whose order is that of the ranges.
fn wanted(pred: &Pred) -> Option<Wanted<'_>> {
    match pred {
        Pred::Compare { op, value, collation } => {
            let value = value.value();
            is_plain(value, *collation).then_some(Wanted::One(*op, value))
        }
        Pred::In(list) if list.patterns().is_empty() => {
            let values: Vec<Value<'_>> = list.values().iter().map(|value| value.value()).collect();
            let first = *values.first()?;
            let all = |fits: &dyn Fn(Value<'_>) -> bool| values.iter().all(|value| fits(*value));
            if !all(&|value| is_plain(value, list.collation())) {
                return None;
            }
            if values.len() <= POINTS_MAX {
                return Some(Wanted::Few(values));
            }
            let order = |a: &Value<'_>, b: &Value<'_>| compare::values(*a, *b);
            let last = values.iter().copied().max_by(order)?;
            let least = values.iter().copied().min_by(order)?;
            let one_class = all(&|value| compare::class(value) == compare::class(first));
            one_class.then_some(Wanted::Between(least, last))
        }
        _ => None,
    }
}

/// Values whose order among values of their type is that of the ranges. The ranges of strings are by their bytes,
/// unless the collection has a collation.
fn is_plain(value: Value<'_>, collation: Option<&'static Collation>) -> bool {
    match value {
        Value::DateTime(_) | Value::ObjectId(_) | Value::Bool(_) => true,
        Value::String(_) => collation.is_none(),
        value => value.is_number() && !number::is_nan(value),
    }
}

/// The buckets that may have a measurement of which `pred` holds for a field; none if ranges do not tell.
pub(super) fn of_field(field: &str, pred: &Pred) -> Option<Filter> {
    Some(match wanted(pred)? {
        Wanted::One(op, value) => admitted(field, op, value),
        Wanted::Few(values) => {
            Filter::Or(values.iter().map(|value| admitted(field, CompareOp::Eq, *value)).collect())
        }
        Wanted::Between(first, last) => Filter::And(vec![
            admitted(field, CompareOp::Gte, first),
            admitted(field, CompareOp::Lte, last),
        ]),
    })
}

/// All but the buckets with an end on the wrong side of the value.
fn admitted(field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let has = |which: &str, field: &str, types| {
        let path = FieldPath::new(&format!("control.{which}.{field}"));
        Filter::Field { path, pred: Pred::Type(types) }
    };
    let own = if value.is_number() { TypeSet::NUMBERS } else { TypeSet::of(value.kind()) };
    let excluded = |which: &str, op| {
        let other = if which == "min" { "max" } else { "min" };
        let mut all = vec![end(which, field, op, value), has(other, field, own)];
        let dots = field.match_indices('.').map(|(at, _)| &field[..at]);
        for path in dots.chain([field]) {
            for end in [which, other] {
                all.push(Filter::Not(Box::new(has(end, path, TypeSet::of(Type::Array)))));
            }
        }
        Filter::And(all)
    };
    Filter::Nor(match op {
        CompareOp::Gt => vec![excluded("max", CompareOp::Lte)],
        CompareOp::Gte => vec![excluded("max", CompareOp::Lt)],
        CompareOp::Lt => vec![excluded("min", CompareOp::Gte)],
        CompareOp::Lte => vec![excluded("min", CompareOp::Gt)],
        CompareOp::Eq => vec![excluded("min", CompareOp::Gt), excluded("max", CompareOp::Lt)],
    })
}

/// The same for buckets that have values of one class in each field, in the form that an index serves. `is_indexed`
/// tells the fields for which that is of use.
pub(super) fn of_uniform(filter: &Filter, is_indexed: &dyn Fn(&str) -> bool) -> Option<Filter> {
    match filter {
        Filter::And(parts) => {
            let parts = parts.iter().filter_map(|part| of_uniform(part, is_indexed));
            let parts: Vec<_> = parts.collect();
            (!parts.is_empty()).then_some(Filter::And(parts))
        }
        Filter::Or(parts) => {
            let parts = parts.iter().map(|part| of_uniform(part, is_indexed));
            parts.collect::<Option<_>>().map(Filter::Or)
        }
        Filter::Field { path, pred } if is_indexed(path.as_str()) => {
            let field = path.as_str();
            let within = |op, value| match op {
                CompareOp::Gt | CompareOp::Gte => vec![end("max", field, op, value)],
                CompareOp::Lt | CompareOp::Lte => vec![end("min", field, op, value)],
                CompareOp::Eq => {
                    let (to, from) = (CompareOp::Lte, CompareOp::Gte);
                    vec![end("min", field, to, value), end("max", field, from, value)]
                }
            };
            Some(match wanted(pred)? {
                Wanted::One(op, value) => Filter::And(within(op, value)),
                Wanted::Few(values) => {
                    let points = values.iter();
                    let points = points.map(|value| Filter::And(within(CompareOp::Eq, *value)));
                    Filter::Or(points.collect())
                }
                Wanted::Between(first, last) => {
                    let (to, from) = (CompareOp::Lte, CompareOp::Gte);
                    let ends = [within(from, first), within(to, last)];
                    Filter::And(ends.into_iter().flatten().collect())
                }
            })
        }
        _ => None,
    }
}

/// The buckets with a measurement that has the field at all, if the condition requires it.
pub(super) fn exists(top: &str, pred: &Pred) -> Option<Filter> {
    let is_value = |value: Value<'_>| {
        let nothing = matches!(value, Value::Missing | Value::Null | Value::Undefined);
        !nothing && !matches!(value, Value::MinKey | Value::MaxKey)
    };
    let requires = match pred {
        Pred::Compare { value, .. } => is_value(value.value()),
        Pred::In(list) => list.values().iter().all(|value| is_value(value.value())),
        Pred::Exists
        | Pred::Type(_)
        | Pred::Regex(_)
        | Pred::Mod { .. }
        | Pred::Size(_)
        | Pred::Bits(_)
        | Pred::Geo(_)
        | Pred::ElemMatchObject(_)
        | Pred::ElemMatchValue(_) => true,
        Pred::Near(_) => false,
    };
    let path = FieldPath::new(&format!("data.{top}"));
    requires.then_some(Filter::Field { path, pred: Pred::Exists })
}

/// The conditions without those on ranges of strings, which are of no use if the collection has a collation. They are
/// only implied, so leaving them out changes no result.
pub(super) fn without_strings(filter: Filter) -> Filter {
    fn is_on_strings(filter: &Filter) -> bool {
        match filter {
            Filter::And(parts) | Filter::Or(parts) | Filter::Nor(parts) => {
                parts.iter().any(is_on_strings)
            }
            Filter::Field { path, pred: Pred::Compare { value, .. } } => {
                path.as_str().starts_with("control.") && value.value().kind() == Type::String
            }
            _ => false,
        }
    }
    match filter {
        Filter::And(parts) => {
            let kept = parts.into_iter().filter(|part| !is_on_strings(part)).collect();
            Filter::And(kept).normalize()
        }
        other if is_on_strings(&other) => Filter::AlwaysTrue,
        other => other,
    }
}
