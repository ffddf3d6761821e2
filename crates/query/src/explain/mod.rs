//! `explain`: the plan of a command and the counters of its run, in MongoDB's format.
//!
//! The plan is printed by walking its nodes. With `executionStats` the plan is opened with a counter around every
//! node and run to its end, and the walk visits nodes and sources side by side. Writes are not applied: the
//! documents that their plan finds are counted.

mod check_query;
mod series;
mod stages;

pub use check_query::check_query;

use std::{cell::Cell, sync::Arc};

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Code, Error, Result, bail};
use nagi_lang::{
    collation::{self, Asked, Collation},
    expr::{LetVars, ParseCx, Vars},
    filter::Filter,
};
use nagi_store::{Namespace, Store};

use crate::{
    collating,
    conditions::buckets::hinted_key,
    plan::{self, Hint, Node, Opener, Plan, Shape, find::FindRequest, hex},
    request::{
        aggregate::{self, AggregateRequest},
        count::{self, CountRequest},
        distinct::{self, DistinctRequest},
        map_reduce::MapReduceRequest,
    },
    source::{Cx, Env, ExecutionStats, Source, SourceStats, sum_stats},
    stages::assemble,
    write::{self, DeleteStatement, FindAndModifyRequest, UpdateStatement},
};

/// The level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    AllPlansExecution,
}

impl Verbosity {
    /// Reads the `verbosity` argument; if it is missing, everything is shown.
    pub fn parse(value: Value<'_>) -> Result<Verbosity> {
        match value {
            Value::Missing => Ok(Verbosity::AllPlansExecution),
            Value::String("queryPlanner") => Ok(Verbosity::QueryPlanner),
            Value::String("executionStats") => Ok(Verbosity::ExecutionStats),
            Value::String("allPlansExecution") => Ok(Verbosity::AllPlansExecution),
            Value::String(_) => bail!(
                Code::FAILED_TO_PARSE,
                "verbosity string must be one of {{'queryPlanner', 'executionStats', \
                 'allPlansExecution'}}"
            ),
            _ => bail!(Code::FAILED_TO_PARSE, "explain verbosity must be a string"),
        }
    }
}

