//! `$queryStats`: what each kind of query costs.

use std::sync::Arc;

use nagi_query::Given;
use nagi_store::Namespace;

use super::OwnStage;
use crate::args::Field;
use crate::commands::crud::aggregate::Args;
use crate::core::command::prelude::*;
use crate::query_stats::Transform;

pub(super) static QUERY_STATS: OwnStage = OwnStage {
    name: "$queryStats",
    access: Some(access),
    check,
    one_by_one: Some(given),
    ..OwnStage::ROW
};

/// The names of fields and collections need a privilege of their own.
fn access(asking: &Asking<'_>, _: &Namespace, spec: Value<'_>) -> bool {
    let transforms =
        spec.as_doc().is_some_and(|spec| spec.element("transformIdentifiers").is_some());
    asking.on_cluster(Action::QueryStatsReadTransformed)
        && (transforms || asking.on_cluster(Action::QueryStatsRead))
}

args! { "$queryStats" => QueryStatsSpec {
    transform: Option<Doc<'a>> = "transformIdentifiers",
}}

args! { "$queryStats.transformIdentifiers" => TransformSpec {
    algorithm: Algorithm       = "algorithm",
    hmac_key:  Option<Key<'a>> = "hmacKey",
}}

/// The only algorithm that there is.
pub(super) struct Algorithm;

impl<'a> FromArg<'a> for Algorithm {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match <&str>::from_value(value, field)? {
            "hmac-sha-256" => Ok(Algorithm),
            other => bail!(
                Code::BAD_VALUE,
                "Enumeration value '{other}' for field '{}.{}' is not a valid value.",
                field.command,
                field.name
            ),
        }
    }
}

/// The key of the hashes.
pub(super) struct Key<'a>(&'a [u8]);

impl<'a> FromArg<'a> for Key<'a> {
    fn from_value(value: Value<'a>, field: Field) -> Result<Self> {
        match value {
            Value::Binary(binary) if binary.subtype == 8 => Ok(Key(binary.bytes)),
            Value::Binary(_) => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '{}.{}' is the wrong binData type, expected type 'sensitive' (8)",
                field.command,
                field.name
            ),
            other => bail!(
                Code::TYPE_MISMATCH,
                "BSON field '{}.{}' is the wrong type '{}', expected type 'binData'",
                field.command,
                field.name,
                other.kind().name()
            ),
        }
    }
}

/// It tells of the whole server.
fn check(_: &Context<'_>, req: &Request<'_>, args: &Args<'_>) -> Result<()> {
    if req.db != "admin" || matches!(args.collection, Value::String(_)) {
        bail!(
            Code::INVALID_NAMESPACE,
            "$queryStats must be run against the 'admin' database with {{aggregate: 1}}"
        );
    }
    Ok(())
}

fn given(cx: &Context<'_>, spec: Value<'_>) -> Result<Arc<dyn Given>> {
    let Value::Doc(spec) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$queryStats value must be an object. Found: {}",
            spec.kind().name()
        );
    };
    let spec = QueryStatsSpec::parse_doc(spec)?;
    let transform = spec.transform.map(TransformSpec::parse_doc).transpose()?;
    let transform = match &transform {
        None => None,
        Some(TransformSpec { hmac_key: Some(Key(hmac_key)), .. }) => Some(Transform::new(hmac_key)),
        Some(_) => bail!(
            Code::FAILED_TO_PARSE,
            "The 'hmacKey' parameter of the $queryStats stage must be specified when applying the hmac-sha-256 \
             algorithm"
        ),
    };
    Ok(Arc::new(cx.server.query_stats.listing(transform)))
}
