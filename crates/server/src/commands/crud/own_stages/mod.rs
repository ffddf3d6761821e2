//! First stages that only the server can answer, one row per stage.
//!
//! The server replaces such a stage by `$documents` with the stage's documents, so that the stages after it
//! need no special case:
//!
//!   [{$currentOp: {}}, {$match: ...}]   -->   [{$documents: [...]}, {$match: ...}]
//!
//! `$queryStats` may have as much as its cache: its documents are made when the pipeline reads them.

mod change_stream;
mod coll_stats;
mod current_op;
mod list_local_cursors;
mod list_local_sessions;
mod list_search_indexes;
mod list_sessions;
mod query_settings;
mod query_stats;

use std::sync::Arc;

use nagi_bson::ArrayBuf;
use nagi_query::Given;
use nagi_store::Namespace;

use super::aggregate::Args;
use crate::core::command::prelude::*;
use crate::core::server::Server;

/// Makes the documents of a stage when the pipeline reads them.
type OneByOne = fn(&Context<'_>, Value<'_>) -> Result<Arc<dyn Given>>;

/// The row of a stage that the server answers itself.
pub(super) struct OwnStage {
    pub(super) name: &'static str,
    /// Returns true if the stage exists on this server.
    is_on: fn(&Server) -> bool,
    /// Returns true if the server answers the stage in this pipeline.
    applies: fn(&Context<'_>, &Args<'_>) -> bool,
    /// Returns true if the client has the privileges for the stage on the namespace of the command. `None` if the
    /// privileges of the collection decide.
    access: Option<fn(&Asking<'_>, &Namespace, Value<'_>) -> bool>,
    /// Refuses the stage before any other check.
    check: fn(&Context<'_>, &Request<'_>, &Args<'_>) -> Result<()>,
    /// Refuses a value that is not in the stable API (323).
    pub(super) check_api: fn(Value<'_>) -> Result<()>,
    /// Produces the documents of the stage.
    docs: fn(&Context<'_>, &Request<'_>, &Args<'_>, Value<'_>) -> Result<Vec<DocBuf>>,
    /// The same for a stage with so much of it that they are produced one by one.
    one_by_one: Option<OneByOne>,
}

/// A pipeline whose first stage the server answers.
pub(super) struct Replaced {
    pub(super) pipeline: ArrayBuf,
    /// The documents of its first stage, if they are not in the pipeline.
    pub(super) given: Option<Arc<dyn Given>>,
}

impl OwnStage {
    /// The defaults of most rows.
    const ROW: OwnStage = OwnStage {
        name: "",
        is_on: |_| true,
        applies: |_, _| true,
        access: None,
        check: |_, _, _| Ok(()),
        check_api: |_| Ok(()),
        docs: |_, _, _, _| Ok(Vec::new()),
        one_by_one: None,
    };
}

static OWN_STAGES: &[&OwnStage] = &[
    &change_stream::CHANGE_STREAM,
    &coll_stats::COLL_STATS,
    &current_op::CURRENT_OP,
    &list_local_cursors::LIST_LOCAL_CURSORS,
    &list_local_sessions::LIST_LOCAL_SESSIONS,
    &list_search_indexes::LIST_SEARCH_INDEXES,
    &list_sessions::LIST_SESSIONS,
    &query_settings::QUERY_SETTINGS,
    &query_stats::QUERY_STATS,
];

/// Refuses a collection to a stage that tells of the whole server (73).
fn check_collectionless(stage: &str, args: &Args<'_>) -> Result<()> {
    if matches!(args.collection, Value::String(_)) {
        bail!(
            Code::INVALID_NAMESPACE,
            "{stage} must be run against the database with {{aggregate: 1}}, not a collection"
        );
    }
    Ok(())
}

/// The row of a stage.
pub(super) fn find(name: &str) -> Option<&'static OwnStage> {
    OWN_STAGES.iter().copied().find(|row| row.name == name)
}

/// The row of a pipeline's first stage, and the stage's value.
fn first<'a>(pipeline: Array<'a>) -> Option<(&'static OwnStage, Value<'a>)> {
    let stage = pipeline.iter().next()?.as_doc()?.first()?;
    Some((find(stage.name())?, stage.value()))
}

/// Refuses a first stage that this server cannot answer, and one at another place that only this server knows.
pub(super) fn check(cx: &Context<'_>, req: &Request<'_>, args: &Args<'_>) -> Result<()> {
    first(args.pipeline).map_or(Ok(()), |(row, _)| (row.check)(cx, req, args))?;
    list_local_cursors::check_place(cx, args)
}

/// Checks the privileges for the first stage. `None` if the stage has no check of its own.
pub(super) fn may(asking: &Asking<'_>, ns: &Namespace, pipeline: Array<'_>) -> Option<bool> {
    let (row, spec) = first(pipeline).filter(|(row, _)| (row.is_on)(asking.server))?;
    row.access.map(|access| access(asking, ns, spec))
}

/// The pipeline with its first stage replaced; `None` if the server does not answer that stage.
pub(super) fn replace(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
) -> Result<Option<Replaced>> {
    let Some((row, spec)) = first(args.pipeline) else { return Ok(None) };
    if !(row.is_on)(cx.server) || !(row.applies)(cx, args) {
        return Ok(None);
    }
    let docs = (row.docs)(cx, req, args, spec)?;
    let given = row.one_by_one.map(|given| given(cx, spec)).transpose()?;
    let pipeline = ArrayBuf::build(|pipeline| {
        pipeline.doc(|stage| {
            stage.doc("$documents", |expr| {
                expr.array("$literal", |list| {
                    docs.iter().for_each(|doc| list.push_doc(doc.as_doc()));
                });
            });
        });
        args.pipeline.iter().skip(1).for_each(|stage| pipeline.push(stage));
    });
    Ok(Some(Replaced { pipeline, given }))
}
