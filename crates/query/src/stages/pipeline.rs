//! Pipelines: parsed, checked for placement, rewritten, opened.

use std::sync::Arc;

use nagi_bson::{Array, Doc, Element, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::{expr::MetaSet, filter::Filter, sort::SortSpec};
use nagi_store::{Namespace, Store};

use super::{
    GeoNear, InChangeStream, Match, PipelineCx, Place, Stage, StageSpec, Step, Touch, Use, Within,
    rewrite::rewrite, stage_spec,
};
use crate::{
    change_stream::{Split, Stream, StreamOptions, TokenKept},
    limits::{PIPELINE_DEPTH_MAX, PIPELINE_STAGES_MAX},
    source::{Deep, Shallow, Source, Staged, Unwritten},
};

/// Levels of nesting that stages may add before the documents between them are checked: far less than the depth
/// that would overflow a stack.
const GROWTH_MAX: usize = 500;
/// Levels of nesting that stages may add to a stored document (180) without exceeding the depth that a client
/// accepts (200).
const GROWTH_UNNOTICED: usize = 20;

/// Number of stages between two checks of the remaining stack.
const STAGES_PER_LOOK: usize = 8;

/// A parsed pipeline.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) stages: Vec<Arc<dyn Stage>>,
    /// Metadata used by any stage.
    pub(crate) wanted: MetaSet,
    /// Metadata used before a stage that drops it.
    required: MetaSet,
    /// Levels of nesting by which output documents may exceed input documents, not counting loops.
    growth: usize,
}

/// The part of a pipeline's beginning that a plan can take over.
pub(crate) struct Head<'p> {
    pub(crate) filter: Arc<Filter>,
    pub(crate) sort: Option<Arc<SortSpec>>,
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
    /// The stage that orders the collection by distance; then it is the whole head.
    pub(crate) near: Option<&'p GeoNear>,
    /// Number of stages that the head replaces.
    pub(crate) stages: usize,
}

impl Pipeline {
    /// Parses an array of stages.
    ///
    /// # Errors
    /// 14, 40323, 40324 for the structure, the errors of each stage, then 40600-40602 and similar ones for
    /// placement.
    pub(crate) fn parse(pipeline: Array<'_>, cx: &mut PipelineCx<'_>) -> Result<Pipeline> {
        if cx.depth > PIPELINE_DEPTH_MAX {
            bail!(
                Code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
                "Maximum number of nested sub-pipelines exceeded. Limit is {PIPELINE_DEPTH_MAX}"
            );
        }
        let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
        let mut rows = Vec::new();
        let around = cx.metas.replace(MetaSet::NONE);
        let (mut wanted, mut required, mut lost) = (MetaSet::NONE, MetaSet::NONE, false);
        let mut growth = 0;
        for element in pipeline.iter() {
            let Value::Doc(spec) = element else {
                bail!(
                    Code::TYPE_MISMATCH,
                    "Each element of the 'pipeline' array must be an object"
                );
            };
            let (field, row) = row_of(spec)?;
            let stage: Arc<dyn Stage> = (row.parse)(field.value(), cx)?.into();
            if let Step::Match(matching) = stage.step()
                && matching.filter.text().is_some()
                && (!stages.is_empty() || cx.within == Within::Facet)
            {
                bail!(
                    Code::Location(17313),
                    "$match with $text is only allowed as the first pipeline stage"
                );
            }
            let noted = cx.metas.take();
            let unpacked = match stages.first() {
                Some(first) if first.unpacks().is_some() => stage.after_unpacking(cx)?,
                _ => None,
            };
            // The stages for it take care of their metadata themselves.
            if unpacked.is_some() {
                cx.metas.take();
            } else {
                wanted = wanted | noted;
            }
            if !lost && unpacked.is_none() {
                required = required | noted;
            }
            let before = stages.len();
            match unpacked.or_else(|| stage.parts()) {
                Some(parts) => stages.extend(parts),
                None => stages.push(stage),
            }
            lost |= stages[before..].iter().any(|stage| !stage.keeps_meta());
            rows.push(row);
            growth += Value::Doc(spec).depth();
            check_length(stages.len())?;
        }
        let unpacks = stages.first().is_some_and(|first| first.unpacks().is_some());
        for (at, row) in rows.iter().enumerate() {
            let unpacked = unpacks && at == 1 && row.place == Place::FirstUnpacked;
            check_place(row, if unpacked { 0 } else { at }, rows.len(), cx.within)?;
        }
        check_change_stream(&rows, cx.within)?;
        cx.metas.set(around | wanted);
        let stages = if cx.rewrites { rewrite(stages) } else { stages };
        Ok(Pipeline { stages, wanted, required, growth })
    }

