//! The argument `encryptionInformation`, which clients with Queryable Encryption send: its commands store the values of
//! insert payloads, and search by tags (`nagi_query`, module `encrypted`).

use nagi_query::{Encryption, EncryptionOptions, Rewritten, Searched};
use nagi_store::Namespace;

use crate::core::command::prelude::*;
use crate::core::txn_number;
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
    if !cx.server.is_replicated() {
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

/// How often a search is repeated because values that it searches were stored meanwhile.
const REPEATS: u32 = 8;
/// Limit of the bytes of an explained query without payloads.
const EXPLAINED_BYTES_MAX: usize = 2 << 20;
/// Limit of the tags of each value that a repeated search adds for what may be stored meanwhile.
const MARGIN_MAX: u64 = 1000;

/// Runs `search` with a filter or a pipeline whose payloads are replaced by conditions on tags.
///
/// The tags of a value are read before the documents. If in between a document gets its value again, by an update to
/// the same value, its tag is a new one and the search misses it. So a search is repeated if its values were stored
/// meanwhile, with tags for the next times that they are, unless `may_repeat` forbids it.
///
/// # Errors
/// Those of malformed payloads, and those of `search`.
pub(super) fn search<T>(
    cx: &mut Context<'_>,
    (encryption, ns): (Option<&Encryption>, &Namespace),
    searched: Searched<'_>,
    may_repeat: &dyn Fn(&T) -> bool,
    search: &mut dyn FnMut(&mut Context<'_>, Searched<'_>) -> Result<T>,
) -> Result<T> {
    let Some(encryption) = encryption else { return search(cx, searched) };
    let (mut repeats, mut margin) = (0, 0);
    loop {
        let rewritten = encryption.rewrite(cx.store(), ns, searched, margin, &|| cx.check())?;
        let Some(rewritten) = rewritten else { return search(cx, searched) };
        let done = search(cx, without_payloads(&rewritten, searched))?;
        if !may_repeat(&done) || repeats == REPEATS {
            return Ok(done);
        }
        let of = (searched, &rewritten);
        let stored = encryption.stored_since(cx.store(), ns, of, &|| cx.check())?;
        if stored <= margin {
            return Ok(done);
        }
        repeats += 1;
        margin = stored.saturating_mul(2).saturating_add(4).min(MARGIN_MAX);
    }
}

/// Runs `f`; for an upsert of encrypted values in one snapshot. The tags of its filter are read before the documents: a
/// document that another client has inserted in between would be inserted again.
///
/// # Errors
/// Those of `f`.
pub(super) fn with_upsert<T>(
    cx: &mut Context<'_>,
    (encryption, upsert): (Option<&Encryption>, bool),
    f: &mut dyn FnMut(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    match encryption.is_some() && upsert {
        true => txn_number::in_one_snapshot(cx, f),
        false => f(cx),
    }
}

fn without_payloads<'r>(rewritten: &'r Rewritten, searched: Searched<'_>) -> Searched<'r> {
    match searched {
        Searched::Filter(_) => Searched::Filter(rewritten.filter()),
        Searched::Pipeline(_) => Searched::Pipeline(rewritten.pipeline()),
    }
}

/// The filter of a search.
pub(super) fn filter_of(searched: Searched<'_>) -> Doc<'_> {
    match searched {
        Searched::Filter(filter) => filter,
        Searched::Pipeline(_) => Doc::EMPTY,
    }
}

/// The pipeline of a search.
pub(super) fn pipeline_of(searched: Searched<'_>) -> Array<'_> {
    match searched {
        Searched::Pipeline(pipeline) => pipeline,
        Searched::Filter(_) => Array::EMPTY,
    }
}

/// The filter with conditions on tags instead of payloads, for `explain`; none if it has no payloads.
pub(super) fn filter(
    cx: &Context<'_>,
    encryption: Option<&Encryption>,
    ns: &Namespace,
    filter: Doc<'_>,
) -> Result<Option<DocBuf>> {
    let Some(encryption) = encryption else { return Ok(None) };
    let searched = Searched::Filter(filter);
    let rewritten = encryption.rewrite(cx.store(), ns, searched, 0, &|| cx.check())?;
    let Some(rewritten) = rewritten else { return Ok(None) };
    check_explainable(rewritten.filter().len())?;
    Ok(Some(rewritten.filter().to_buf()))
}

/// The same for a pipeline.
pub(super) fn pipeline(
    cx: &Context<'_>,
    encryption: Option<&Encryption>,
    ns: &Namespace,
    pipeline: Array<'_>,
) -> Result<Option<nagi_bson::ArrayBuf>> {
    let Some(encryption) = encryption else { return Ok(None) };
    let searched = Searched::Pipeline(pipeline);
    let rewritten = encryption.rewrite(cx.store(), ns, searched, 0, &|| cx.check())?;
    let Some(rewritten) = rewritten else { return Ok(None) };
    check_explainable(rewritten.pipeline().as_bytes().len())?;
    Ok(Some(nagi_bson::ArrayBuf::from_array(rewritten.pipeline())))
}

/// Refuses to explain a query with so many tags that the reply, which repeats them several times, would be too large.
fn check_explainable(len: usize) -> Result<()> {
    if len > EXPLAINED_BYTES_MAX {
        bail!(
            Code::BSON_OBJECT_TOO_LARGE,
            "The tags of the explained query take {len} bytes, more than {EXPLAINED_BYTES_MAX}"
        );
    }
    Ok(())
}
