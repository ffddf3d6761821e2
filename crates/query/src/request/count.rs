//! `count`: the number of matching documents. Without a filter it returns the collection's own counter.

use std::sync::Arc;

use nagi_bson::{ArrayBuf, Doc, Value};
use nagi_error::Result;
use nagi_lang::{collation::Asked, expr::Vars};
use nagi_store::{Namespace, Store};

use crate::{
    collating,
    limits::QueryOptions,
    plan::{self, FindSpec, Hint, Plan, find::FindRequest},
    request::{
        aggregate::{self, AggregateRequest},
        execution::Take,
    },
    source::{self, Cx, Env, ExecutionStats, sum_stats},
    stages::Counter,
};

/// The arguments of `count`.
#[derive(Debug, Clone, Copy)]
pub struct CountRequest<'a> {
    pub namespace: &'a Namespace,
    pub filter: Doc<'a>,
    pub skip: u64,
    /// `None`: no limit. (A negative limit of the command means its absolute value, 0 means none.)
    pub limit: Option<u64>,
    pub hint: Option<Hint<'a>>,
    pub collation: Asked,
    /// Options from the server's parameters.
    pub options: QueryOptions,
}

impl<'a> CountRequest<'a> {
    /// A count of all documents of the collection.
    pub fn new(namespace: &'a Namespace) -> CountRequest<'a> {
        CountRequest {
            namespace,
            filter: Doc::EMPTY,
            skip: 0,
            limit: None,
            hint: None,
            collation: Asked::Inherited,
            options: QueryOptions::DEFAULT,
        }
    }
}

/// A count with its cost, for the log.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    pub count: i64,
    pub plan_summary: String,
    pub stats: ExecutionStats,
}

/// Returns true if the collection's counter answers the request.
pub(crate) fn is_metadata(request: &CountRequest<'_>) -> bool {
    request.filter.is_empty() && request.hint.is_none()
}

pub(crate) fn plan_count(
    store: &Store,
    request: &CountRequest<'_>,
    cx: &mut Cx<'_>,
) -> Result<Plan> {
    let find = FindRequest {
        filter: request.filter,
        hint: request.hint,
        skip: request.skip,
        limit: request.limit,
        ..FindRequest::new(request.namespace)
    };
    let collection = store.collection(request.namespace);
    let collation = collating::of(collection.as_deref(), request.collation)?;
    let parsed = plan::find::parse(&find, collation, cx.env)?;
    // No path is needed: exact bounds suffice to count.
    let spec =
        FindSpec { needed: Some(Vec::new()), ..plan::find::spec(&find, &parsed, collection) };
    plan::plan(&spec, cx)
}

/// Runs the count.
pub fn count(store: &Arc<Store>, request: &CountRequest<'_>, env: &Env<'_>) -> Result<Counted> {
    let Some(collection) = store.collection(request.namespace) else {
        let find = FindRequest { filter: request.filter, ..FindRequest::new(request.namespace) };
        plan::find::parse(&find, collating::of(None, request.collation)?, env)?;
        return Ok(Counted { plan_summary: "EOF".to_owned(), ..Counted::default() });
    };
    if collection.is_view() {
        return count_view(store, request, env);
    }
    // No counter has the pre-images.
    if is_metadata(request) && !collection.is_pre_images() {
        let (all, _) = store.counts(&collection)?;
        let all = u64::try_from(all).unwrap_or(0).saturating_sub(request.skip);
        let count = request.limit.map_or(all, |limit| limit.min(all)) as i64;
        return Ok(Counted {
            count,
            plan_summary: "RECORD_STORE_FAST_COUNT".to_owned(),
            ..Counted::default()
        });
    }
    let snapshot = store.snapshot()?;
    let vars = Vars::with_system(&[], env.system()).with_scripts(env.scripts()).with_pace(env);
    let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
    let mut plan = plan_count(store, request, &mut cx)?;
    let mut source = plan.start_top(env);
    let stats = ExecutionStats::of(plan.planned());
    let plan_summary = plan::describe::summary_of_count(&plan.root);
    if !env.is_nested() {
        env.interrupt().planned(&|out| out.push_str(&plan_summary));
    }
    let mut out = Counted { count: 0, plan_summary, stats };
    let mut counter = Counter::default();
    let helper = source::drain(&mut *source, &mut counter, &mut cx)?;
    env.note_stages(&plan, &mut *source);
    out.count = counter.count;
    for source in [Some(source), helper].iter_mut().flatten() {
        sum_stats(&mut **source, &mut out.stats);
    }
    plan::check_still_there(store, &plan::reads(Some(collection), &plan))?;
    Ok(out)
}

impl<'a> CountRequest<'a> {
    /// The pipeline that counts the documents of a view.
    pub(crate) fn pipeline(&self) -> ArrayBuf {
        ArrayBuf::build(|out| {
            out.doc(|out| out.put("$match", self.filter));
            if self.skip > 0 {
                out.doc(|out| out.put("$skip", self.skip as i64));
            }
            if let Some(limit) = self.limit {
                out.doc(|out| out.put("$limit", limit as i64));
            }
            out.doc(|out| out.put("$count", "count"));
        })
    }

    /// The request with that pipeline.
    pub(crate) fn on_view<'r>(&self, pipeline: &'r ArrayBuf) -> AggregateRequest<'r>
    where
        'a: 'r,
    {
        AggregateRequest {
            hint: self.hint,
            collation: self.collation,
            options: self.options,
            ..AggregateRequest::new(self.namespace, pipeline.as_array())
        }
    }
}

fn count_view(store: &Arc<Store>, request: &CountRequest<'_>, env: &Env<'_>) -> Result<Counted> {
    let pipeline = request.pipeline();
    let mut execution = aggregate::aggregate(store, &request.on_view(&pipeline), env)?;
    let mut out =
        Counted { plan_summary: execution.plan_summary().to_owned(), ..Counted::default() };
    execution.batch(env.interrupt(), &mut |doc| {
        if let Value::Int32(n) = doc.get("count") {
            out.count = i64::from(n);
        } else if let Value::Int64(n) = doc.get("count") {
            out.count = n;
        }
        Ok(Take::More)
    })?;
    out.stats = execution.stats();
    Ok(out)
}