    /// Checks that this pipeline may follow another.
    ///
    /// # Errors
    /// 7749501 if both together are too long.
    pub(crate) fn check_behind(&self, before: &Pipeline) -> Result<()> {
        check_length(before.stages.len() + self.stages.len())
    }

    /// The pipeline `before`, followed by a filter with `condition`, followed by this pipeline.
    pub(crate) fn behind(
        &self,
        before: &Pipeline,
        condition: Option<Filter>,
        rewrites: bool,
    ) -> Pipeline {
        let between = condition.map(|filter| Arc::new(Match::part(filter)) as Arc<dyn Stage>);
        let own = self.stages.iter().cloned();
        let stages = before.stages.iter().cloned().chain(between).chain(own).collect();
        Pipeline {
            stages: if rewrites { rewrite(stages) } else { stages },
            wanted: before.wanted | self.wanted,
            required: before.required,
            growth: before.growth + self.growth,
        }
    }

    /// True if it reads its collection by distance.
    pub(crate) fn begins_near(&self) -> bool {
        matches!(self.stages.first().map(|stage| stage.step()), Some(Step::GeoNear(_)))
    }

    /// This pipeline over a time series with another condition on the measurements.
    pub(crate) fn with_second(&self, condition: Filter, rewrites: bool) -> Pipeline {
        let mut stages = self.stages.clone();
        let unpacked = stages.iter().position(|stage| stage.unpacks().is_some());
        let at = unpacked.map_or(stages.len(), |at| at + 1);
        stages.insert(at, Arc::new(Match::part(condition)));
        Pipeline { stages: if rewrites { rewrite(stages) } else { stages }, ..self.clone() }
    }

    /// The conjunction of the conditions at its beginning, and their number of stages.
    pub(crate) fn conditions(&self) -> (Option<Arc<Filter>>, usize) {
        let mut filters = self.stages.iter().map_while(|stage| match stage.step() {
            Step::Match(matching) => Some(&matching.filter),
            _ => None,
        });
        let Some(first) = filters.next() else { return (None, 0) };
        let mut all = vec![(**first).clone()];
        all.extend(filters.map(|filter| (**filter).clone()));
        match all.len() {
            1 => (Some(Arc::clone(first)), 1),
            count => (Some(Arc::new(Filter::And(all).normalize())), count),
        }
    }

    /// Adds its actions on collections; `namespace` is its own.
    pub(crate) fn touches(&self, namespace: &Namespace, out: &mut Vec<Touch>) {
        let begins = self.stages.first().map_or(Some(Use::Read), |stage| stage.begins_with());
        if let Some(usage) = begins {
            out.push(Touch { namespace: namespace.clone(), usage });
        }
        self.stages.iter().for_each(|stage| stage.touches(out));
    }

    /// The options of the change stream that it begins with.
    pub(crate) fn stream(&self) -> Option<&Arc<StreamOptions>> {
        self.stages.first()?.stream()
    }

    /// The conditions directly behind its change stream.
    pub(crate) fn stream_filters(&self) -> impl Iterator<Item = &Filter> {
        self.stages.iter().skip(1).map_while(|stage| match stage.step() {
            Step::Match(matching) => Some(&*matching.filter),
            _ => None,
        })
    }

