//! `aggregate`: a pipeline over a collection, a view or nothing.
//!
//! The first stages that come to filter, sort, skip and limit are planned like a find; the others
//! run above the plan.

use std::{cell::Cell, sync::Arc};

use nagi_bson::{Array, ArrayBuf, Doc, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{Asked, Collation},
    expr::{Deps, LetVars, Vars},
    filter::Filter,
};
use nagi_store::{Catalog, Collection, Index, Namespace, Store};

use crate::{
    collating,
    execution::{Execution, Parts, Purpose},
    find::{FindRequest, reads, summary},
    limits::QueryOptions,
    plan::{self, FindSpec, Hint, Plan},
    source::{Cx, Env},
    stages::{Pipeline, PipelineCx, Step, Touch, Within},
};

/// Views upon views, as MongoDB allows.
const VIEW_DEPTH_MAX: usize = 20;

/// The arguments of `aggregate` that decide what is returned.
#[derive(Debug, Clone, Copy)]
pub struct AggregateRequest<'a> {
    pub namespace: &'a Namespace,
    pub pipeline: Array<'a>,
    pub let_vars: Doc<'a>,
    pub hint: Option<Hint<'a>>,
    /// What the server's parameters allow.
    pub options: QueryOptions,
    /// `$out` and `$merge` do not ask the target's validator.
    pub bypass_validation: bool,
    /// Pipelines are rewritten into a form that does less; only tests say no.
    pub rewrites: bool,
    /// This server's name, as some stages print it.
    pub host: &'a str,
    pub collation: Asked,
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
        }
    }
}

/// A pipeline with its plan, ready to run.
pub(crate) struct Assembled {
    pub(crate) plan: Plan,
    /// Stages the plan stands for.
    pub(crate) planned: usize,
    pub(crate) collection: Option<Arc<Collection>>,
}

/// What a name stands for: a collection (or none) and, for a view, its pipeline before the caller's.
pub(crate) fn resolve(
    catalog: &Catalog,
    namespace: &Namespace,
    pipeline: Array<'_>,
) -> Result<(Option<Arc<Collection>>, ArrayBuf)> {
    let mut pipelines = vec![pipeline.to_buf()];
    let mut at = namespace.clone();
    for _ in 0..VIEW_DEPTH_MAX {
        let collection = catalog.collection(&at).cloned();
        let Some(view) = collection.as_ref().and_then(|c| c.options.view.as_ref()) else {
            return Ok((collection, concat(&pipelines)));
        };
        pipelines.push(view.pipeline.clone());
        at = view.on.clone();
    }
    bail!(
        Code::VIEW_DEPTH_LIMIT_EXCEEDED,
        "View depth too deep or view cycle detected; maximum depth is {VIEW_DEPTH_MAX}"
    );
}

fn concat(pipelines: &[ArrayBuf]) -> ArrayBuf {
    ArrayBuf::build(|out| {
        for pipeline in pipelines.iter().rev() {
            pipeline.as_array().iter().for_each(|stage| out.push(stage));
        }
    })
}

/// A find on a view as the pipeline that does the same.
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

/// Plans the beginning of a pipeline over a collection.
pub(crate) fn assemble(
    collection: Option<Arc<Collection>>,
    pipeline: &Pipeline,
    extra: Option<Filter>,
    hint: Option<Hint<'_>>,
    options: QueryOptions,
    cx: &mut Cx<'_>,
) -> Result<Assembled> {
    pipeline.check_metas(pipeline.available())?;
    let head = pipeline.head();
    if begins(pipeline) {
        return Ok(Assembled { plan: plan::nothing(), planned: 0, collection: None });
    }
    let filter = match (extra, &*head.filter) {
        (None, _) => head.filter.clone(),
        (Some(extra), Filter::AlwaysTrue) => Arc::new(extra),
        (Some(extra), own) => Arc::new(Filter::And(vec![extra, own.clone()]).normalize()),
    };
    if let Some(stage) = head.near {
        let Some(collection) = collection else {
            bail!(
                Code::NAMESPACE_NOT_FOUND,
                "$geoNear requires a geo index to run, but the collection does not exist"
            );
        };
        let plan = plan::nearest(&collection, &stage.spec, &filter, hint, pipeline.wanted)?;
        return Ok(Assembled { plan, planned: 1, collection: Some(collection) });
    }
    if let (Some(collection), Some(Step::Sample(size)), Filter::AlwaysTrue, None) =
        (&collection, pipeline.stages.first().map(|stage| stage.step()), &*filter, hint)
        && let Some(plan) = plan::pick(collection, size, cx)?
    {
        let collection = Some(collection.clone());
        return Ok(Assembled { plan, planned: 0, collection });
    }
    let settings = cx.env.settings();
    let allowed =
        collection.as_ref().and_then(|collection| settings?.allowed(&collection.namespace));
    let plain = head.sort.is_none()
        && head.skip == 0
        && head.limit.is_none()
        && (hint.is_none() || allowed.is_some());
    let distinct = pipeline.stages.get(head.stages).and_then(|stage| stage.distinct_of());
    if let (Some(collection), Some(path), true) = (&collection, distinct, plain)
        && let Some(plan) = plan::distinct_scan(collection, path, &filter, true, allowed)
    {
        let collection = Some(collection.clone());
        return Ok(Assembled { plan, planned: head.stages, collection });
    }
    let spec = FindSpec {
        sort: head.sort,
        skip: head.skip,
        limit: head.limit,
        hint,
        options,
        needed: needed(pipeline, head.stages),
        metas: pipeline.wanted,
        ..FindSpec::new(collection.clone(), filter)
    };
    let plan = plan::plan(&spec, cx)?;
    Ok(Assembled { plan, planned: head.stages, collection })
}

