//! Pipelines inside stages: the other collection of `$lookup` and `$unionWith`, and the stages over it.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use nagi_bson::{Array, ArrayBuf};
use nagi_lang::{collation::Collation, filter::Filter};
use nagi_store::{Collection, Index, Namespace};

use super::{Pipeline, Touch, Within, assemble, independent::independent, prelude::*};
use crate::{
    limits::QueryOptions,
    plan::{Node, Plan},
};

/// A pipeline over a collection of its own.
pub(super) struct Inner {
    pub(super) namespace: Namespace,
    /// Names of the variables in scope.
    lets: Box<[Box<str>]>,
    pub(super) pipeline: Pipeline,
    /// The stages as given, and the number of leading ones whose result is the same for every document.
    text: ArrayBuf,
    independent: usize,
    within: Within,
    depth: u32,
    /// Options from the server's parameters.
    options: QueryOptions,
    rewrites: bool,
    /// The collation of the whole operation.
    pub(super) collation: Option<&'static Collation>,
}

/// The resolved namespace in one version of the catalog.
pub(super) struct Target {
    /// The collection; for a view, the view's collection.
    collection: Option<Arc<Collection>>,
    view: Option<View>,
}

struct View {
    text: ArrayBuf,
    pipeline: Pipeline,
    /// The view's stages followed by the inner pipeline.
    whole: Pipeline,
}

/// An inner pipeline in two parts. The result of the first part is the same for every document of the surrounding
/// stage.
pub(super) struct Halves {
    pub(super) collection: Option<Arc<Collection>>,
    pub(super) first: Pipeline,
    pub(super) rest: Pipeline,
}

impl Inner {
    /// Parses the stages. `names` are the variables that the surrounding stage defines.
    pub(super) fn parse(
        namespace: Namespace,
        stages: Array<'_>,
        names: &[Box<str>],
        within: Within,
        cx: &PipelineCx<'_>,
    ) -> Result<Inner> {
        let lets: Box<[Box<str>]> = cx.lets.iter().chain(names).cloned().collect();
        let mut inner = PipelineCx {
            namespace: &namespace,
            host: cx.host,
            lets: &lets,
            depth: cx.depth + 1,
            options: cx.options,
            bypass_validation: cx.bypass_validation,
            rewrites: cx.rewrites,
            for_access: cx.for_access,
            within,
            collation: cx.collation,
            metas: &Cell::default(),
            given: None,
        };
        let pipeline = Pipeline::parse(stages, &mut inner)?;
        Ok(Inner {
            namespace,
            lets,
            pipeline,
            independent: independent(stages, names),
            text: stages.to_buf(),
            within,
            depth: cx.depth + 1,
            options: cx.options,
            rewrites: cx.rewrites,
            collation: cx.collation,
        })
    }

    /// Adds its actions on collections.
    pub(super) fn touches(&self, out: &mut Vec<Touch>) {
        self.pipeline.touches(&self.namespace, out);
    }

    /// Opens it, with `extra` as a condition on the collection's documents. `cx` has the values of the variables in
    /// scope.
    pub(super) fn open(&self, extra: Option<Filter>, cx: &mut Cx<'_>) -> Result<Box<dyn Source>> {
        let target = self.target(cx)?;
        self.open_noting(&target, extra, &mut Used::default(), cx)
    }

