//! Conditions on buckets that follow from conditions on their measurements.
//!
//! A condition on metadata is the same one on `meta`. For other fields, the ranges of a bucket (`control.min` and
//! `control.max`) tell that it has no measurement that matches. The result admits each bucket that has one, and may
//! admit others.

use nagi_bson::{DocBuf, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::filter::{CompareOp, Filter, Pred};
use nagi_store::{Catalog, Namespace};
use nagi_timeseries::{Options, bucket::Shape};

use super::ranges;
use crate::plan::Hint;

/// The condition that a bucket fulfills if it has a measurement that matches `filter`.
pub(crate) fn on_buckets(options: &Options, filter: &Filter) -> Filter {
    on_buckets_of(options, Some(i64::from(options.span)), filter)
}

/// The same for buckets of any span, which `collMod` may change.
pub(super) fn on_buckets_of_any_span(options: &Options, filter: &Filter) -> Filter {
    on_buckets_of(options, None, filter)
}

fn on_buckets_of(options: &Options, span: Option<i64>, filter: &Filter) -> Filter {
    let shape = Shape::of(options);
    let all = parts(filter);
    let on_bucket = |part| on_meta(options, part).or_else(|| implied(&shape, span, part));
    let parts: Vec<_> = all.iter().filter_map(on_bucket).collect();
    if parts.is_empty() { Filter::AlwaysTrue } else { Filter::And(parts).normalize() }
}

/// The same condition on buckets, if it reads only metadata.
pub(crate) fn on_meta(options: &Options, filter: &Filter) -> Option<Filter> {
    filter.renamed(&mut |path, _| options.meta_path(path))
}

/// The key pattern of the buckets' index that a hint on a time series names by its own; none for any other hint.
///
/// # Errors
/// 67, 72 for a key pattern that no index of a time series can have, 2 for the name of the clustered index.
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
/// 67, 72 for a key pattern that no index of a time series can have, 2 for the name of the clustered index.
pub(crate) fn hinted_key_of(series: &Options, hint: Option<Hint<'_>>) -> Result<Option<DocBuf>> {
    match hint {
        Some(Hint::Key(key)) if key.get("$natural").is_missing() => {
            series.key_of_buckets(key).map(Some)
        }
        // The clustered index of the buckets is not one of the time series.
        Some(Hint::Name("_id_")) => {
            bail!(Code::BAD_VALUE, "hint provided does not correspond to an existing index: _id_")
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
    let parts: Vec<_> = all.iter().filter_map(|part| implied_by_part(shape, span, part)).collect();
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
        Filter::Field { path, pred } => {
            let name = path.as_str();
            let top = name.split('.').next().unwrap_or(name);
            if top.is_empty() || Some(top) == shape.meta_field.as_deref() {
                return None;
            }
            let of_times = (name == &*shape.time_field).then(|| times(name, pred, span)).flatten();
            of_times.or_else(|| {
                let exists = ranges::exists(top, pred);
                let known: Vec<_> =
                    exists.into_iter().chain(ranges::of_field(name, pred)).collect();
                (!known.is_empty()).then_some(Filter::And(known))
            })
        }
        _ => None,
    }
}

/// The buckets that may have a measurement with such a time; none for a condition that is not by dates.
fn times(field: &str, pred: &Pred, span: Option<i64>) -> Option<Filter> {
    let date = |value: Value<'_>| match value {
        Value::DateTime(time) => Some(time),
        _ => None,
    };
    match pred {
        Pred::Compare { op, value, .. } => Some(of_time(field, *op, date(value.value())?, span)),
        Pred::In(list) if list.patterns().is_empty() => {
            let dates = list.values().iter().map(|value| date(value.value()));
            let dates = dates.collect::<Option<Vec<i64>>>()?;
            if dates.len() <= ranges::POINTS_MAX {
                let points = dates.iter().map(|time| of_time(field, CompareOp::Eq, *time, span));
                return Some(Filter::Or(points.collect()));
            }
            let (first, last) = (dates.iter().min()?, dates.iter().max()?);
            Some(Filter::And(vec![
                of_time(field, CompareOp::Gte, *first, span),
                of_time(field, CompareOp::Lte, *last, span),
            ]))
        }
        _ => None,
    }
}

/// The buckets that may have a measurement with such a time. All times are dates, and so are both ends, which are less
/// than the span apart: so both of them are bounded, and an index on either one serves.
fn of_time(field: &str, op: CompareOp, time: i64, span: Option<i64>) -> Filter {
    let span = span.and_then(|span| span.checked_mul(1000));
    let bound = |which, op, time| ranges::end(which, field, op, Value::DateTime(time));
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
