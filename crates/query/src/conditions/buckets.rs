//! Conditions on buckets that follow from conditions on their measurements.
//!
//! A condition on metadata is the same one on `meta`. For other fields, the ranges of a bucket (`control.min` and
//! `control.max`) tell that it has no measurement that matches. The result admits each bucket that has one, and may
//! admit others.

use nagi_bson::{DocBuf, Value, number};
use nagi_error::Result;
use nagi_lang::{
    filter::{CompareOp, Filter, Pred, TypeSet},
    path::FieldPath,
};
use nagi_store::{Catalog, Namespace};
use nagi_timeseries::{Options, bucket::Shape};

use super::renamed;
use crate::plan::Hint;

/// The condition that a bucket fulfills if it has a measurement that matches `filter`.
pub(crate) fn on_buckets(options: &Options, filter: &Filter) -> Filter {
    let shape = Shape::of(options);
    let parts = match filter {
        Filter::And(parts) => &parts[..],
        other => std::slice::from_ref(other),
    };
    let on_bucket = |part| on_meta(options, part).or_else(|| implied(&shape, part));
    let parts: Vec<_> = parts.iter().filter_map(on_bucket).collect();
    if parts.is_empty() { Filter::AlwaysTrue } else { Filter::And(parts).normalize() }
}

/// The same condition on buckets, if it reads only metadata.
pub(crate) fn on_meta(options: &Options, filter: &Filter) -> Option<Filter> {
    renamed(filter, &mut |path, _| options.meta_path(path))
}

/// The key pattern of the buckets' index that a hint on a time series names by its own; none for any other hint.
///
/// # Errors
/// 67, 72 for a key pattern that no index of a time series can have.
pub(crate) fn hinted_key(
    catalog: &Catalog,
    namespace: &Namespace,
    hint: Option<Hint<'_>>,
) -> Result<Option<DocBuf>> {
    let Some(Hint::Key(key)) = hint else { return Ok(None) };
    let series = catalog.buckets_of(namespace).and_then(|found| found.options.timeseries.as_ref());
    match series.filter(|_| key.get("$natural").is_missing()) {
        Some(series) => series.key_of_buckets(key).map(Some),
        None => Ok(None),
    }
}

/// What the ranges of a bucket fulfill if it has a measurement that matches `filter`; none if nothing is known.
pub(crate) fn implied(shape: &Shape, filter: &Filter) -> Option<Filter> {
    match filter {
        Filter::And(parts) => {
            let parts: Vec<_> = parts.iter().filter_map(|part| implied(shape, part)).collect();
            (!parts.is_empty()).then_some(Filter::And(parts))
        }
        Filter::Or(parts) => {
            parts.iter().map(|part| implied(shape, part)).collect::<Option<_>>().map(Filter::Or)
        }
        Filter::Field { path, pred: Pred::Compare { op, value, collation: None } } => {
            let name = path.as_str();
            match value.value() {
                _ if name.contains('.') || Some(name) == shape.meta_field.as_deref() => None,
                Value::DateTime(_) if name == &*shape.time_field => {
                    Some(of_time(name, *op, value.value()))
                }
                other if is_plain(other) => Some(of_field(name, *op, other)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A condition on one end of the range that a bucket has for a field.
fn end(end: &str, field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let pred = Pred::Compare { op, value: value.into(), collation: None };
    Filter::Field { path: FieldPath::new(&format!("control.{end}.{field}")), pred }
}

/// The buckets that may have a measurement with such a time. All times are dates, and so are both ends.
fn of_time(field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    match op {
        CompareOp::Gt | CompareOp::Gte => end("max", field, op, value),
        CompareOp::Lt | CompareOp::Lte => end("min", field, op, value),
        CompareOp::Eq => Filter::And(vec![
            end("min", field, CompareOp::Lte, value),
            end("max", field, CompareOp::Gte, value),
        ]),
    }
}

/// Values whose order among values of their type is that of the ranges.
fn is_plain(value: Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::DateTime(_) | Value::ObjectId(_) | Value::Bool(_) => true,
        value => value.is_number() && !number::is_nan(value),
    }
}

/// The buckets that may have a measurement with such a value: all but those with an end of the same type on the wrong
/// side of it. Buckets of other servers may have several types in a field; then an end has possibly another type. The
/// ends of arrays are those of each element, which say nothing about a single one.
fn of_field(field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let excluded = |which: &str, op| {
        let path = FieldPath::new(&format!("control.{which}.{field}"));
        let array = Filter::Field { path, pred: Pred::Type(TypeSet::of(nagi_bson::Type::Array)) };
        Filter::And(vec![end(which, field, op, value), Filter::Not(Box::new(array))])
    };
    Filter::Nor(match op {
        CompareOp::Gt => vec![excluded("max", CompareOp::Lte)],
        CompareOp::Gte => vec![excluded("max", CompareOp::Lt)],
        CompareOp::Lt => vec![excluded("min", CompareOp::Gte)],
        CompareOp::Lte => vec![excluded("min", CompareOp::Gt)],
        CompareOp::Eq => vec![excluded("min", CompareOp::Gt), excluded("max", CompareOp::Lt)],
    })
}
