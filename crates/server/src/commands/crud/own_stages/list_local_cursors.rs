//! `$listLocalCursors`: the cursors that wait for their next request. The stage exists only with
//! `enableTestCommands`; otherwise its name is unknown.

use super::{OwnStage, check_collectionless};
use crate::commands::crud::aggregate::Args;
use crate::commands::diagnose::list_cursors;
use crate::core::command::prelude::*;
use crate::core::server::Server;

const NAME: &str = "$listLocalCursors";

pub(super) static LIST_LOCAL_CURSORS: OwnStage = OwnStage {
    name: NAME,
    is_on: |server: &Server| server.settings.params.bool("enableTestCommands"),
    access: Some(|asking, _, _| asking.on_cluster(Action::ListCursors)),
    docs,
    ..OwnStage::ROW
};

fn docs(
    cx: &Context<'_>,
    _: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    check_collectionless(NAME, args)?;
    if !spec.as_doc().is_some_and(|spec| spec.is_empty()) {
        bail!(Code::BAD_VALUE, "$listLocalCursors must be run as {{ $listLocalCursors: {{}}}}");
    }
    Ok(list_cursors(cx.server))
}

/// Refuses the stage at another place than the first one. The table of stages has no row for it, so that the parser of
/// pipelines does not know it; it calls it an unknown stage where it does not exist.
///
/// # Errors
/// 40602 behind another stage, 40600 within `$facet`, 73 in a pipeline of a collection.
pub(super) fn check_place(cx: &Context<'_>, args: &Args<'_>) -> Result<()> {
    if !(LIST_LOCAL_CURSORS.is_on)(cx.server) {
        return Ok(());
    }
    let Some(error) = misplaced(args.pipeline, None) else { return Ok(()) };
    check_collectionless(NAME, args)?;
    Err(error)
}

/// `within`: the stage whose value the pipeline is; `None` for the whole one.
fn misplaced(pipeline: Array<'_>, within: Option<&str>) -> Option<Error> {
    pipeline.iter().enumerate().find_map(|(at, stage)| {
        let stage = stage.as_doc()?.first()?;
        let (name, value) = (stage.name(), stage.value());
        if name == NAME && (at > 0 || within.is_some()) {
            return Some(match within {
                None => err!(
                    Code::Location(40602),
                    "{NAME} is only valid as the first stage in a pipeline."
                ),
                Some(outer) if nagi_query::feeds_pipelines(outer) => err!(
                    Code::Location(40600),
                    "{NAME} is not allowed to be used within a {outer} stage"
                ),
                Some(_) => err!(
                    Code::INVALID_NAMESPACE,
                    "{NAME} must be run against the database with {{aggregate: 1}}, not a collection"
                ),
            });
        }
        // As deep as a document may be.
        let inner = nagi_query::inner_pipelines(name, value);
        inner.into_iter().find_map(|inner| misplaced(inner, Some(name)))
    })
}
