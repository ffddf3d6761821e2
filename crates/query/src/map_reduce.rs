//! `mapReduce`: a pipeline of a find, the map function, a `$group` that reduces, the finalize function,
//! and `$out` or `$merge`.
//!
//! Reducing is a `$group`, so it spills to disk like one; values of a key are reduced as soon as there
//! are many of them, which a reduce function has to allow.

use std::{cell::Cell, sync::Arc};

use nagi_bson::{ArrayBuf, ArrayWriter, Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::{LetVars, Vars},
    script::Function,
};
use nagi_store::{Namespace, Store};

use crate::{
    aggregate::{AggregateRequest, assemble},
    execution::{Execution, Parts, Purpose},
    find::{reads, summary},
    limits::StageMemory,
    source::{Cx, Env},
    stages::{FinalizeStage, MapReduceCounts, MapStage, Pipeline, PipelineCx, Within, reducing},
};

/// Where the results go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapReduceOut<'a> {
    /// Into the reply.
    Inline,
    /// A collection, in place of what was there.
    Replace(&'a Namespace),
    /// A collection, in place of its documents of the same keys.
    Merge(&'a Namespace),
    /// A collection, reduced with its documents of the same keys.
    Reduce(&'a Namespace),
}

/// The arguments of `mapReduce`.
#[derive(Debug, Clone)]
pub struct MapReduceRequest<'a> {
    pub collation: nagi_lang::collation::Asked,
    pub namespace: &'a Namespace,
    pub map: Arc<Function>,
    pub reduce: Arc<Function>,
    pub finalize: Option<Arc<Function>>,
    pub filter: Doc<'a>,
    pub sort: Doc<'a>,
    pub limit: Option<u64>,
    pub out: MapReduceOut<'a>,
    pub bypass_validation: bool,
    /// Memory of each blocking stage.
    pub memory_bytes_max: StageMemory,
}

/// Plans and opens a `mapReduce`; its documents are `{_id, value}` by key, none if they go elsewhere.
///
/// # Errors
/// 166 for a view, those of the filter and the sort, those of `$out` and `$merge`.
pub fn map_reduce(
    store: &Arc<Store>,
    request: &MapReduceRequest<'_>,
    env: &Env<'_>,
) -> Result<(Execution, Arc<MapReduceCounts>)> {
    let collection = store.collection(request.namespace);
    if collection.as_ref().is_some_and(|c| c.is_view()) {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {} is a view, not a collection",
            request.namespace
        );
    }
    let counts = Arc::new(MapReduceCounts::default());
    let pipeline = pipeline(
        request,
        &counts,
        crate::collating::by_name(store, request.namespace, request.collation)?,
    )?;
    let snapshot = store.snapshot()?;
    let vars = Vars::with_system(&[], env.system()).with_scripts(env.scripts()).with_pace(env);
    let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
    let disk = (true, request.memory_bytes_max);
    let mut assembled = assemble(collection, &pipeline, None, None, disk, &mut cx)?;
    let root = assembled.plan.start();
    let root = pipeline.open(assembled.planned, root);
    // What is written may replace the very collection that was read.
    let reads = match request.out {
        MapReduceOut::Inline => reads(assembled.collection, &assembled.plan),
        _ => Vec::new(),
    };
    let execution = Execution::new(Parts {
        store: store.clone(),
        root,
        snapshot,
        lets: LetVars::default(),
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
    });
    Ok((execution, counts))
}

fn pipeline(
    request: &MapReduceRequest<'_>,
    counts: &Arc<MapReduceCounts>,
    collation: Option<&'static nagi_lang::collation::Collation>,
) -> Result<Pipeline> {
    let aggregate = AggregateRequest::new(request.namespace, nagi_bson::Array::EMPTY);
    let mut cx = PipelineCx {
        namespace: request.namespace,
        host: aggregate.host,
        lets: &[],
        depth: 0,
        allow_disk_use: true,
        memory_bytes_max: request.memory_bytes_max,
        densify_docs_max: aggregate.densify_docs_max,
        bypass_validation: request.bypass_validation,
        within: Within::Top,
        collation,
        metas: &Cell::default(),
    };
    let mut stages = |fill: &dyn Fn(&mut ArrayWriter<'_>)| {
        Pipeline::parse(ArrayBuf::build(|out| fill(out)).as_array(), &mut cx)
    };
    let mut all = stages(&|out| {
        if !request.filter.is_empty() {
            out.doc(|out| out.put("$match", request.filter));
        }
        if !request.sort.is_empty() {
            out.doc(|out| out.put("$sort", request.sort));
        }
        if let Some(limit) = request.limit {
            out.doc(|out| out.put("$limit", limit as i64));
        }
    })?;
    let by_key = stages(&|out| out.doc(|out| out.doc("$sort", |out| out.put("_id", 1))))?;
    let last = stages(&|out| write_out(request, out))?;
    let map = MapStage { map: request.map.clone(), counts: counts.clone() };
    all.stages.push(Arc::new(map));
    all.stages.push(reducing(&request.reduce, counts, &cx)?);
    all.stages.extend(by_key.stages);
    if let Some(finalize) = &request.finalize {
        all.stages.push(Arc::new(FinalizeStage(finalize.clone())));
    }
    all.stages.extend(last.stages);
    Ok(all)
}

/// The stage that writes, if one does.
fn write_out(request: &MapReduceRequest<'_>, out: &mut ArrayWriter<'_>) {
    let place = |out: &mut DocWriter<'_>, ns: &Namespace| {
        out.put("db", ns.database());
        out.put("coll", ns.collection());
    };
    match request.out {
        MapReduceOut::Inline => {}
        MapReduceOut::Replace(ns) => {
            out.doc(|out| out.doc("$out", |out| place(out, ns)));
        }
        MapReduceOut::Merge(ns) => out.doc(|out| {
            out.doc("$merge", |out| {
                out.doc("into", |out| place(out, ns));
                out.put("whenMatched", "replace");
                out.put("whenNotMatched", "insert");
            });
        }),
        MapReduceOut::Reduce(ns) => out.doc(|out| {
            out.doc("$merge", |out| {
                out.doc("into", |out| place(out, ns));
                out.array("whenMatched", |out| write_reduction(request, out));
                out.put("whenNotMatched", "insert");
            });
        }),
    }
}

/// Old and new value reduced to one, and finished again. The functions run in the engine in which the
/// map function ran, so they see its variables.
fn write_reduction(request: &MapReduceRequest<'_>, out: &mut ArrayWriter<'_>) {
    let project =
        |out: &mut ArrayWriter<'_>, function: &Function, args: &dyn Fn(&mut ArrayWriter<'_>)| {
            out.doc(|out| {
                out.doc("$project", |out| {
                    out.doc("value", |out| {
                        out.doc("$function", |out| {
                            out.put("body", Value::Code(function.text()));
                            out.array("args", |out| args(out));
                            out.put("lang", "js");
                        });
                    });
                });
            });
        };
    project(out, &request.reduce, &|out| {
        out.push("$_id");
        out.array(|out| {
            out.push("$value");
            out.push("$$new.value");
        });
    });
    if let Some(finalize) = &request.finalize {
        project(out, finalize, &|out| {
            out.push("$_id");
            out.push("$value");
        });
    }
}