/// The command that is explained.
#[derive(Clone, Copy)]
pub enum Explained<'a> {
    Find(FindRequest<'a>),
    Aggregate(AggregateRequest<'a>),
    Count(CountRequest<'a>),
    Distinct(DistinctRequest<'a>),
    Update(&'a Namespace, UpdateStatement<'a>),
    Delete(&'a Namespace, DeleteStatement<'a>),
    FindAndModify(FindAndModifyRequest<'a>),
    MapReduce(MapReduceRequest<'a>),
}

impl<'a> Explained<'a> {
    /// The collection or view that the command reads or changes.
    pub fn namespace(&self) -> &'a Namespace {
        match self {
            Explained::Find(request) => request.namespace,
            Explained::Aggregate(request) => request.namespace,
            Explained::Count(request) => request.namespace,
            Explained::Distinct(request) => request.namespace,
            Explained::Update(namespace, _) | Explained::Delete(namespace, _) => namespace,
            Explained::FindAndModify(request) => request.namespace,
            Explained::MapReduce(request) => request.namespace,
        }
    }

    /// The collection that a write changes.
    fn written(&self) -> Option<&'a Namespace> {
        match self {
            Explained::Update(namespace, _) | Explained::Delete(namespace, _) => Some(namespace),
            Explained::FindAndModify(request) => Some(request.namespace),
            _ => None,
        }
    }
}

/// The stage above the plan of a command that is no find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    None,
    FastCount,
    Count,
    Update {
        multi: bool,
        upsert: bool,
        express: bool,
    },
    Delete {
        multi: bool,
        express: bool,
    },
    /// Of measurements.
    SeriesDelete {
        multi: bool,
    },
}

impl Top {
    /// The stage above this plan: the write of one document by its `_id` has a name of its own.
    fn over(self, root: &Node) -> Top {
        let by_id = matches!(root, Node::IdLookup { .. });
        match self {
            Top::Update { multi: false, upsert: false, .. } => {
                Top::Update { multi: false, upsert: false, express: by_id }
            }
            Top::Delete { multi: false, .. } => Top::Delete { multi: false, express: by_id },
            other => other,
        }
    }
}

/// A plan that is going to be explained.
struct Subject<'a> {
    namespace: &'a Namespace,
    filter: Arc<Filter>,
    top: Top,
    plan: Plan,
    lets: LetVars,
    collation: Option<&'static Collation>,
    /// For a write to measurements: what it looks for in them.
    measured: Option<series::Measured>,
}

/// Writes `explainVersion`, `queryPlanner` (or `stages`) and, depending on `verbosity`, `executionStats`.
/// `clock_ms` is any monotonic clock.
///
/// # Errors
/// Errors of parsing and planning. Errors of running are part of the output.
pub fn explain(
    store: &Arc<Store>,
    explained: &Explained<'_>,
    verbosity: Verbosity,
    env: &Env<'_>,
    clock_ms: &dyn Fn() -> i64,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    out.put("explainVersion", "1");
    let on_view = |namespace: &Namespace| store.collection(namespace).is_some_and(|c| c.is_view());
    let run = Run { store, verbosity, env, clock_ms, planning_ms: Cell::new(0) };
    env.explain();
    match explained {
        Explained::Aggregate(request) => run.aggregate(request, out),
        Explained::MapReduce(request) => {
            let pipeline = request.pipeline(store)?;
            run.aggregate(&request.aggregate(&pipeline), out)
        }
        Explained::Find(request) if on_view(request.namespace) => {
            let (pipeline, hint) = aggregate::of_find(request)?;
            let on_view = AggregateRequest {
                hint,
                let_vars: request.let_vars,
                collation: request.collation,
                options: request.options,
                ..AggregateRequest::new(request.namespace, pipeline.as_array())
            };
            run.aggregate(&on_view, out)
        }
        Explained::Count(request) if on_view(request.namespace) => {
            let pipeline = request.pipeline();
            run.aggregate(&request.on_view(&pipeline), out)
        }
        Explained::Distinct(request) if on_view(request.namespace) => {
            let pipeline = request.pipeline();
            run.aggregate(&request.on_view(&pipeline), out)
        }
        other => {
            let buckets = other.written().and_then(|namespace| store.buckets_of(namespace));
            let of_series =
                buckets.as_ref().map(|buckets| run.series(other, buckets)).transpose()?;
            let subject = match of_series.flatten() {
                Some(subject) => subject,
                None => run.subject(other)?,
            };
            run.write(&subject, out);
            Ok(())
        }
    }
}

struct Run<'r> {
    store: &'r Arc<Store>,
    verbosity: Verbosity,
    env: &'r Env<'r>,
    clock_ms: &'r dyn Fn() -> i64,
    /// Duration of planning.
    planning_ms: Cell<i64>,
}

