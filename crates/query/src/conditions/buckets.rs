//! Conditions on buckets that follow from conditions on their measurements.
//!
//! A condition on metadata is the same one on `meta`. For other fields, the ranges of a bucket (`control.min` and
//! `control.max`) tell that it has no measurement that matches. The result admits each bucket that has one, and may
//! admit others.

use nagi_bson::{DocBuf, Type, Value, number};
use nagi_error::Result;
use nagi_lang::{
    filter::{CompareOp, Filter, Pred, TypeSet},
    path::FieldPath,
};
use nagi_store::{Catalog, Namespace};
use nagi_timeseries::{Options, bucket::Shape};

use crate::plan::Hint;

/// The condition that a bucket fulfills if it has a measurement that matches `filter`.
pub(crate) fn on_buckets(options: &Options, filter: &Filter) -> Filter {
    let shape = Shape::of(options);
    let span = Some(i64::from(options.span));
    let all = parts(filter);
    let on_bucket = |part| on_meta(options, part).or_else(|| implied(&shape, span, part));
    let mut parts: Vec<_> = all.iter().filter_map(on_bucket).collect();
    parts.extend(ids(&shape, span, all));
    if parts.is_empty() { Filter::AlwaysTrue } else { Filter::And(parts).normalize() }
}

/// The same without a condition on the ids of buckets.
pub(super) fn on_buckets_only(options: &Options, filter: &Filter) -> Filter {
    let shape = Shape::of(options);
    let span = Some(i64::from(options.span));
    let on_bucket = |part| on_meta(options, part).or_else(|| implied_by_part(&shape, span, part));
    Filter::And(parts(filter).iter().filter_map(on_bucket).collect()).normalize()
}

/// The same condition on buckets, if it reads only metadata.
pub(crate) fn on_meta(options: &Options, filter: &Filter) -> Option<Filter> {
    filter.renamed(&mut |path, _| options.meta_path(path))
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
    let series = catalog.buckets_of(namespace).and_then(|found| found.options.timeseries.as_ref());
    series.map_or(Ok(None), |series| hinted_key_of(series, hint))
}

/// The same for a known time series.
///
/// # Errors
/// 67, 72 for a key pattern that no index of a time series can have.
pub(crate) fn hinted_key_of(series: &Options, hint: Option<Hint<'_>>) -> Result<Option<DocBuf>> {
    match hint {
        Some(Hint::Key(key)) if key.get("$natural").is_missing() => {
            series.key_of_buckets(key).map(Some)
        }
        _ => Ok(None),
    }
}

pub(super) fn parts(filter: &Filter) -> &[Filter] {
    match filter {
        Filter::And(parts) => parts,
        other => std::slice::from_ref(other),
    }
}

/// What a bucket fulfills if it has a measurement that matches `filter`; none if nothing is known. `span`: the span of
/// buckets in seconds, if it is known.
pub(crate) fn implied(shape: &Shape, span: Option<i64>, filter: &Filter) -> Option<Filter> {
    let all = parts(filter);
    let mut parts: Vec<_> =
        all.iter().filter_map(|part| implied_by_part(shape, span, part)).collect();
    parts.extend(ids(shape, span, all));
    (!parts.is_empty()).then_some(Filter::And(parts))
}

