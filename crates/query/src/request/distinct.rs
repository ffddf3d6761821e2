//! `distinct`: the distinct values at a path. Arrays are unwound one level. Equal numbers of different types are
//! one value, which is the first one seen.

use std::{collections::HashMap, sync::Arc};

use nagi_bson::{ArrayBuf, ArrayWriter, Doc, Value, ValueBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::{
    collation::{self, Asked, Collation},
    expr::Vars,
    path,
    path::FieldPath,
};
use nagi_store::{Namespace, Store};

use crate::{
    collating,
    limits::{DISTINCT_BYTES_MAX, QueryOptions},
    plan::{self, FindSpec, Hint, Plan, find::FindRequest},
    request::{
        aggregate::{self, AggregateRequest},
        execution::Take,
        find::{self},
    },
    source::{Cx, Env, ExecutionStats, Gather, Source, drain, sum_stats},
};

/// The arguments of `distinct`.
#[derive(Debug, Clone, Copy)]
pub struct DistinctRequest<'a> {
    pub namespace: &'a Namespace,
    pub key: &'a str,
    pub filter: Doc<'a>,
    pub hint: Option<Hint<'a>>,
    pub collation: Asked,
    /// Options from the server's parameters.
    pub options: QueryOptions,
}

impl<'a> DistinctRequest<'a> {
    /// The distinct values of a field in all documents.
    pub fn new(namespace: &'a Namespace, key: &'a str) -> DistinctRequest<'a> {
        DistinctRequest {
            namespace,
            key,
            filter: Doc::EMPTY,
            hint: None,
            collation: Asked::Inherited,
            options: QueryOptions::DEFAULT,
        }
    }
}