impl Run<'_> {
    /// Makes a plan and records how long that took.
    fn planned<T>(&self, lets: &LetVars, make: impl FnOnce(&mut Cx<'_>) -> Result<T>) -> Result<T> {
        let begin = (self.clock_ms)();
        let plan = self.plan_with(lets, make);
        self.planning_ms.set((self.clock_ms)() - begin);
        plan
    }

    fn plan_with<T>(
        &self,
        lets: &LetVars,
        make: impl FnOnce(&mut Cx<'_>) -> Result<T>,
    ) -> Result<T> {
        let snapshot = self.store.snapshot()?;
        let values = lets.values();
        let vars = Vars::with_system(&values, self.env.system())
            .with_scripts(self.env.scripts())
            .with_pace(self.env);
        let reader = snapshot.reader();
        make(&mut Cx { store: self.store, reader, vars: &vars, env: self.env })
    }

    fn collation(&self, namespace: &Namespace, asked: Asked) -> Result<Option<&'static Collation>> {
        collating::by_name(self.store, namespace, asked)
    }

    fn selected<'a>(
        &self,
        namespace: &'a Namespace,
        selection: write::Selection<'_>,
        one: bool,
        top: Top,
    ) -> Result<Subject<'a>> {
        let spec = selection.spec(self.store.collection(namespace), false);
        // Only one document is taken from the plan, but MongoDB shows a limit only if there is a sort.
        let limited = one && selection.sort.is_some();
        let spec = plan::FindSpec { limit: limited.then_some(1), ..spec };
        let plan = self.planned(&selection.lets, |cx| plan::plan(&spec, cx))?;
        let top = top.over(&plan.root);
        let filter = selection.filter.clone();
        drop(spec);
        let (lets, collation) = (selection.lets, selection.collation);
        Ok(Subject { namespace, filter, top, plan, lets, collation, measured: None })
    }

    fn find<'a>(&self, request: &FindRequest<'a>) -> Result<Subject<'a>> {
        let collation = self.collation(request.namespace, request.collation)?;
        let parsed = plan::find::parse(request, collation, self.env)?;
        let spec = plan::find::spec(request, &parsed, self.store.collection(request.namespace));
        let plan = self.planned(&parsed.lets, |cx| plan::plan(&spec, cx))?;
        Ok(Subject {
            namespace: request.namespace,
            filter: parsed.filter,
            top: Top::None,
            plan,
            lets: parsed.lets,
            collation,
            measured: None,
        })
    }

    fn count<'a>(&self, request: &CountRequest<'a>) -> Result<Subject<'a>> {
        let collation = self.collation(request.namespace, request.collation)?;
        let plan =
            self.planned(&LetVars::default(), |cx| count::plan_count(self.store, request, cx))?;
        let exists = self.store.collection(request.namespace).is_some();
        let fast = exists && count::is_metadata(request);
        Ok(Subject {
            namespace: request.namespace,
            filter: filter_of(request.filter, collation)?,
            top: if fast { Top::FastCount } else { Top::Count },
            plan,
            lets: LetVars::default(),
            collation,
            measured: None,
        })
    }

    fn distinct<'a>(&self, request: &DistinctRequest<'a>) -> Result<Subject<'a>> {
        let collation = self.collation(request.namespace, request.collation)?;
        Ok(Subject {
            namespace: request.namespace,
            filter: filter_of(request.filter, collation)?,
            top: Top::None,
            plan: self.planned(&LetVars::default(), |cx| {
                distinct::plan_distinct(self.store, request, cx)
            })?,
            lets: LetVars::default(),
            collation,
            measured: None,
        })
    }

    fn subject<'a>(&self, explained: &Explained<'a>) -> Result<Subject<'a>> {
        match explained {
            Explained::Find(request) => self.find(request),
            Explained::Count(request) => self.count(request),
            Explained::Distinct(request) => self.distinct(request),
            Explained::Update(namespace, statement) => {
                let prepared = write::prepare_update(
                    statement,
                    write::collation_of(self.store, namespace, statement.collation),
                    self.env,
                )?;
                let (multi, upsert) = (statement.multi, statement.upsert);
                let top = Top::Update { multi, upsert, express: false };
                self.selected(namespace, prepared.selection, !statement.multi, top)
            }
            Explained::Delete(namespace, statement) => {
                let selection = write::prepare_delete(
                    statement,
                    write::collation_of(self.store, namespace, statement.collation),
                    self.env,
                )?;
                let top = Top::Delete { multi: statement.multi, express: false };
                self.selected(namespace, selection, !statement.multi, top)
            }
            Explained::FindAndModify(request) => {
                request.check()?;
                let collation =
                    write::collation_of(self.store, request.namespace, request.collation);
                let prepared = write::prepare_update(&request.statement(), collation, self.env)?;
                let top = match request.remove {
                    true => Top::Delete { multi: false, express: false },
                    false => {
                        let upsert = request.upsert;
                        Top::Update { multi: false, upsert, express: false }
                    }
                };
                self.selected(request.namespace, prepared.selection, true, top)
            }
            Explained::Aggregate(_) | Explained::MapReduce(_) => {
                Err(Error::bug("aggregations are explained elsewhere"))
            }
        }
    }

    /// Writes `queryPlanner` and `executionStats` of one plan.
    fn write(&self, subject: &Subject<'_>, out: &mut DocWriter<'_>) {
        query_planner(self, subject, out);
        if self.verbosity == Verbosity::QueryPlanner {
            return;
        }
        let mut source = plan::open(&subject.plan.root, &Opener::SHOWN);
        let started = (self.clock_ms)();
        let limit = match subject.top {
            Top::Update { multi: false, .. } | Top::Delete { multi: false, .. } => 1,
            Top::FastCount => 0,
            _ => u64::MAX,
        };
        let mut unpacked = 0;
        let outcome = self.plan_with(&subject.lets, |cx| match (&subject.measured, subject.top) {
            (Some(measured), Top::SeriesDelete { multi }) => {
                let found = series::count(&mut *source, measured, multi, cx)?;
                unpacked = found.buckets;
                Ok(found.matched)
            }
            _ => drain(&mut *source, limit, cx),
        });
        let ran = Ran { outcome, time_ms: (self.clock_ms)() - started };
        let returned = *ran.outcome.as_ref().unwrap_or(&0);
        execution_stats(subject, &mut *source, &ran, (returned, unpacked), self.verbosity, out);
    }

    fn aggregate(&self, request: &AggregateRequest<'_>, out: &mut DocWriter<'_>) -> Result<()> {
        let collation = aggregate::collation_of(self.store, request)?;
        let lets = LetVars::parse(request.let_vars, self.env.now_ms(), collation)?;
        aggregate::parse(request, request.pipeline, &lets, collation)?;
        let catalog = self.store.catalog();
        let (collection, stages) =
            assemble::resolve(&catalog, request.namespace, request.pipeline)?;
        let pipeline = aggregate::parse(request, stages.as_array(), &lets, collation)?;
        pipeline.check_target(self.store)?;
        let filter = pipeline.head().filter;
        // That below a view.
        let read = collection.clone();
        let namespace = read.as_ref().map_or(request.namespace, |read| &read.namespace);
        let key = hinted_key(&catalog, request.namespace, request.hint)?;
        let hint = key.as_ref().map(|key| Hint::Key(key.as_doc())).or(request.hint);
        let assembled = self.planned(&lets, |cx| {
            assemble::assemble(collection, &pipeline, None, hint, request.options, cx)
        })?;
        let subject = Subject {
            namespace,
            filter,
            top: Top::None,
            plan: assembled.plan,
            lets,
            collation,
            measured: None,
        };
        if assembled.rest.from == pipeline.stages.len() {
            self.write(&subject, out);
            return Ok(());
        }
        self.stages(&subject, &pipeline, assembled.rest, out)
    }
}

