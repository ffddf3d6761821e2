//! Indexes of a time series: the partial filter of the index on buckets, and what tells a plan that it may use it.
//!
//!   {key: {a: 1}, partialFilterExpression: {b: {$lt: 5}}}      what the client asks for
//!   {key: {"control.min.a": 1, "control.max.a": 1}, partialFilterExpression: {..}, originalSpec: {..}}
//!
//! The index has each bucket that has a measurement with `b < 5`, and may have others. It serves a query that implies
//! `b < 5`: a condition on measurements, which the buckets cannot be tested for. So the plan gets it beside the
//! condition on buckets ([`Filter::Given`]).

use nagi_bson::{Doc, DocBuf, Type, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::Collation,
    expr::ParseCx,
    filter::{Filter, Pred},
};
use nagi_store::{Collection, given_filter};
use nagi_timeseries::Options;

use super::buckets::{on_buckets_only, on_meta, parts};

/// The specification of the buckets' index for a client's specification of an index on a time series. `default` is the
/// collation of the collection.
///
/// # Errors
/// Those of [`Options::index_of_buckets`], of parsing the filter, and 5916301 for a filter that no condition on buckets
/// follows from.
pub fn series_index(
    options: &Options,
    default: Option<&'static Collation>,
    spec: Doc<'_>,
) -> Result<DocBuf> {
    let collation = match spec.get("collation") {
        Value::Doc(given) => Collation::parse(given)?,
        _ => default,
    };
    options.index_of_buckets(spec, &|partial| partial_of_buckets(options, collation, partial))
}

fn partial_of_buckets(
    options: &Options,
    collation: Option<&'static Collation>,
    partial: Doc<'_>,
) -> Result<DocBuf> {
    let filter = Filter::parse(partial, &mut ParseCx::new().collated(collation))?;
    if !is_expressible(options, &filter) {
        bail!(
            Code::Location(5_916_301),
            "Error translating partialFilterExpression of a time-series collection to buckets: {partial}"
        );
    }
    Ok(on_buckets_only(options, &filter).to_doc())
}

/// True if an index may have such a filter: one on metadata, or one by values that ranges of buckets could tell.
fn is_expressible(options: &Options, filter: &Filter) -> bool {
    match filter {
        Filter::AlwaysTrue => true,
        // Before its normal form: parts that make no difference are checked, too.
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter().all(|part| is_expressible(options, part))
        }
        _ if on_meta(options, filter).is_some() => true,
        Filter::Field { path, pred } => {
            let is_time = path.as_str() == &*options.time_field;
            let fits = |value: Value<'_>| match value.kind() {
                Type::Date => true,
                Type::Null | Type::Undefined | Type::Object | Type::Array | Type::Regex => false,
                _ => !is_time,
            };
            match pred {
                Pred::Compare { value, .. } => fits(value.value()),
                Pred::In(list) => {
                    list.patterns().is_empty() && list.values().iter().all(|one| fits(one.value()))
                }
                Pred::Exists => true,
                _ => false,
            }
        }
        _ => false,
    }
}

/// The condition on buckets, with the condition on their measurements for the indexes that know how to use it.
pub(crate) fn with_given(collection: &Collection, on_buckets: Filter, asked: Filter) -> Filter {
    if !is_of_use(collection) {
        return on_buckets;
    }
    let given: Vec<Filter> = parts(&asked).iter().filter_map(given_filter).collect();
    if given.is_empty() {
        return on_buckets;
    }
    let given = Filter::Given(Box::new(Filter::And(given).normalize()));
    Filter::And(vec![on_buckets, given]).normalize()
}

/// True if some index makes use of a condition on measurements.
pub(crate) fn is_of_use(collection: &Collection) -> bool {
    collection.ready_indexes().any(|index| index.given_filter().is_some())
}

/// The condition on measurements: `later` ones, and those on metadata among the conditions on buckets.
pub(crate) fn asked(options: &Options, on_buckets: &Filter, later: Option<&Filter>) -> Filter {
    let meta = options.meta_field.as_deref();
    let own = |part: &Filter| {
        part.renamed(&mut |path, _| {
            let rest = path.strip_prefix("meta")?;
            (rest.is_empty() || rest.starts_with('.')).then_some(())?;
            Some(format!("{}{rest}", meta?))
        })
    };
    let own = parts(on_buckets).iter().filter_map(own);
    let later = later.map(parts).unwrap_or_default().iter().cloned();
    Filter::And(own.chain(later).collect())
}