impl<'a> DistinctRequest<'a> {
    /// The pipeline that yields the documents of a view, or what has the values in them.
    pub(crate) fn pipeline(&self) -> ArrayBuf {
        let top = self.key.split('.').next().unwrap_or_default();
        ArrayBuf::build(|out| {
            out.doc(|out| out.put("$match", self.filter));
            if !top.is_empty() && !top.starts_with('$') {
                out.doc(|out| {
                    out.doc("$project", |out| {
                        out.put(top, 1);
                        if top != "_id" {
                            out.put("_id", 0);
                        }
                    });
                });
            }
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

/// The cost of a `distinct`, for the log.
#[derive(Debug, Clone, Default)]
pub struct DistinctStats {
    pub plan_summary: String,
    pub stats: ExecutionStats,
}

/// The values at a path seen so far, in a hash table with chains for equal hashes.
struct Seen<'p> {
    path: &'p FieldPath,
    values: Vec<(ValueBuf, Option<u32>)>,
    heads: HashMap<u64, u32, foldhash::fast::RandomState>,
    bytes: usize,
    collation: Option<&'static Collation>,
}

impl<'p> Seen<'p> {
    fn new(path: &'p FieldPath, collation: Option<&'static Collation>) -> Seen<'p> {
        Seen { path, values: Vec::new(), heads: HashMap::default(), bytes: 0, collation }
    }

    /// Adds the values at the path: each element of an array, otherwise the value; nothing if it is missing.
    fn collect(&mut self, doc: Doc<'_>, env: &Env<'_>) -> Result<()> {
        let mut outcome = Ok(());
        path::any(doc, self.path, path::Leaf::Whole, &mut |value, _| {
            outcome = match value {
                Value::Missing => Ok(()),
                Value::Array(array) => array.iter().try_for_each(|element| self.add(element, env)),
                value => self.add(value, env),
            };
            Ok(outcome.is_err())
        })?;
        outcome
    }

    fn add(&mut self, value: Value<'_>, env: &Env<'_>) -> Result<()> {
        env.check_memory(0)?;
        let hash = collation::hash_of(value, self.collation);
        let head = self.heads.get(&hash).copied();
        let mut at = head;
        while let Some(index) = at {
            let (old, next) = &self.values[index as usize];
            if collation::equal(old.value(), value, self.collation) {
                return Ok(());
            }
            at = *next;
        }
        let value = ValueBuf::new(value);
        self.bytes += value.heap_bytes();
        if self.bytes > DISTINCT_BYTES_MAX {
            bail!(Code::Location(17217), "distinct too big, 16mb cap");
        }
        self.values.push((value, head));
        self.heads.insert(hash, (self.values.len() - 1) as u32);
        Ok(())
    }
}

impl Gather for Seen<'_> {
    fn take(&mut self, input: &dyn Source, cx: &mut Cx<'_>) -> Result<()> {
        self.collect(input.doc(), cx.env)
    }

    /// Both together may hold twice the limit until they are joined, which is little.
    fn beside(&mut self, _: &mut Cx<'_>) -> Result<Option<Self>> {
        Ok(Some(Seen::new(self.path, self.collation)))
    }

    fn join(&mut self, later: Self, cx: &mut Cx<'_>) -> Result<()> {
        later.values.iter().try_for_each(|(value, _)| self.add(value.value(), cx.env))
    }
}

pub(crate) fn plan_distinct(
    store: &Store,
    request: &DistinctRequest<'_>,
    cx: &mut Cx<'_>,
) -> Result<Plan> {
    let find = FindRequest {
        filter: request.filter,
        hint: request.hint,
        ..FindRequest::new(request.namespace)
    };
    let collection = store.collection(request.namespace);
    let collation = collating::of(collection.as_deref(), request.collation)?;
    let parsed = plan::find::parse(&find, collation, cx.env)?;
    let settings = cx.env.settings();
    let allowed = settings.and_then(|settings| settings.allowed(request.namespace));
    if let Some(collection) = &collection
        && (request.hint.is_none() || allowed.is_some())
        && let Some(plan) =
            plan::distinct_scan(collection, request.key, &parsed.filter, false, allowed)
    {
        return Ok(plan);
    }
    let needed = Some(vec![request.key.to_owned()]);
    let spec = FindSpec { needed, ..plan::find::spec(&find, &parsed, collection) };
    plan::plan(&spec, cx)
}

/// Writes the distinct values into `out`.
///
/// # Errors
/// 17217 if they exceed 16 MB; 2 for a key that is empty or contains a NUL.
pub fn distinct(
    store: &Arc<Store>,
    request: &DistinctRequest<'_>,
    env: &Env<'_>,
    out: &mut ArrayWriter<'_>,
) -> Result<DistinctStats> {
    if request.key.contains('\0') {
        bail!(Code::BAD_VALUE, "distinct key cannot contain an embedded null byte");
    }
    let path = FieldPath::new(request.key);
    let collation = collating::by_name(store, request.namespace, request.collation)?;
    let mut seen = Seen::new(&path, collation);
    let mut stats = DistinctStats::default();
    if store.collection(request.namespace).is_some_and(|c| c.is_view()) {
        let pipeline = request.pipeline();
        let mut execution = aggregate::aggregate(store, &request.on_view(&pipeline), env)?;
        execution.batch(env.interrupt(), &mut |doc| {
            seen.collect(doc, env)?;
            Ok(Take::More)
        })?;
        stats.plan_summary = execution.plan_summary().to_owned();
        stats.stats = execution.stats();
    } else {
        let snapshot = store.snapshot()?;
        let vars = Vars::with_system(&[], env.system()).with_scripts(env.scripts()).with_pace(env);
        let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
        let mut plan = plan_distinct(store, request, &mut cx)?;
        let mut source = plan.start_top(env);
        let later = drain(&mut *source, &mut seen, &mut cx)?;
        env.note_stages(&plan, &mut *source);
        stats.plan_summary = find::summary(&plan);
        stats.stats = ExecutionStats::of(plan.planned());
        for source in [Some(source), later].iter_mut().flatten() {
            sum_stats(&mut **source, &mut stats.stats);
        }
        let collection = store.collection(request.namespace);
        plan::check_still_there(store, &plan::reads(collection, &plan))?;
    }
    seen.values.iter().for_each(|(value, _)| out.push(value.value()));
    Ok(stats)
}