    /// Opens the pipeline of a change stream over its events.
    pub(crate) fn open_stream(&self, stream: Stream) -> Box<dyn Source> {
        let state = Arc::clone(stream.state());
        let root = self.open(1, Box::new(stream));
        let root = Box::new(TokenKept::new(root, Arc::clone(&state)));
        match self.stages.last().is_some_and(|stage| stage.splits_events()) {
            true => Box::new(Split::new(root, state)),
            false => root,
        }
    }

    /// The metadata that its stages give to documents.
    pub(crate) fn available(&self) -> MetaSet {
        let first = match self.stages.first().map(|stage| stage.step()) {
            Some(Step::GeoNear(_)) => MetaSet::GEO,
            Some(Step::Match(matching)) => matching.filter.metas(),
            _ => MetaSet::NONE,
        };
        self.stages.iter().fold(first, |all, stage| all | stage.gives())
    }

    /// Refuses the use of metadata that only a search provides, if there is no search.
    ///
    /// # Errors
    /// 40218.
    pub(crate) fn check_metas(&self, available: MetaSet) -> Result<()> {
        self.required.check(available)
    }

    /// Checks the target of its last stage.
    ///
    /// # Errors
    /// 51183 and similar ones.
    pub(crate) fn check_target(&self, store: &Store) -> Result<()> {
        self.stages.iter().try_for_each(|stage| stage.check_target(store))
    }

    /// The first stages, as filter, sort, skip and limit.
    pub(crate) fn head(&self) -> Head<'_> {
        let mut filters: Vec<Filter> = Vec::new();
        let mut head = Head {
            filter: Arc::new(Filter::AlwaysTrue),
            sort: None,
            skip: 0,
            limit: None,
            near: None,
            stages: 0,
        };
        if let Some(Step::GeoNear(near)) = self.stages.first().map(|stage| stage.step()) {
            return Head { near: Some(near), filter: near.spec.query.clone(), stages: 1, ..head };
        }
        for stage in &self.stages {
            let untouched = head.skip == 0 && head.limit.is_none();
            match stage.step() {
                Step::Match(filter) if untouched && head.sort.is_none() => {
                    filters.push((*filter.filter).clone());
                }
                Step::Sort(sort) if untouched && head.sort.is_none() && sort.is_plannable() => {
                    head.sort = Some(sort.spec.clone());
                }
                Step::Skip(count) => {
                    head.skip = head.skip.saturating_add(count);
                    head.limit = head.limit.map(|limit| limit.saturating_sub(count));
                }
                Step::Limit(count) => {
                    head.limit = Some(head.limit.map_or(count, |limit| limit.min(count)));
                }
                _ => break,
            }
            head.stages += 1;
        }
        head.filter = Arc::new(match filters.len() {
            0 => Filter::AlwaysTrue,
            1 => filters.remove(0),
            _ => Filter::And(filters).normalize(),
        });
        head
    }

    /// Opens the stages from `from` on over `input`.
    pub(crate) fn open(&self, from: usize, input: Box<dyn Source>) -> Box<dyn Source> {
        let open = |stage: &dyn Stage, input| stage.open(input);
        self.open_as(from, input, open, |source, _| source)
    }

    /// Like `open`, with counters around each stage, for explain. Nothing is written.
    pub(crate) fn open_counted(&self, from: usize, input: Box<dyn Source>) -> Box<dyn Source> {
        let open = |stage: &dyn Stage, input| match stage.writes() {
            true => Box::new(Unwritten::new(input)) as Box<dyn Source>,
            false => stage.open(input),
        };
        self.open_as(from, input, open, Staged::boxed)
    }

    fn open_as(
        &self,
        from: usize,
        mut input: Box<dyn Source>,
        open: impl Fn(&dyn Stage, Box<dyn Source>) -> Box<dyn Source>,
        wrap: impl Fn(Box<dyn Source>, usize) -> Box<dyn Source>,
    ) -> Box<dyn Source> {
        for (at, stage) in self.stages.iter().enumerate().skip(from) {
            if self.growth > GROWTH_MAX && at % 2 == 1 {
                input = Shallow::boxed(input);
            }
            if at % STAGES_PER_LOOK == STAGES_PER_LOOK - 1 {
                input = Deep::boxed(input);
            }
            input = match stage.step() {
                Step::Sort(sort) => sort.open_limited(input, self.limit_after(at + 1)),
                _ => open(&**stage, input),
            };
            input = wrap(input, at);
        }
        if self.growth > GROWTH_UNNOTICED { Shallow::boxed(input) } else { input }
    }

    /// The number of documents that the skips and limits from `at` on request of a sort before them.
    fn limit_after(&self, at: usize) -> Option<u64> {
        let mut skipped = 0u64;
        let mut wanted = None;
        for stage in &self.stages[at..] {
            match stage.step() {
                Step::Skip(count) => skipped = skipped.saturating_add(count),
                Step::Limit(count) => {
                    let count = count.saturating_add(skipped);
                    wanted = Some(wanted.map_or(count, |before: u64| before.min(count)));
                }
                _ => break,
            }
        }
        wanted
    }
}