/// The paths that the stages from `from` on read, if one replaces the whole document and those before
/// it say what they read.
fn needed(pipeline: &Pipeline, from: usize) -> Option<Vec<String>> {
    let stages = &pipeline.stages[from..];
    for (at, stage) in stages.iter().enumerate() {
        let mut deps = Deps::default();
        if stage.needs(&mut deps) {
            let all = stages[..at].iter().rev().all(|stage| stage.hands_on(&mut deps));
            return (all && !deps.whole).then(|| deps.paths.into_iter().collect());
        }
        if !stage.hands_on(&mut Deps::default()) {
            return None;
        }
    }
    None
}

pub(crate) fn parse(
    request: &AggregateRequest<'_>,
    pipeline: Array<'_>,
    lets: &LetVars,
    collation: Option<&'static Collation>,
) -> Result<Pipeline> {
    let mut cx = PipelineCx {
        namespace: request.namespace,
        host: request.host,
        options: request.options,
        bypass_validation: request.bypass_validation,
        rewrites: request.rewrites,
        lets: lets.names(),
        depth: 0,
        within: Within::Top,
        collation,
        metas: &Cell::default(),
    };
    Pipeline::parse(pipeline, &mut cx)
}

/// Refuses a pipeline that no view may have: one that does not parse, or that writes (167).
pub fn check_view(namespace: &Namespace, pipeline: Array<'_>) -> Result<()> {
    for (at, stage) in pipeline.iter().enumerate() {
        let name = stage.as_doc().and_then(|stage| stage.first()).map_or("", |field| field.name());
        if matches!(name, "$out" | "$merge" | "$changeStream") {
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

/// Plans and opens an aggregation.
pub fn aggregate(
    store: &Arc<Store>,
    request: &AggregateRequest<'_>,
    env: &Env<'_>,
) -> Result<Execution> {
    let collation = collating::by_name(store, request.namespace, request.collation)?;
    let lets = LetVars::parse(request.let_vars, env.now_ms(), collation)?;
    // The caller's stages first: their errors do not depend on what a view adds.
    parse(request, request.pipeline, &lets, collation)?;
    let catalog = store.catalog();
    let (collection, stages) = resolve(&catalog, request.namespace, request.pipeline)?;
    let pipeline = parse(request, stages.as_array(), &lets, collation)?;
    pipeline.check_target(store)?;
    let snapshot = store.snapshot()?;
    let noted = Index::multikey_changes();
    let values = lets.values();
    let vars = Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
    let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
    let mut assembled =
        assemble(collection, &pipeline, None, request.hint, request.options, &mut cx)?;
    let root = assembled.plan.start_top(env);
    let shown = (env.interrupt().wants_stages() && !begins(&pipeline))
        .then(|| Arc::clone(&assembled.plan.root));
    // The plan is found again below the stages that use it.
    let root = match shown.is_some() && assembled.planned < pipeline.stages.len() {
        true => crate::explain::mark_plan(root),
        false => root,
    };
    let root = pipeline.open(assembled.planned, root);
    // A pipeline that writes may replace the very collection it read; it is not parked anyway.
    let reads = match writes(stages.as_array()) {
        true => Vec::new(),
        false => reads(assembled.collection, &assembled.plan),
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
        tailable: false,
        wants_token: false,
        noted,
        shown,
    }))
}

/// What a pipeline does to which collections, for privileges. Its errors are those of parsing it.
pub fn touches(request: &AggregateRequest<'_>) -> Result<Vec<Touch>> {
    let lets = LetVars::parse(request.let_vars, 0, None)?;
    let pipeline = parse(request, request.pipeline, &lets, None)?;
    let mut out = Vec::new();
    pipeline.touches(request.namespace, &mut out);
    Ok(out)
}

/// Whether a pipeline ends with a stage that writes, for privileges and write concern.
pub fn writes(pipeline: Array<'_>) -> bool {
    let last = pipeline.iter().last();
    let Some(Value::Doc(stage)) = last else { return false };
    stage.first().is_some_and(|field| matches!(field.name(), "$out" | "$merge"))
}

/// Whether the stage begins a pipeline with documents of its own.
pub(crate) fn begins(pipeline: &Pipeline) -> bool {
    pipeline.stages.first().is_some_and(|stage| matches!(stage.step(), Step::Begins))
}

/// Stages that no transaction runs: they write elsewhere, or show what is not the data's.
const REFUSED_IN_TRANSACTIONS: &[&str] = &[
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listLocalCursors",
    "$listLocalSessions",
    "$listSessions",
    "$merge",
    "$out",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
];

/// The first stage of a pipeline that cannot run in a transaction.
pub fn refused_in_transaction(pipeline: Array<'_>) -> Option<&str> {
    let names = pipeline.iter().filter_map(|stage| Some(stage.as_doc()?.first()?.name()));
    names.into_iter().find(|name| REFUSED_IN_TRANSACTIONS.contains(name))
}