    /// Resolves its namespace in the current catalog.
    ///
    /// # Errors
    /// 167 for a view with another collation, 7749501, 40602 for `$geoNear` on a view that is no time series; errors of
    /// the view's stages, and of the pipeline's stages after them.
    pub(super) fn target(&self, cx: &Cx<'_>) -> Result<Target> {
        let collection = cx.store.collection(&self.namespace);
        let Some(view) = collection.as_ref().filter(|c| c.is_view()) else {
            return Ok(Target { collection, view: None });
        };
        if view.options.collation != self.collation && !view.shows_series() {
            bail!(
                Code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "Cannot override a view's default collation: {}",
                self.namespace
            );
        }
        let catalog = cx.store.catalog();
        let (collection, text) = assemble::resolve(&catalog, &self.namespace, Array::EMPTY)?;
        let pipeline = self.parse_again(text.as_array(), Within::Top)?;
        if self.pipeline.begins_near() {
            // It depends on the view, if and how the stage can be done with what the view gives.
            let own = self.text.as_array();
            let both = ArrayBuf::build(|out| {
                text.as_array().iter().chain(own.iter()).for_each(|stage| out.push(stage));
            });
            let whole = self.parse_again(both.as_array(), self.within)?;
            whole.check_metas(whole.available())?;
            return Ok(Target { collection, view: Some(View { text, pipeline, whole }) });
        }
        self.pipeline.check_metas(pipeline.available())?;
        self.pipeline.check_behind(&pipeline)?;
        let whole = self.pipeline.behind(&pipeline, None, self.rewrites);
        Ok(Target { collection, view: Some(View { text, pipeline, whole }) })
    }

    /// Opens it over `target`. Adds the access paths of the plan to `used`.
    pub(super) fn open_noting(
        &self,
        target: &Target,
        extra: Option<Filter>,
        used: &mut Used,
        cx: &mut Cx<'_>,
    ) -> Result<Box<dyn Source>> {
        let collection = target.collection.clone();
        match (&target.view, extra) {
            (None, extra) => self.open_planned(collection, &self.pipeline, extra, used, cx),
            (Some(view), None) => self.open_planned(collection, &view.whole, None, used, cx),
            (Some(view), Some(extra)) if self.pipeline.begins_near() => {
                let pipeline = view.whole.with_second(extra, self.rewrites);
                self.open_planned(collection, &pipeline, None, used, cx)
            }
            (Some(view), extra) => {
                let pipeline = self.pipeline.behind(&view.pipeline, extra, self.rewrites);
                self.open_planned(collection, &pipeline, None, used, cx)
            }
        }
    }

    /// Plans and opens a pipeline over a collection.
    pub(super) fn open_planned(
        &self,
        collection: Option<Arc<Collection>>,
        pipeline: &Pipeline,
        extra: Option<Filter>,
        used: &mut Used,
        cx: &mut Cx<'_>,
    ) -> Result<Box<dyn Source>> {
        let mut own = assemble::assemble(collection, pipeline, extra, None, self.options, cx)?;
        used.note(&own.plan, cx);
        let source = own.plan.start();
        Ok(own.rest.open(pipeline, source))
    }

    /// Returns true if its result is the same for every document, not considering a view.
    pub(super) fn is_independent(&self) -> bool {
        self.independent == self.text.as_array().count()
    }

    /// Divides it into two parts; none if the view's stages have a different result each time. `at_once`: the
    /// condition of the surrounding stage comes first, so the first part is only the view's stages. None also for a
    /// second part that would begin with `$geoNear`.
    pub(super) fn halves(&self, target: &Target, at_once: bool) -> Result<Option<Halves>> {
        let count = if at_once { 0 } else { self.independent };
        let own = self.text.as_array();
        let view = target.view.as_ref().map_or(Array::EMPTY, |view| view.text.as_array());
        if independent(view, &[]) < view.count() {
            return Ok(None);
        }
        // It does nothing by itself with rows of the first part.
        if count == 0 && self.pipeline.begins_near() {
            return Ok(None);
        }
        let first = ArrayBuf::build(|out| {
            view.iter().chain(own.iter().take(count)).for_each(|stage| out.push(stage));
        });
        let rest = match count {
            0 => self.pipeline.clone(),
            _ => {
                let rest =
                    ArrayBuf::build(|out| own.iter().skip(count).for_each(|stage| out.push(stage)));
                self.parse_again(rest.as_array(), self.within)?
            }
        };
        let mut first = self.parse_again(first.as_array(), self.within)?;
        first.wanted = first.wanted | rest.wanted;
        Ok(Some(Halves { collection: target.collection.clone(), first, rest }))
    }

