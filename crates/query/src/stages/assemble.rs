//! Assembles the plan of a pipeline: leading stages that filter, sort, skip and limit are planned like a find.

use std::sync::Arc;

use nagi_bson::{Array, ArrayBuf};
use nagi_error::{Code, Result, bail};
use nagi_lang::filter::Filter;
use nagi_store::{Catalog, Collection, Namespace};

use super::{Pipeline, Step, paths::needed, stage_facts};
use crate::{
    conditions::{
        bucket_ids::with_id_range,
        series_index::{asked, for_plan},
    },
    limits::QueryOptions,
    plan::{self, FindSpec, Hint, Plan},
    source::{Cx, InOrder, Source},
};

/// Limit of views upon views, as in MongoDB.
const VIEW_DEPTH_MAX: usize = 20;

/// A pipeline with its plan, ready to run.
pub(crate) struct Assembled {
    pub(crate) plan: Plan,
    pub(crate) rest: Rest,
    pub(crate) collection: Option<Arc<Collection>>,
}

/// The stages that a plan does not replace.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    /// Number of stages that the plan replaces.
    pub(crate) from: usize,
    /// True if the plan has the order that the first stage after it makes use of.
    in_wanted_order: bool,
}

impl Rest {
    /// Opens the stages over the source of the plan.
    pub(crate) fn open(self, pipeline: &Pipeline, source: Box<dyn Source>) -> Box<dyn Source> {
        pipeline.open(self.from, self.noted(source))
    }

    /// Like `open`, with counters around each stage, for explain.
    pub(crate) fn open_counted(
        self,
        pipeline: &Pipeline,
        source: Box<dyn Source>,
    ) -> Box<dyn Source> {
        pipeline.open_counted(self.from, self.noted(source))
    }

    fn noted(self, source: Box<dyn Source>) -> Box<dyn Source> {
        if self.in_wanted_order { InOrder::boxed(source) } else { source }
    }
}

impl Assembled {
    fn of(plan: Plan, planned: usize, collection: Option<Arc<Collection>>) -> Assembled {
        Assembled { plan, rest: Rest { from: planned, in_wanted_order: false }, collection }
    }
}

/// Resolves a name to a collection (or none) and, for a view, the view's pipeline before the caller's.
pub(crate) fn resolve(
    catalog: &Catalog,
    namespace: &Namespace,
    pipeline: Array<'_>,
) -> Result<(Option<Arc<Collection>>, ArrayBuf)> {
    let first = pipeline.iter().next().and_then(|stage| stage.as_doc()?.first());
    if first.is_some_and(|stage| stage_facts(stage.name()).of_buckets)
        && let Some(buckets) = catalog.buckets_of(namespace)
    {
        return Ok((Some(Arc::clone(buckets)), pipeline.to_buf()));
    }
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
        return Ok(Assembled::of(plan::nothing(), 0, None));
    }
    let filter = match (extra, &*head.filter) {
        (None, _) => head.filter.clone(),
        (Some(extra), Filter::AlwaysTrue) => Arc::new(extra),
        (Some(extra), own) => Arc::new(Filter::And(vec![extra, own.clone()]).normalize()),
    };
    let filter = match &collection {
        // Behind a limit, later conditions must not choose other buckets.
        Some(collection)
            if collection.options.timeseries.is_some()
                && head.skip == 0
                && head.limit.is_none() =>
        {
            with_asked(collection, pipeline, head.stages, filter)
        }
        _ => filter,
    };
    if let Some(stage) = head.near {
        let Some(collection) = collection else {
            bail!(
                Code::NAMESPACE_NOT_FOUND,
                "$geoNear requires a geo index to run, but the collection does not exist"
            );
        };
        let plan = plan::nearest(&collection, &stage.spec, &filter, hint, pipeline.wanted)?;
        return Ok(Assembled::of(plan, 1, Some(collection)));
    }
    if let (Some(collection), Some(Step::Sample(size)), Filter::AlwaysTrue, None) =
        (&collection, pipeline.stages.first().map(|stage| stage.step()), &*filter, hint)
        && let Some(plan) = plan::pick(collection, size, cx)?
    {
        return Ok(Assembled::of(plan, 0, Some(collection.clone())));
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
        return Ok(Assembled::of(plan, head.stages, Some(collection.clone())));
    }
    let untouched = head.sort.is_none() && head.skip == 0 && head.limit.is_none();
    let wanted = pipeline.stages.get(head.stages).and_then(|stage| stage.wanted_order());
    let wanted = wanted.filter(|_| untouched && collection.is_some());
    let mut spec = FindSpec {
        sort: head.sort.or(wanted.cloned()),
        skip: head.skip,
        limit: head.limit,
        hint,
        options,
        needed: needed(&pipeline.stages[head.stages..]),
        metas: pipeline.wanted,
        ..FindSpec::new(collection.clone(), filter)
    };
    let mut plan = plan::plan(&spec, cx)?;
    let in_wanted_order = wanted.is_some() && !plan.root.has_blocking_sort();
    if wanted.is_some() && !in_wanted_order {
        spec.sort = None;
        plan = plan::plan(&spec, cx)?;
    }
    let rest = Rest { from: head.stages, in_wanted_order };
    Ok(Assembled { plan, rest, collection })
}

/// The filter of a plan over buckets, with what the pipeline asks of their measurements.
fn with_asked(
    collection: &Collection,
    pipeline: &Pipeline,
    planned: usize,
    filter: Arc<Filter>,
) -> Arc<Filter> {
    let Some(options) = &collection.options.timeseries else { return filter };
    let rest = &pipeline.stages[planned..];
    let combined = rest.first().map(|first| first.replaces()).unwrap_or_default();
    let mut stages = combined.iter().chain(&rest[usize::from(!combined.is_empty())..]);
    let Some(first) = stages.next() else { return filter };
    let next = stages.next().map(|stage| stage.step());
    let next = match &next {
        Some(Step::Match(matching)) => Some(&*matching.filter),
        _ => None,
    };
    match first.asks(next) {
        Some(later) => {
            let asked = asked(options, &filter, later);
            Arc::new(for_plan(collection, (*filter).clone(), &asked))
        }
        None => Arc::new(with_id_range(collection, (*filter).clone())),
    }
}

/// Returns true if the first stage yields documents of its own.
pub(crate) fn begins(pipeline: &Pipeline) -> bool {
    pipeline.stages.first().is_some_and(|stage| matches!(stage.step(), Step::Begins))
}