fn implied_by_part(shape: &Shape, span: Option<i64>, filter: &Filter) -> Option<Filter> {
    match filter {
        Filter::And(_) => implied(shape, span, filter),
        Filter::Or(parts) => parts
            .iter()
            .map(|part| implied(shape, span, part))
            .collect::<Option<_>>()
            .map(Filter::Or),
        Filter::Field { path, pred: Pred::Compare { op, value, .. } } => {
            let name = path.as_str();
            match value.value() {
                _ if name.contains('.') || Some(name) == shape.meta_field.as_deref() => None,
                Value::DateTime(time) if name == &*shape.time_field => {
                    Some(of_time(name, *op, time, span))
                }
                other if is_plain(other) => Some(of_field(name, *op, other)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The last second that the ids of all servers express.
const SECONDS_MAX: i64 = i32::MAX as i64;

/// The range of the ids of buckets that may have a measurement in a range of times, by which a scan of the buckets is
/// bounded: the time of an id is the begin of its bucket. Ids of other times than from 1970 to 2038 wrap, so both ends
/// must be known: else there may be such a bucket in the open end.
fn ids(shape: &Shape, span: Option<i64>, parts: &[Filter]) -> Vec<Filter> {
    let bounds = || -> Option<(i64, i64)> {
        let (mut first, mut last) = (None, None);
        for part in parts {
            let Filter::Field { path, pred: Pred::Compare { op, value, .. } } = part else {
                continue;
            };
            let Value::DateTime(time) = value.value() else { continue };
            if path.as_str() != &*shape.time_field {
                continue;
            }
            if !matches!(op, CompareOp::Lt | CompareOp::Lte) {
                first = first.max(Some(time));
            }
            if !matches!(op, CompareOp::Gt | CompareOp::Gte) {
                last = Some(last.map_or(time, |last: i64| last.min(time)));
            }
        }
        let (first, last) = (first?.div_euclid(1000).checked_sub(span?)?, last?.div_euclid(1000));
        (first >= 0 && last <= SECONDS_MAX && first <= last).then_some((first, last))
    };
    let Some((first, last)) = bounds() else { return Vec::new() };
    let id = |seconds: i64, rest: u8| {
        let mut id = [rest; 12];
        id[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
        id
    };
    let bound = |op, id: [u8; 12]| {
        let pred = Pred::Compare { op, value: Value::ObjectId(&id).into(), collation: None };
        Filter::Field { path: FieldPath::new("_id"), pred }
    };
    vec![bound(CompareOp::Gte, id(first, 0)), bound(CompareOp::Lte, id(last, 0xFF))]
}

/// A condition on one end of the range that a bucket has for a field.
fn end(end: &str, field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let pred = Pred::Compare { op, value: value.into(), collation: None };
    Filter::Field { path: FieldPath::new(&format!("control.{end}.{field}")), pred }
}

/// The buckets that may have a measurement with such a time. All times are dates, and so are both ends, which are less
/// than the span apart: so both of them are bounded, and an index on either one serves.
fn of_time(field: &str, op: CompareOp, time: i64, span: Option<i64>) -> Filter {
    let span = span.and_then(|span| span.checked_mul(1000));
    let bound = |which, op, time| end(which, field, op, Value::DateTime(time));
    // Of the earliest and the latest times nothing more is known.
    let begins_after = span.and_then(|span| time.checked_sub(span));
    let begins_after = begins_after.map(|time| bound("min", CompareOp::Gt, time));
    let ends_before = span.and_then(|span| time.checked_add(span));
    let ends_before = ends_before.map(|time| bound("max", CompareOp::Lt, time));
    let (to, from) = (CompareOp::Lte, CompareOp::Gte);
    let parts = match op {
        CompareOp::Gt | CompareOp::Gte => [Some(bound("max", op, time)), begins_after].into_iter(),
        CompareOp::Lt | CompareOp::Lte => [Some(bound("min", op, time)), ends_before].into_iter(),
        CompareOp::Eq => {
            let known = [bound("min", to, time), bound("max", from, time)];
            let more = [begins_after, ends_before].into_iter().flatten();
            return Filter::And(known.into_iter().chain(more).collect());
        }
    };
    Filter::And(parts.flatten().collect())
}

/// Values whose order among values of their type is that of the ranges. That of strings depends on the collation of
/// the collection, by which other servers make the ranges.
fn is_plain(value: Value<'_>) -> bool {
    match value {
        Value::DateTime(_) | Value::ObjectId(_) | Value::Bool(_) => true,
        value => value.is_number() && !number::is_nan(value),
    }
}

/// The buckets that may have a measurement with such a value: all but those with an end on the wrong side of it. Both
/// ends must be of the same type as the value: buckets of other servers may have several types in a field, and arrays
/// among them, which have such values as elements.
fn of_field(field: &str, op: CompareOp, value: Value<'_>) -> Filter {
    let has = |which: &str, types| {
        let path = FieldPath::new(&format!("control.{which}.{field}"));
        Filter::Field { path, pred: Pred::Type(types) }
    };
    let own = if value.is_number() { TypeSet::NUMBERS } else { TypeSet::of(value.kind()) };
    let excluded = |which: &str, op| {
        let other = if which == "min" { "max" } else { "min" };
        let no_array = |which| Filter::Not(Box::new(has(which, TypeSet::of(Type::Array))));
        let wrong = end(which, field, op, value);
        Filter::And(vec![wrong, has(other, own), no_array(which), no_array(other)])
    };
    Filter::Nor(match op {
        CompareOp::Gt => vec![excluded("max", CompareOp::Lte)],
        CompareOp::Gte => vec![excluded("max", CompareOp::Lt)],
        CompareOp::Lt => vec![excluded("min", CompareOp::Gte)],
        CompareOp::Lte => vec![excluded("min", CompareOp::Gt)],
        CompareOp::Eq => vec![excluded("min", CompareOp::Gt), excluded("max", CompareOp::Lt)],
    })
}
