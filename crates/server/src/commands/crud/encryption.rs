//! The argument `encryptionInformation`, which clients with Queryable Encryption send: its commands store the values of
//! insert payloads, and search by tags (`nagi_query`, module `encrypted`).

use nagi_query::{Encryption, EncryptionOptions};
use nagi_store::Namespace;

use crate::core::command::prelude::*;
use crate::random::random_bytes;
use crate::settings::params;

/// Parses the argument of a command on `ns`; none if it is not given.
///
/// # Errors
/// 20 without a replica set; those of [`Encryption::parse`].
pub(super) fn parse(
    cx: &Context<'_>,
    ns: &Namespace,
    argument: Value<'_>,
) -> Result<Option<Encryption>> {
    parse_for(cx, Some(ns), argument)
}

/// The same for a pipeline, whose own collection may have no encrypted fields.
pub(super) fn parse_joined(cx: &Context<'_>, argument: Value<'_>) -> Result<Option<Encryption>> {
    parse_for(cx, None, argument)
}

fn parse_for(
    cx: &Context<'_>,
    required: Option<&Namespace>,
    argument: Value<'_>,
) -> Result<Option<Encryption>> {
    const TAGS_BYTES: usize = params::position("internalQueryFLERewriteMemoryLimit");
    const ALWAYS_TEST: usize = params::position("internalQueryFLEAlwaysUseEncryptedCollScanMode");
    if argument.is_nullish() {
        return Ok(None);
    }
    if cx.server.replica.is_none() {
        bail!(
            Code::ILLEGAL_OPERATION,
            "Queryable Encryption is only supported on replica sets and sharded clusters"
        );
    }
    let params = &cx.server.settings.params;
    let options = EncryptionOptions {
        tags_bytes_max: usize::try_from(params.number(TAGS_BYTES)).unwrap_or(0),
        always_test_values: params.number(ALWAYS_TEST) != 0,
        ..EncryptionOptions::new(random_bytes)
    };
    Encryption::parse(cx.store(), required, argument, options).map(Some)
}

/// Creates the state collections that do not exist, before a write.
pub(super) fn prepare(
    cx: &Context<'_>,
    encryption: Option<&Encryption>,
    ns: &Namespace,
) -> Result<()> {
    encryption.map_or(Ok(()), |encryption| encryption.prepare(cx.store(), ns))
}

/// The filter with conditions on tags instead of payloads; none if it has no payloads.
pub(super) fn filter(
    cx: &Context<'_>,
    encryption: Option<&Encryption>,
    ns: &Namespace,
    filter: Doc<'_>,
) -> Result<Option<DocBuf>> {
    let Some(encryption) = encryption else { return Ok(None) };
    encryption.rewrite_filter(cx.store(), ns, filter, &|| cx.check())
}

/// The same for a pipeline.
pub(super) fn pipeline(
    cx: &Context<'_>,
    encryption: Option<&Encryption>,
    ns: &Namespace,
    pipeline: Array<'_>,
) -> Result<Option<nagi_bson::ArrayBuf>> {
    let Some(encryption) = encryption else { return Ok(None) };
    encryption.rewrite_pipeline(cx.store(), ns, pipeline, &|| cx.check())
}