fn check_length(stages: usize) -> Result<()> {
    if stages > PIPELINE_STAGES_MAX {
        bail!(
            Code::Location(7_749_501),
            "Pipeline length must be no longer than {PIPELINE_STAGES_MAX} stages."
        );
    }
    Ok(())
}

/// Checks the stages of a change stream's pipeline, and that its own stages are in no other.
fn check_change_stream(rows: &[&StageSpec], within: Within) -> Result<()> {
    let place = |row: &StageSpec| row.facts.in_change_stream;
    let is_stream = rows.first().is_some_and(|row| place(row) == InChangeStream::Begins);
    for (at, row) in rows.iter().enumerate().skip(usize::from(is_stream)) {
        let (name, ends) = (row.name, place(row) == InChangeStream::Ends);
        if is_stream && place(row) == InChangeStream::Refused {
            bail!(Code::ILLEGAL_OPERATION, "{name} is not permitted in a $changeStream pipeline");
        }
        if ends && !is_stream && within == Within::Top {
            bail!(Code::ILLEGAL_OPERATION, "{name} can only be used in a $changeStream pipeline");
        }
        if ends && at + 1 < rows.len() {
            bail!(Code::Location(7_182_802), "{name} must be the last stage in the pipeline");
        }
    }
    Ok(())
}

/// The stage of a specification, and its row.
fn row_of(spec: Doc<'_>) -> Result<(Element<'_>, &'static StageSpec)> {
    let mut fields = spec.iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        bail!(
            Code::Location(40323),
            "A pipeline stage specification object must contain exactly one field."
        );
    };
    match stage_spec(field.name()) {
        Some(row) => Ok((field, row)),
        None => {
            bail!(Code::Location(40324), "Unrecognized pipeline stage name: '{}'", field.name())
        }
    }
}

fn check_place(row: &StageSpec, at: usize, count: usize, within: Within) -> Result<()> {
    let name = row.name;
    if row.place != Place::Anywhere && within == Within::Facet {
        bail!(Code::Location(40600), "{name} is not allowed to be used within a $facet stage");
    }
    match row.place {
        Place::First | Place::FirstUnpacked if at > 0 => {
            bail!(Code::Location(40602), "{name} is only valid as the first stage in a pipeline.")
        }
        Place::Last if within == Within::Lookup => {
            bail!(Code::Location(51047), "{name} is not allowed within a $lookup's sub-pipeline")
        }
        Place::Last if within == Within::UnionWith => {
            bail!(Code::Location(31441), "{name} is not allowed within a $unionWith's sub-pipeline")
        }
        Place::Last if at + 1 != count => {
            bail!(Code::Location(40601), "{name} can only be the final stage in the pipeline")
        }
        _ => Ok(()),
    }
}
