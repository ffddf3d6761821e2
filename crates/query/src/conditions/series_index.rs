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
use nagi_store::{Collection, Index, given_filter};
use nagi_timeseries::Options;

use super::{
    bucket_ids::with_id_range,
    buckets::{on_buckets_of_any_span, on_meta, parts},
    ranges::{of_uniform, without_strings},
};

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
    let collations = (collation, default);
    options.index_of_buckets(spec, &|partial| partial_of_buckets(options, collations, partial))
}

/// The specification for an index that is created on the buckets themselves, as logs and restores do. One that tells
/// what a client asked for is made of that: other servers have other conditions on buckets.
///
/// # Errors
/// Those of [`series_index`].
pub fn bucket_index(
    options: &Options,
    default: Option<&'static Collation>,
    spec: Doc<'_>,
) -> Result<DocBuf> {
    let Value::Doc(original) = spec.get("originalSpec") else { return Ok(spec.to_buf()) };
    let client = DocBuf::build(|out| {
        // The default of the collection is only in the specification for buckets.
        let collated = spec.element("collation").is_some();
        let kept = |name| {
            matches!(name, "v" | "name" | "hidden" | "expireAfterSeconds")
                || (name == "collation" && collated)
        };
        for element in original {
            match kept(element.name()) {
                true => out.put(element.name(), spec.get(element.name())),
                false => out.put_element(element),
            }
        }
        let added = |name| kept(name) && original.element(name).is_none();
        spec.iter().filter(|e| added(e.name())).for_each(|e| out.put_element(e));
    });
    series_index(options, default, client.as_doc())
}

fn partial_of_buckets(
    options: &Options,
    (collation, default): (Option<&'static Collation>, Option<&'static Collation>),
    partial: Doc<'_>,
) -> Result<DocBuf> {
    let filter = Filter::parse(partial, &mut ParseCx::new().collated(collation))?;
    if !is_expressible(options, &filter) {
        bail!(
            Code::Location(5_916_301),
            "Error translating partialFilterExpression of a time-series collection to buckets: {partial}"
        );
    }
    let on_buckets = on_buckets_of_any_span(options, &filter);
    // Other servers make the ranges of strings by the collation of the collection.
    let on_buckets = match collation.or(default) {
        Some(_) => without_strings(on_buckets),
        None => on_buckets,
    };
    Ok(on_buckets.to_doc())
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

/// The condition on buckets for a plan: with what follows from the condition on their measurements by what is known of
/// the collection, and with that condition itself for the indexes that know how to use it.
pub(crate) fn for_plan(collection: &Collection, on_buckets: Filter, asked: &Filter) -> Filter {
    let on_buckets = match collection.options.collation {
        Some(_) => without_strings(on_buckets),
        None => on_buckets,
    };
    let mut all = vec![with_id_range(collection, on_buckets)];
    if collection.bucket_facts().are_uniform() && collection.options.collation.is_none() {
        all.extend(of_uniform(asked, &|field| is_indexed(collection, field)));
    }
    let uses = |index: &Index| {
        let of_column =
            |part: &nagi_store::KeyPart| part.is_geometry() && part.path.starts_with("data.");
        index.given_filter().is_some() || index.spec.key.iter().any(of_column)
    };
    if collection.ready_indexes().any(|index| uses(index)) {
        let given: Vec<Filter> = parts(asked).iter().filter_map(given_filter).collect();
        let given = Filter::And(given).normalize();
        all.push(Filter::Given(Box::new(given)));
    }
    Filter::And(all).normalize()
}

/// True if some index begins with an end of the range of a field of measurements.
fn is_indexed(collection: &Collection, field: &str) -> bool {
    let Some(options) = &collection.options.timeseries else { return false };
    // Of the metadata there is no range.
    if field == &*options.time_field || options.meta_path(field).is_some() {
        return false;
    }
    let is_end = |path: &str| {
        let path = path.strip_prefix("control.min.").or_else(|| path.strip_prefix("control.max."));
        path == Some(field)
    };
    collection.ready_indexes().any(|index| index.spec.key.iter().any(|key| is_end(&key.path)))
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
