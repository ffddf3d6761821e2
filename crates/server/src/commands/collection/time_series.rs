//! What commands on collections check of a time series collection.

use nagi_store::{Collection, Namespace};

use crate::core::command::prelude::*;
use crate::request::is_generic;

/// Refuses `timeseries` together with other options of `create` (72), and in a transaction (263). A bucket collection
/// that is restored brings its validator and its clustered index.
pub(super) fn check_options(
    cx: &Context<'_>,
    ns: &Namespace,
    (body, capped): (Doc<'_>, Option<bool>),
) -> Result<()> {
    const ALLOWED: &[&str] = &[
        "storageEngine",
        "indexOptionDefaults",
        "collation",
        "timeseries",
        "expireAfterSeconds",
        "temp",
    ];
    const OF_BUCKETS: &[&str] = &["validator", "clusteredIndex"];
    for element in body.iter().skip(1).filter(|element| !is_generic(element.name())) {
        let name = element.name();
        let allowed = ALLOWED.contains(&name)
            || element.value().is_nullish()
            || (name == "capped" && capped != Some(true))
            || (ns.is_buckets() && OF_BUCKETS.contains(&name));
        if !allowed {
            bail!(Code::INVALID_OPTIONS, "{ns}: 'timeseries' is not allowed with '{name}'");
        }
    }
    if cx.in_transaction() {
        bail!(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot create a time-series collection in a multi-document transaction"
        );
    }
    Ok(())
}

/// Refuses the arguments of `collMod` that a time series collection cannot have (72). Returns the change of an index
/// as one of the buckets.
pub(super) fn check_changes(
    buckets: &Collection,
    body: Doc<'_>,
    index: Option<Doc<'_>>,
) -> Result<Option<DocBuf>> {
    const ALLOWED: &[&str] =
        &["index", "expireAfterSeconds", "timeseries", "collectionUUID", "dryRun"];
    for element in body.iter().skip(1).filter(|element| !is_generic(element.name())) {
        if !ALLOWED.contains(&element.name()) && !element.value().is_nullish() {
            bail!(
                Code::INVALID_OPTIONS,
                "option not supported on a time-series collection: {}",
                element.name()
            );
        }
    }
    let (Some(index), Some(series)) = (index, &buckets.options.timeseries) else { return Ok(None) };
    for name in ["unique", "prepareUnique"] {
        if !index.get(name).is_nullish() {
            bail!(
                Code::INVALID_OPTIONS,
                "option '{name}' is not supported for an index of a time-series collection"
            );
        }
    }
    let changed = buckets.named_indexes().find(|found| {
        let key = index.get("keyPattern").as_doc().and_then(|key| series.key_of_buckets(key).ok());
        let named = index.get("name").as_str() == Some(found.name());
        named || key.is_some_and(|key| key == found.spec.key_pattern)
    });
    // One that does not exist is an error of the change itself.
    let expires = changed.is_none_or(|found| found.spec.expire_after_seconds.is_some());
    if !index.get("expireAfterSeconds").is_nullish() && !expires {
        bail!(
            Code::INVALID_OPTIONS,
            "TTL indexes are not supported for time-series collections. Please refer to the documentation and use \
             the top-level 'expireAfterSeconds' option instead"
        );
    }
    // The clustered index of the buckets is not one of the time series.
    if index.get("name").as_str() == Some("_id_") {
        bail!(Code::INDEX_NOT_FOUND, "cannot find index _id_ for ns {}", buckets.namespace);
    }
    let Value::Doc(key) = index.get("keyPattern") else { return Ok(Some(index.to_buf())) };
    let key = series.key_of_buckets(key)?;
    Ok(Some(DocBuf::build(|out| {
        for element in index {
            match element.name() {
                "keyPattern" => out.put("keyPattern", &key),
                _ => out.put_element(element),
            }
        }
    })))
}
