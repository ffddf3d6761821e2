//! What a pipeline may not be combined with: read concerns and the stable API.

use crate::core::command::prelude::*;
use crate::replica::ReplicaSet;

/// Refuses to write what a linearizable read returns (72): the read is confirmed after it.
pub(super) fn check_concern(req: &Request<'_>, pipeline: Array<'_>) -> Result<()> {
    let last = pipeline.iter().last().and_then(|stage| stage.as_doc()?.first());
    match last.map_or("", |stage| stage.name()) {
        stage @ ("$out" | "$merge") if req.generic.read_concern.level == Some("linearizable") => {
            bail!(
                Code::INVALID_OPTIONS,
                "Command aggregate does not support {{ readConcern: {{ level: \"linearizable\", \
                 provenance: \"clientSupplied\" }} }} :: caused by :: {stage} cannot be used with \
                 a 'linearizable' read concern level"
            )
        }
        _ => Ok(()),
    }
}

/// Says of a change stream on a member of a replica set that there are none yet (115). Elsewhere its own parser
/// answers that it needs a replica set.
pub(super) fn check_change_stream(cx: &Context<'_>, pipeline: Array<'_>) -> Result<()> {
    let is_member = cx.server.replica.as_ref().is_some_and(ReplicaSet::is_member);
    let first = pipeline.iter().next().and_then(|stage| stage.as_doc()?.first());
    match first.map(|stage| stage.name()) {
        Some("$changeStream") if is_member => bail!(
            Code::COMMAND_NOT_SUPPORTED,
            "Change streams ($changeStream) are not available on this server yet: it keeps no oplog \
             that they could read"
        ),
        _ => Ok(()),
    }
}

/// Stages that are in no version of the stable API.
const OUTSIDE_API: [&str; 18] = [
    "$_internalInhibitOptimization",
    "$backupCursor",
    "$backupCursorExtend",
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listClusterCatalog",
    "$listLocalCursors",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$queryStats",
    "$querySettings",
    "$search",
    "$searchMeta",
    "$vectorSearch",
];

/// Refuses such stages of a client that asked for the API alone (323).
pub(super) fn check_api(req: &Request<'_>, pipeline: Array<'_>) -> Result<()> {
    if !req.generic.api_strict {
        return Ok(());
    }
    check_stages_of_api(pipeline)
}

/// Refuses stages that are not in the stable API (323), in sub-pipelines too.
pub(in crate::commands) fn check_stages_of_api(pipeline: Array<'_>) -> Result<()> {
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()?.first()) {
        let (name, spec) = (stage.name(), stage.value().as_doc().unwrap_or(Doc::EMPTY));
        if OUTSIDE_API.contains(&name) {
            bail!(
                Code::API_STRICT_ERROR,
                "stage {name} is not allowed with 'apiStrict: true' in API Version 1"
            );
        }
        if name == "$collStats" && spec.iter().any(|field| field.name() != "count") {
            bail!(
                Code::API_STRICT_ERROR,
                "only the 'count' field of $collStats is allowed with 'apiStrict: true' in API \
                 Version 1"
            );
        }
        match name {
            "$facet" => {
                spec.iter()
                    .filter_map(|facet| facet.value().as_array())
                    .try_for_each(check_stages_of_api)?;
            }
            "$lookup" | "$unionWith" => {
                spec.get("pipeline").as_array().map_or(Ok(()), check_stages_of_api)?;
            }
            _ => {}
        }
    }
    Ok(())
}
