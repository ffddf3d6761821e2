//! Pipelines inside stages: the other collection of `$lookup` and `$unionWith`, and their stages.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use nagi_bson::{Array, ArrayBuf};
use nagi_lang::{collation::Collation, filter::Filter};
use nagi_store::{Collection, Index, Namespace};

use super::{Pipeline, Touch, Within, prelude::*};
use crate::{
    aggregate,
    limits::StageMemory,
    plan::{Node, Plan},
    source::Filtered,
};

/// A pipeline over a collection of its own.
pub(super) struct Inner {
    pub(super) namespace: Namespace,
    /// Names of the variables in scope in it.
    lets: Box<[Box<str>]>,
    pipeline: Pipeline,
    depth: u32,
    allow_disk_use: bool,
    memory_bytes_max: StageMemory,
    densify_docs_max: u64,
    rewrites: bool,
    /// That of the whole operation.
    pub(super) collation: Option<&'static Collation>,
}

impl Inner {
    /// Parses the stages; `names` are the variables that the surrounding stage adds.
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
            allow_disk_use: cx.allow_disk_use,
            memory_bytes_max: cx.memory_bytes_max,
            densify_docs_max: cx.densify_docs_max,
            bypass_validation: cx.bypass_validation,
            rewrites: cx.rewrites,
            within,
            collation: cx.collation,
            metas: &Cell::default(),
        };
        let pipeline = Pipeline::parse(stages, &mut inner)?;
        Ok(Inner {
            namespace,
            lets,
            pipeline,
            depth: cx.depth + 1,
            allow_disk_use: cx.allow_disk_use,
            memory_bytes_max: cx.memory_bytes_max,
            densify_docs_max: cx.densify_docs_max,
            rewrites: cx.rewrites,
            collation: cx.collation,
        })
    }

    /// Adds what it does to collections.
    pub(super) fn touches(&self, out: &mut Vec<Touch>) {
        self.pipeline.touches(&self.namespace, out);
    }

    /// Opens it, with `extra` as a condition on the collection's documents. `cx` has the values of the
    /// variables in scope.
    pub(super) fn open(&self, extra: Option<Filter>, cx: &mut Cx<'_>) -> Result<Box<dyn Source>> {
        self.open_noting(extra, &mut Used::default(), cx)
    }

    /// The same. Adds to `used` what the plan reads, if that is asked for.
    pub(super) fn open_noting(
        &self,
        extra: Option<Filter>,
        used: &mut Used,
        cx: &mut Cx<'_>,
    ) -> Result<Box<dyn Source>> {
        let catalog = cx.store.catalog();
        let collection = cx.store.collection(&self.namespace);
        used.scanned = None;
        let disk = (self.allow_disk_use, self.memory_bytes_max);
        if let Some(view) = collection.as_ref().filter(|c| c.is_view()) {
            if view.options.collation != self.collation {
                bail!(
                    Code::OPTION_NOT_SUPPORTED_ON_VIEW,
                    "Cannot override a view's default collation: {}",
                    self.namespace
                );
            }
            let (collection, stages) = aggregate::resolve(&catalog, &self.namespace, Array::EMPTY)?;
            let mut view = self.parse_view(&stages)?;
            self.pipeline.check_metas(view.available())?;
            view.wanted = view.wanted | self.pipeline.wanted;
            let mut below = aggregate::assemble(collection, &view, None, None, disk, cx)?;
            used.note(&below.plan, cx);
            let mut source = view.open(below.planned, below.plan.start());
            if let Some(filter) = extra {
                source = Box::new(Filtered::new(source, Arc::new(filter)));
            }
            return Ok(self.pipeline.open(0, source));
        }
        let mut own = aggregate::assemble(collection, &self.pipeline, extra, None, disk, cx)?;
        used.note(&own.plan, cx);
        used.scanned = match &*own.plan.root {
            Node::CollScan { collection, .. } => Some(Arc::clone(collection)),
            _ => None,
        };
        Ok(self.pipeline.open(own.planned, own.plan.start()))
    }

    /// Whether it passes on the documents of a collection as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.pipeline.stages.is_empty()
    }

    /// The collection and the index by which a plan finds the documents that `filter` matches, if it walks
    /// that index and fetches, and nothing else.
    pub(super) fn index_for(
        &self,
        filter: Filter,
        cx: &mut Cx<'_>,
    ) -> Result<Option<(Arc<Collection>, Arc<Index>)>> {
        let Some(collection) = cx.store.collection(&self.namespace).filter(|c| !c.is_view()) else {
            return Ok(None);
        };
        let disk = (self.allow_disk_use, self.memory_bytes_max);
        let from = Some(collection.clone());
        let own = aggregate::assemble(from, &self.pipeline, Some(filter), None, disk, cx)?;
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

    fn parse_view(&self, stages: &ArrayBuf) -> Result<Pipeline> {
        let mut cx = PipelineCx {
            namespace: &self.namespace,
            host: "",
            lets: &self.lets,
            depth: self.depth,
            allow_disk_use: self.allow_disk_use,
            memory_bytes_max: self.memory_bytes_max,
            densify_docs_max: self.densify_docs_max,
            // A pipeline within another one writes nothing.
            bypass_validation: false,
            rewrites: self.rewrites,
            within: Within::Top,
            collation: self.collation,
            metas: &Cell::default(),
        };
        Pipeline::parse(stages.as_array(), &mut cx)
    }
}

/// What the plans of a pipeline inside a stage read, for explain.
#[derive(Default)]
pub(super) struct Used {
    /// Plans with a scan of the whole collection.
    pub(super) collection_scans: u64,
    pub(super) indexes: BTreeSet<String>,
    /// The collection that the last plan scans and does nothing else.
    pub(super) scanned: Option<Arc<Collection>>,
}

impl Used {
    /// Notes an index that is read without a plan.
    pub(super) fn note_index(&mut self, index: &Index, cx: &Cx<'_>) {
        if cx.env.is_explaining() && !self.indexes.contains(index.name()) {
            self.indexes.insert(index.name().to_owned());
        }
    }

    fn note(&mut self, plan: &Plan, cx: &Cx<'_>) {
        if !cx.env.is_explaining() {
            return;
        }
        let mut scans = false;
        plan.root.each_leaf(&mut |leaf| match leaf {
            Node::CollScan { .. } => scans = true,
            leaf => self.indexes.extend(leaf.index_name().map(str::to_owned)),
        });
        self.collection_scans += u64::from(scans);
    }
}
