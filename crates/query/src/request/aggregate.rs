//! `aggregate`: a pipeline over a collection, a view or no collection.
//!
//! Leading stages that are equivalent to filter, sort, skip and limit are planned like a find. The other stages run
//! above the plan.

use std::{cell::Cell, sync::Arc};

use nagi_bson::{Array, ArrayBuf, Doc, DocBuf, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::{LetVars, Vars},
    filter::Filter,
};
use nagi_store::{Index, Namespace, Store};

use crate::{
    change_stream::{Stream, wanted_id},
    collating,
    conditions::buckets::hinted_key,
    limits::QueryOptions,
    plan::{Hint, find::FindRequest},
    request::{
        execution::{Execution, Parts, Purpose},
        find::summary,
    },
    source::{Cx, Env},
    stages::{
        Given, Pipeline, PipelineCx, Touch, Within,
        assemble::{assemble, begins, resolve},
        opens_change_stream, stage_facts,
    },
};

/// The arguments of `aggregate` that determine the result.
#[derive(Debug, Clone, Copy)]
pub struct AggregateRequest<'a> {
    pub namespace: &'a Namespace,
    pub pipeline: Array<'a>,
    pub let_vars: Doc<'a>,
    pub hint: Option<Hint<'a>>,
    /// Options from the server's parameters.
    pub options: QueryOptions,
    /// `$out` and `$merge` do not check the target's validator.
    pub bypass_validation: bool,
    /// Pipelines are rewritten into a cheaper form; only tests disable that.
    pub rewrites: bool,
    /// This server's name, which some stages print.
    pub host: &'a str,
    pub collation: Asked,
    /// The documents of a `$documents` at the beginning of the pipeline, whose own ones are then ignored.
    pub given: Option<&'a Arc<dyn Given>>,
}

impl<'a> AggregateRequest<'a> {
    pub fn new(namespace: &'a Namespace, pipeline: Array<'a>) -> AggregateRequest<'a> {
        AggregateRequest {
            namespace,
            pipeline,
            let_vars: Doc::EMPTY,
            hint: None,
            options: QueryOptions::DEFAULT,
            bypass_validation: false,
            rewrites: true,
            host: "",
            collation: Asked::Inherited,
            given: None,
        }
    }
}

/// Converts a find on a view to the equivalent pipeline.
pub(crate) fn of_find<'a>(request: &FindRequest<'a>) -> Result<(ArrayBuf, Option<Hint<'a>>)> {
    let refused = [
        ("min", !request.min.is_empty()),
        ("max", !request.max.is_empty()),
        ("returnKey", request.return_key),
        ("showRecordId", request.show_record_id),
        ("tailable", request.tailable),
        ("$_requestResumeToken", request.request_token),
    ];
    if let Some((option, _)) = refused.iter().find(|(_, given)| *given) {
        bail!(Code::INVALID_PIPELINE_OPERATOR, "Option {option} not supported in aggregation.");
    }
    if !request.sort.get("$natural").is_missing() {
        bail!(
            Code::INVALID_PIPELINE_OPERATOR,
            "Sort option $natural not supported in aggregation."
        );
    }
    let pipeline = ArrayBuf::build(|out| {
        if !request.filter.is_empty() {
            out.doc(|out| out.put("$match", request.filter));
        }
        if !request.sort.is_empty() {
            out.doc(|out| out.put("$sort", request.sort));
        }
        if request.skip > 0 {
            out.doc(|out| out.put("$skip", request.skip as i64));
        }
        if let Some(limit) = request.limit {
            out.doc(|out| out.put("$limit", limit as i64));
        }
        if !request.projection.is_empty() {
            out.doc(|out| out.put("$project", request.projection));
        }
    });
    Ok((pipeline, request.hint))
}

pub(crate) fn parse(
    request: &AggregateRequest<'_>,
    pipeline: Array<'_>,
    lets: &LetVars,
    collation: Option<&'static Collation>,
) -> Result<Pipeline> {
    parse_for(request, pipeline, lets, collation, false)
}

/// `for_access`: as in [`PipelineCx`].
fn parse_for(
    request: &AggregateRequest<'_>,
    pipeline: Array<'_>,
    lets: &LetVars,
    collation: Option<&'static Collation>,
    for_access: bool,
) -> Result<Pipeline> {
    let mut cx = PipelineCx {
        namespace: request.namespace,
        host: request.host,
        options: request.options,
        bypass_validation: request.bypass_validation,
        rewrites: request.rewrites,
        for_access,
        lets: lets.names(),
        depth: 0,
        within: Within::Top,
        collation,
        metas: &Cell::default(),
        given: request.given,
    };
    Pipeline::parse(pipeline, &mut cx)
}

/// Refuses a pipeline that a view may not have: one that does not parse, or one with a stage that is not allowed
/// (167).
pub fn check_view(namespace: &Namespace, pipeline: Array<'_>) -> Result<()> {
    for (at, stage) in pipeline.iter().enumerate() {
        let name = stage.as_doc().and_then(|stage| stage.first()).map_or("", |field| field.name());
        if !stage_facts(name).in_view {
            bail!(
                Code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "The aggregation stage {name} in location {at} of the pipeline cannot be used in the \
                 view definition of {namespace}"
            );
        }
    }
    let request = AggregateRequest::new(namespace, pipeline);
    parse(&request, pipeline, &LetVars::default(), None).map(drop)
}