    /// Returns true if the plan of the first half alone has the same access paths as the plan recorded in `used`.
    /// Then no index serves the conditions of the second half.
    pub(super) fn reads_alike(
        &self,
        halves: &Halves,
        used: &Used,
        cx: &mut Cx<'_>,
    ) -> Result<bool> {
        let (from, first) = (halves.collection.clone(), &halves.first);
        let plan = assemble::assemble(from, first, None, None, self.options, cx)?.plan;
        Ok(used.root.as_ref().is_some_and(|root| root.reads() == plan.root.reads()))
    }

    /// Returns true if it passes on the documents of a collection unchanged.
    pub(super) fn is_plain(&self) -> bool {
        self.pipeline.stages.is_empty()
    }

    /// The collection and the index with which a plan finds the documents that `filter` matches, if the plan is a
    /// scan of that index and a fetch, and nothing else.
    pub(super) fn index_for(
        &self,
        filter: Filter,
        cx: &mut Cx<'_>,
    ) -> Result<Option<(Arc<Collection>, Arc<Index>)>> {
        let Some(collection) = cx.store.collection(&self.namespace).filter(|c| !c.is_view()) else {
            return Ok(None);
        };
        let from = Some(collection.clone());
        let own = assemble::assemble(from, &self.pipeline, Some(filter), None, self.options, cx)?;
        let index = match &*own.plan.root {
            Node::IdLookup { collection, .. } => collection.id_index().cloned(),
            Node::Express { access, .. } => Some(access.index.clone()),
            Node::Fetch { filter: None, input, .. } => match &**input {
                Node::IndexScan(access) => Some(access.index.clone()),
                _ => None,
            },
            _ => None,
        };
        Ok(index.map(|index| (collection, index)))
    }

    fn parse_again(&self, stages: Array<'_>, within: Within) -> Result<Pipeline> {
        let mut cx = PipelineCx {
            namespace: &self.namespace,
            host: "",
            lets: &self.lets,
            depth: self.depth,
            options: self.options,
            // A pipeline within another one writes nothing.
            bypass_validation: false,
            rewrites: self.rewrites,
            for_access: false,
            within,
            collation: self.collation,
            metas: &Cell::default(),
            given: None,
        };
        Pipeline::parse(stages, &mut cx)
    }
}

/// The access paths used by the plans of a pipeline inside a stage.
#[derive(Default)]
pub(super) struct Used {
    /// Number of plans with a collection scan, and the indexes of the others; for explain.
    pub(super) collection_scans: u64,
    pub(super) indexes: BTreeSet<String>,
    /// The most recent plan.
    root: Option<Arc<Node>>,
}

impl Used {
    /// Adds the access paths of another plan.
    pub(super) fn add(&mut self, other: Used) {
        self.collection_scans += other.collection_scans;
        self.indexes.extend(other.indexes);
        self.root = other.root;
    }

    /// Returns true if the most recent plan reads only by collection scans.
    pub(super) fn scans(&self) -> bool {
        let (mut scans, mut others) = (false, false);
        if let Some(root) = &self.root {
            root.each_leaf(&mut |leaf| match leaf {
                Node::CollScan { .. } => scans = true,
                Node::IndexScan(access) if access.scans_all() => scans = true,
                _ => others = true,
            });
        }
        scans && !others
    }

    /// Records an index that is read without a plan.
    pub(super) fn note_index(&mut self, index: &Index, cx: &Cx<'_>) {
        if cx.env.is_explaining() && !self.indexes.contains(index.name()) {
            self.indexes.insert(index.name().to_owned());
        }
    }

    fn note(&mut self, plan: &Plan, cx: &Cx<'_>) {
        self.root = Some(Arc::clone(&plan.root));
        if !cx.env.is_explaining() {
            return;
        }
        let mut scans = false;
        plan.root.each_leaf(&mut |leaf| match leaf {
            Node::CollScan { .. } => scans = true,
            Node::IndexScan(access) if access.scans_all() => scans = true,
            leaf => self.indexes.extend(leaf.index_name().map(str::to_owned)),
        });
        self.collection_scans += u64::from(scans);
    }
}
