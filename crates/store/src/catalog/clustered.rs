//! Clustered collections: `clusteredIndex` and `expireAfterSeconds` of `create`.
//!
//! A clustered collection is read in the order of `_id`, and lists one index, the clustered one. The clustered
//! index is the index on `_id` under the given name; how records are stored depends on the collection's layout
//! ([`crate::record_key`], decision 034).

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_error::{Code, Result, bail};

use super::CollectionOptions;

pub(super) const DEFAULT_NAME: &str = "_id_";
/// Largest `expireAfterSeconds`.
const EXPIRE_SECONDS_MAX: i64 = i32::MAX as i64;

/// Parses `clusteredIndex` into the index's name. `false` is none.
///
/// # Errors
/// 14, 197, 40414, 40415, 5979700, 5979703, 5979704.
pub(super) fn parse(value: Value<'_>) -> Result<Option<Box<str>>> {
    let spec = match value {
        Value::Bool(false) => return Ok(None),
        Value::Bool(true) => bail!(
            Code::Location(5_979_703),
            "The 'clusteredIndex' legacy format {{clusteredIndex: <bool>}} is only supported for \
             specific internal collections"
        ),
        Value::Doc(spec) => spec,
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'create.clusteredIndex' is the wrong type '{}', expected types '[bool, \
             object]'",
            other.kind().name()
        ),
    };
    for element in spec {
        let (name, value) = (element.name(), element.value());
        let (fits, wanted) = match name {
            "key" => (value.as_doc().is_some(), "object"),
            "name" => (value.as_str().is_some(), "string"),
            "unique" => (value.is_number() || matches!(value, Value::Bool(_)), "bool"),
            "v" => (value.is_number(), "int"),
            _ => bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field 'create.clusteredIndex.{name}' is an unknown field."
            ),
        };
        if !fits {
            bail!(
                Code::TYPE_MISMATCH,
                "BSON field 'create.clusteredIndex.{name}' is the wrong type '{}', expected type \
                 '{wanted}'",
                value.kind().name()
            );
        }
    }
    for name in ["key", "unique"] {
        if spec.get(name).is_missing() {
            bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field 'create.clusteredIndex.{name}' is missing but a required field"
            );
        }
    }
    check(spec)?;
    Ok(Some(spec.get("name").as_str().unwrap_or(DEFAULT_NAME).into()))
}

fn check(spec: Doc<'_>) -> Result<()> {
    if !spec.get("unique").is_truthy() {
        bail!(
            Code::Location(5_979_700),
            "The clusteredIndex option requires unique: true to be specified"
        );
    }
    if !is_id(spec.get("key")) {
        bail!(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            "The clusteredIndex option is only supported for key: {{_id: 1}}"
        );
    }
    if number::as_f64(spec.get("v")).is_some_and(|version| version != 2.0) {
        bail!(Code::Location(5_979_704), "The version of a clusteredIndex must be 2");
    }
    let name = spec.get("name").as_str().unwrap_or(DEFAULT_NAME);
    if name.is_empty() || name == "*" || name.contains('\0') {
        bail!(Code::CANNOT_CREATE_INDEX, "The name '{name}' of a clusteredIndex is not valid");
    }
    Ok(())
}

fn is_id(key: Value<'_>) -> bool {
    let Value::Doc(key) = key else { return false };
    key.count() == 1 && number::as_f64(key.get("_id")) == Some(1.0)
}

/// The clustered index as it is listed, without `clustered: true`.
pub(crate) fn listed(name: &str) -> DocBuf {
    DocBuf::build(|out| {
        out.put("v", 2);
        out.doc("key", |out| out.put("_id", 1));
        out.put("name", name);
        out.put("unique", true);
    })
}

/// Parses `expireAfterSeconds` of a collection.
///
/// # Errors
/// 14, 72.
pub(super) fn expire_after(value: Value<'_>) -> Result<Option<i64>> {
    let Some(seconds) = number::truncate_to_i64(value) else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'create.expireAfterSeconds' is the wrong type '{}', expected types \
             '[decimal, double, long, int]'",
            value.kind().name()
        );
    };
    if !(0..=EXPIRE_SECONDS_MAX).contains(&seconds) {
        bail!(
            Code::INVALID_OPTIONS,
            "collection's 'expireAfterSeconds' option must be between 0 and {EXPIRE_SECONDS_MAX}, \
             but got {seconds}"
        );
    }
    Ok(Some(seconds))
}

impl CollectionOptions {
    /// Checks the options that are valid only with a clustered index, and those that are not valid with one.
    ///
    /// # Errors
    /// 72, 6026500, 6049200, 6049201, 6049204.
    pub(super) fn check_clustered(&self, options: Doc<'_>) -> Result<()> {
        let given = |name| !options.get(name).is_missing();
        if self.clustered.is_none() {
            if given("expireAfterSeconds") && self.timeseries.is_none() {
                bail!(
                    Code::INVALID_OPTIONS,
                    "'expireAfterSeconds' is only supported on time-series collections or when the \
                     'clusteredIndex' option is specified"
                );
            }
            return Ok(());
        }
        if given("viewOn") {
            bail!(
                Code::Location(6_026_500),
                "The 'clusteredIndex' option is not supported with views"
            );
        }
        if given("size") {
            bail!(
                Code::Location(6_049_200),
                "The 'size' option is not supported with the 'clusteredIndex' option"
            );
        }
        if given("max") {
            bail!(
                Code::Location(6_049_204),
                "The 'max' option is not supported with the 'clusteredIndex' option"
            );
        }
        if options.get("capped").is_truthy() {
            bail!(
                Code::Location(6_049_201),
                "A collection cannot be both capped and clustered: use 'expireAfterSeconds'"
            );
        }
        if given("idIndex") {
            bail!(
                Code::INVALID_OPTIONS,
                "The 'clusteredIndex' option is not supported with 'idIndex'"
            );
        }
        Ok(())
    }
}

/// A specification of `createIndexes` without `clustered`, which only refers to the existing index.
///
/// # Errors
/// 67, 6243700, 6492800.
pub(crate) fn without_clustered(spec: Doc<'_>, is_clustered: bool) -> Result<DocBuf> {
    let value = spec.get("clustered");
    if value.is_missing() {
        return Ok(spec.to_buf());
    }
    if !value.is_truthy() {
        bail!(Code::Location(6_492_800), "The 'clustered' option cannot be false");
    }
    if !is_clustered || !is_id(spec.get("key")) {
        bail!(
            Code::Location(6_243_700),
            "Cannot create index with option 'clustered' unless it is the clustered index of a \
             clustered collection"
        );
    }
    if !spec.get("unique").is_truthy() {
        bail!(Code::CANNOT_CREATE_INDEX, "The 'clustered' option requires unique: true");
    }
    Ok(DocBuf::build(|out| {
        let kept = spec.iter().filter(|e| !matches!(e.name(), "clustered" | "unique"));
        kept.for_each(|e| out.put(e.name(), e.value()));
    }))
}
