//! Updates of a time series collection: only of metadata, and of all documents that match, as in MongoDB.
//!
//! Filter and update may name only the metadata, so they are translated to the buckets:
//!
//!   {q: {m.a: 1}, u: {$set: {m.b: 2}}}   -->   {q: {meta.a: 1}, u: {$set: {meta.b: 2}}}
//!
//! The counts of the outcome are those of buckets.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Error, Result, bail};
use nagi_lang::{expr::ParseCx, filter::Filter};
use nagi_store::{Collection, Store};
use nagi_timeseries::{Options, bucket::normalized};

use super::{
    How, on_collection, series_filter,
    update::{Prepared, UpdateOutcome, UpdateStatement, many, prepare},
};
use crate::{
    conditions::{
        buckets::{hinted_key_of, on_meta},
        series_index::for_plan,
    },
    plan::Hint,
    source::Env,
};

/// Runs an update statement on the buckets.
///
/// # Errors
/// 72 for an update that a time series collection does not allow, and the errors of updates.
pub(super) fn update(
    (store, env): (&Store, &Env<'_>),
    buckets: &Arc<Collection>,
    statement: &UpdateStatement<'_>,
    how: How,
) -> Result<UpdateOutcome> {
    with_prepared(buckets, statement, env, &mut |prepared| {
        on_collection((store, env), (&buckets.namespace, false), &prepared.selection, how, |run| {
            let outcome = many(run, &prepared)?;
            run.show_update(outcome.matched, outcome.modified, 0);
            Ok(outcome)
        })
    })
}

/// Calls `then` with the statement on the buckets.
///
/// # Errors
/// 72 for an update that a time series collection does not allow; the errors of parsing, and of `then`.
pub(crate) fn with_prepared<T>(
    buckets: &Collection,
    statement: &UpdateStatement<'_>,
    env: &Env<'_>,
    then: &mut dyn FnMut(Prepared<'_>) -> Result<T>,
) -> Result<T> {
    let Some(options) = &buckets.options.timeseries else {
        return Err(Error::bug("buckets without a time series"));
    };
    let Some(meta) = &options.meta_field else {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform an update on a time-series collection that does not have a metaField"
        )
    };
    if !statement.multi {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform a non-multi update on a time-series collection"
        )
    }
    if statement.upsert {
        bail!(Code::INVALID_OPTIONS, "Cannot perform an upsert on a time-series collection")
    }
    let update = translated(statement.update, options, meta)?;
    let key = hinted_key_of(options, statement.hint)?;
    let hint = key.as_ref().map(|key| Hint::Key(key.as_doc())).or(statement.hint);
    let collation = statement.collation.or(buckets.options.collation);
    let (filter, translated) = series_filter::divided(options, statement.filter);
    let (filter, update) = (filter.as_doc(), update.as_doc().into());
    let on_buckets = UpdateStatement { filter, update, hint, ..*statement };
    let mut prepared = prepare(&on_buckets, collation, env)?;
    let Some(filter) = on_meta(options, &prepared.selection.filter) else {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform an update on a time-series collection when querying on a field that is \
             not the metaField '{meta}'"
        )
    };
    let mut cx = ParseCx::with_let(prepared.selection.lets.names()).collated(collation);
    let translated = Filter::parse(translated.as_doc(), &mut cx)?;
    let filter = Filter::And(vec![filter, translated]).normalize();
    let filter = for_plan(buckets, filter, &prepared.selection.filter);
    prepared.selection.filter = Arc::new(filter);
    prepared.of_metadata = true;
    then(prepared)
}

/// Brings the metadata of a changed bucket into the form that inserts give it, by which they find the bucket.
pub(super) fn normalize_meta(bucket: &mut Vec<u8>) {
    let old = Doc::trusted(bucket);
    let normal = DocBuf::build(|out| {
        for element in old {
            match element.name() {
                "meta" => out.put("meta", normalized(element.value()).value()),
                _ => out.put_element(element),
            }
        }
    });
    bucket.clear();
    bucket.extend_from_slice(normal.as_doc().as_bytes());
}

/// The update with the paths of buckets.
fn translated(update: Value<'_>, options: &Options, meta: &str) -> Result<DocBuf> {
    let Value::Doc(update) = update else {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform a pipeline-style update on a time-series collection"
        )
    };
    if !update.first().is_some_and(|operator| operator.name().starts_with('$')) {
        bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform a replacement-style update on a time-series collection"
        )
    }
    let path_of = |path: &str| match options.meta_path(path) {
        Some(path) => Ok(path),
        None => bail!(
            Code::INVALID_OPTIONS,
            "Cannot perform an update on a time-series collection which updates a field that is not \
             the metaField '{meta}'"
        ),
    };
    let mut operators: Vec<(&str, DocBuf)> = Vec::new();
    for operator in update {
        // A value that is no document is an error of the operator, which the update reports.
        let changes = operator.value().as_doc().unwrap_or(Doc::EMPTY);
        let mut fields: Vec<(String, Value<'_>, Option<String>)> = Vec::new();
        for change in changes {
            let target = match (operator.name(), change.value()) {
                ("$rename", Value::String(target)) => Some(path_of(target)?),
                _ => None,
            };
            fields.push((path_of(change.name())?, change.value(), target));
        }
        let doc = DocBuf::build(|out| {
            for (path, value, target) in &fields {
                out.put(path, target.as_deref().map_or(*value, Value::String));
            }
        });
        operators.push((operator.name(), doc));
    }
    Ok(DocBuf::build(|out| {
        for (operator, element) in operators.iter().zip(update) {
            match element.value() {
                Value::Doc(_) => out.put(operator.0, &operator.1),
                other => out.put(operator.0, other),
            }
        }
    }))
}