/// What an index can answer of a pipeline: the filter and the sort that a plan would take over from it, after the
/// rewriting. Both may be empty.
///
/// # Errors
/// Those of parsing the pipeline.
pub fn pipeline_head(request: &AggregateRequest<'_>, now_ms: i64) -> Result<(DocBuf, DocBuf)> {
    let lets = LetVars::parse(request.let_vars, now_ms, None)?;
    let pipeline = parse(request, request.pipeline, &lets, None)?;
    let head = pipeline.head();
    let filter = match *head.filter {
        Filter::AlwaysTrue => DocBuf::new(),
        _ => head.filter.to_doc(),
    };
    let parts = head.sort.iter().flat_map(|sort| sort.parts());
    let parts = parts.take_while(|part| part.meta.is_none());
    let sort = DocBuf::build(|out| {
        parts.for_each(|part| out.put(part.path.as_str(), if part.descending { -1 } else { 1 }));
    });
    Ok((filter, sort))
}

/// The collation of a request. A change stream does not inherit that of its collection, which may be another collection
/// at the time of an event.
pub(crate) fn collation_of(
    store: &Store,
    request: &AggregateRequest<'_>,
) -> Result<Option<&'static Collation>> {
    match opens_change_stream(request.pipeline) {
        true => Ok(request.collation.or(None)),
        false => collating::by_name(store, request.namespace, request.collation),
    }
}

/// Plans and opens an aggregation.
pub fn aggregate(
    store: &Arc<Store>,
    request: &AggregateRequest<'_>,
    env: &Env<'_>,
) -> Result<Execution> {
    let collation = collation_of(store, request)?;
    let lets = LetVars::parse(request.let_vars, env.now_ms(), collation)?;
    // The client's own stages are parsed first, so that their errors do not depend on the stages of a view.
    parse(request, request.pipeline, &lets, collation)?;
    let catalog = store.catalog();
    let (collection, stages) = resolve(&catalog, request.namespace, request.pipeline)?;
    let pipeline = parse(request, stages.as_array(), &lets, collation)?;
    pipeline.check_target(store)?;
    let watch = pipeline
        .stream()
        .map(|stream| store.watch_changes(stream.scope(), wanted_id(pipeline.stream_filters())));
    let snapshot = store.snapshot()?;
    let noted = Index::multikey_changes();
    let values = lets.values();
    let vars = Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
    let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
    let key = hinted_key(&catalog, request.namespace, request.hint)?;
    let hint = key.as_ref().map(|key| Hint::Key(key.as_doc())).or(request.hint);
    let mut assembled = assemble(collection, &pipeline, None, hint, request.options, &mut cx)?;
    let root = assembled.plan.start_top(env);
    let shown = (env.interrupt().wants_stages() && !begins(&pipeline))
        .then(|| Arc::clone(&assembled.plan.root));
    // The plan is marked, so that it can be found again below the stages above it.
    let root = match shown.is_some() && assembled.rest.from < pipeline.stages.len() {
        true => crate::source::mark_plan(root),
        false => root,
    };
    let (root, stream) = match (pipeline.stream(), watch) {
        (Some(options), Some(watch)) => {
            let splits = pipeline.stages.last().is_some_and(|stage| stage.splits_events());
            Stream::check_split(options, splits)?;
            let stream = Stream::open(options, watch, pipeline.stream_filters(), &cx)?;
            let state = Arc::clone(stream.state());
            (pipeline.open_stream(stream), Some(state))
        }
        _ => (assembled.rest.open(&pipeline, root), None),
    };
    // A pipeline that writes may replace the collection that it reads. It is never parked in any case.
    let reads = match writes(stages.as_array()) {
        true => Vec::new(),
        false => crate::plan::reads(assembled.collection, &assembled.plan),
    };
    drop(values);
    Ok(Execution::new(Parts {
        store: store.clone(),
        root,
        snapshot,
        lets,
        now_ms: env.now_ms(),
        system: env.system().clone(),
        settings: env.settings().cloned(),
        purpose: Purpose::Aggregate,
        reads,
        summary: summary(&assembled.plan),
        blocking_sort: assembled.plan.root.has_blocking_sort(),
        planned: assembled.plan.planned(),
        tailable: stream.is_some(),
        wants_token: false,
        noted,
        shown,
        stream,
    }))
}

/// The actions of a pipeline on collections, for privilege checks. Its errors are those of parsing the pipeline, except
/// the refusals of collections that `$out`, `$merge` and `$changeStream` may not have.
pub fn touches(request: &AggregateRequest<'_>) -> Result<Vec<Touch>> {
    let lets = LetVars::parse(request.let_vars, 0, None)?;
    let pipeline = parse_for(request, request.pipeline, &lets, None, true)?;
    let mut out = Vec::new();
    pipeline.touches(request.namespace, &mut out);
    Ok(out)
}

/// Returns true if a pipeline ends with a stage that writes; for privileges and write concern.
pub fn writes(pipeline: Array<'_>) -> bool {
    let last = pipeline.iter().last();
    let Some(Value::Doc(stage)) = last else { return false };
    stage.first().is_some_and(|field| stage_facts(field.name()).writes)
}

/// The first stage of a pipeline that cannot run in a transaction.
pub fn refused_in_transaction(pipeline: Array<'_>) -> Option<&str> {
    let names = pipeline.iter().filter_map(|stage| Some(stage.as_doc()?.first()?.name()));
    names.into_iter().find(|name| !stage_facts(name).in_transaction)
}