pub(crate) fn filter_of(
    doc: Doc<'_>,
    collation: Option<&'static Collation>,
) -> Result<Arc<Filter>> {
    let mut cx = ParseCx::new().collated(collation);
    let filter = Filter::parse_with(doc, &mut cx, nagi_lang::filter::Allowed::WITH_NEAR)?;
    Ok(Arc::new(filter.normalize()))
}

/// The outcome of running the plan.
struct Ran {
    outcome: Result<u64>,
    time_ms: i64,
}

fn int(n: i64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn drain(source: &mut dyn Source, limit: u64, cx: &mut Cx<'_>) -> Result<u64> {
    let mut returned = 0;
    while returned < limit && source.advance(cx)? {
        returned += 1;
    }
    Ok(returned)
}

fn query_planner(run: &Run<'_>, subject: &Subject<'_>, out: &mut DocWriter<'_>) {
    let Subject { namespace, plan, filter, .. } = subject;
    out.doc("queryPlanner", |out| {
        out.put("namespace", namespace.as_str());
        out.put("parsedQuery", &filter.to_doc());
        collation::put(subject.collation, "collation", out);
        if let Some(settings) = run.env.settings() {
            out.put("querySettings", settings.shown());
        }
        out.put("indexFilterSet", plan.choice.filtered);
        let shape = match plan.choice.shape {
            // A lookup by `_id`, or an empty result: the cache was not consulted.
            none if none == Shape::default() => Shape::of_filter(filter),
            shape => shape,
        };
        out.put("queryHash", hex(shape.shape).as_str());
        out.put("planCacheShapeHash", hex(shape.shape).as_str());
        out.put("planCacheKey", hex(shape.key).as_str());
        out.put("optimizationTimeMillis", int(run.planning_ms.get()));
        out.put("maxIndexedOrSolutionsReached", false);
        out.put("maxIndexedAndSolutionsReached", false);
        out.put("maxScansToExplodeReached", false);
        out.put("prunedSimilarIndexes", false);
        out.doc("winningPlan", |out| {
            out.put("isCached", plan.choice.is_cached(0));
            write_top(subject, &plan.root, None, out);
        });
        out.array("rejectedPlans", |out| {
            for (at, rejected) in plan.rejected.iter().enumerate() {
                out.doc(|out| {
                    out.put("isCached", plan.choice.is_cached(at + 1));
                    write_top(subject, rejected, None, out);
                    if let Some(reason) = plan.choice.reason(at + 1) {
                        out.put("reason", reason.as_str());
                    }
                });
            }
        });
    });
}

/// Writes the plan and the stage above it. `ran` has the opened sources after the run, the number of documents, and of
/// buckets that were unpacked for these.
fn write_top(
    subject: &Subject<'_>,
    root: &Node,
    ran: Option<(&mut dyn Source, (u64, u64))>,
    out: &mut DocWriter<'_>,
) {
    let top = subject.top;
    let name = match top {
        Top::None => {
            let counting = plan::describe::is_counted(root);
            return plan::describe::write(root, ran.map(|(source, _)| source), counting, out);
        }
        Top::SeriesDelete { .. } => "TS_MODIFY",
        Top::FastCount => "RECORD_STORE_FAST_COUNT",
        Top::Count => "COUNT",
        Top::Update { express: true, .. } => "EXPRESS_UPDATE",
        Top::Delete { express: true, .. } => "EXPRESS_DELETE",
        Top::Update { .. } => "UPDATE",
        Top::Delete { .. } => "DELETE",
    };
    out.put("stage", name);
    if let (Some(measured), Top::SeriesDelete { multi }) = (&subject.measured, top) {
        out.put("opType", if multi { "deleteMany" } else { "deleteOne" });
        out.put("bucketFilter", &subject.filter.to_doc());
        out.put("residualFilter", &measured.filter.to_doc());
    }
    let source = match ran {
        None => None,
        Some((source, (returned, unpacked))) => {
            plan::describe::write_counters(&top_counters(&*source, returned), out);
            let n = i32::try_from(returned).unwrap_or(i32::MAX);
            match top {
                Top::Count | Top::FastCount => {
                    out.put("nCounted", n);
                    out.put("nSkipped", 0);
                }
                Top::Update { upsert, .. } => {
                    out.put("nMatched", n);
                    out.put("nWouldModify", n);
                    out.put("nWouldUpsert", i32::from(upsert && n == 0));
                }
                Top::SeriesDelete { .. } => {
                    out.put("nBucketsUnpacked", i32::try_from(unpacked).unwrap_or(i32::MAX));
                    out.put("nMeasurementsMatched", n);
                    out.put("nMeasurementsDeleted", n);
                }
                _ => out.put("nWouldDelete", n),
            }
            Some(source)
        }
    };
    if top != Top::FastCount {
        out.doc("inputStage", |out| plan::describe::write(root, source, top == Top::Count, out));
    }
}

/// The counters of the stage above the plan: one work for each document, and no results.
fn top_counters(source: &dyn Source, returned: u64) -> SourceStats {
    SourceStats {
        works: returned + 1,
        at_end: true,
        nanos: source.stats().nanos,
        ..SourceStats::default()
    }
}

fn execution_stats(
    subject: &Subject<'_>,
    source: &mut dyn Source,
    ran: &Ran,
    (returned, unpacked): (u64, u64),
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) {
    let mut stats = ExecutionStats::default();
    sum_stats(source, &mut stats);
    let shown = if subject.top == Top::None { returned } else { 0 };
    out.doc("executionStats", |out| {
        out.put("executionSuccess", ran.outcome.is_ok());
        if let Err(error) = &ran.outcome {
            out.put("errorMessage", error.message());
            out.put("errorCode", error.code().0);
        }
        out.put("nReturned", int(shown as i64));
        out.put("executionTimeMillis", int(ran.time_ms));
        out.put("totalKeysExamined", int(stats.keys_examined as i64));
        out.put("totalDocsExamined", int(stats.docs_examined as i64));
        out.doc("executionStages", |out| {
            out.put("isCached", subject.plan.choice.is_cached(0));
            write_top(subject, &subject.plan.root, Some((source, (returned, unpacked))), out);
        });
        if verbosity == Verbosity::AllPlansExecution {
            out.array("allPlansExecution", |out| {
                subject.plan.choice.tried.iter().for_each(|tried| out.doc(|out| tried.write(out)));
            });
        }
    });
}
