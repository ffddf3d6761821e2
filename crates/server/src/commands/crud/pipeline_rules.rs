//! Combinations that are refused for certain stages: read concern `linearizable` and strict use of the stable
//! API.

use super::own_stages;
use crate::core::command::prelude::*;

/// Refuses `$out` and `$merge` with read concern `linearizable` (72): the read is confirmed only after the
/// write.
pub(super) fn check_concern(req: &Request<'_>, pipeline: Array<'_>) -> Result<()> {
    let last = pipeline.iter().last().and_then(|stage| stage.as_doc()?.first());
    let linearizable = req.generic.read_concern.level == Some("linearizable");
    match last.map_or("", |stage| stage.name()) {
        stage if linearizable && nagi_query::stage_facts(stage).writes => {
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

/// Refuses stages outside the stable API if the client has set `apiStrict` (323).
pub(super) fn check_api(req: &Request<'_>, pipeline: Array<'_>) -> Result<()> {
    if !req.generic.api_strict {
        return Ok(());
    }
    check_stages_of_api(pipeline)
}

/// Refuses stages that are not in the stable API (323), in sub-pipelines too.
pub(in crate::commands) fn check_stages_of_api(pipeline: Array<'_>) -> Result<()> {
    for stage in pipeline.iter().filter_map(|stage| stage.as_doc()?.first()) {
        let name = stage.name();
        if !nagi_query::stage_facts(name).in_api {
            bail!(
                Code::API_STRICT_ERROR,
                "stage {name} is not allowed with 'apiStrict: true' in API Version 1"
            );
        }
        if let Some(row) = own_stages::find(name) {
            (row.check_api)(stage.value())?;
        }
        nagi_query::inner_pipelines(name, stage.value())
            .into_iter()
            .try_for_each(check_stages_of_api)?;
    }
    Ok(())
}
