//! Pipeline stages: the table of stages, the parser of pipelines, the trait.
//!
//! ```text
//!   array of stages --parse--> [Stage] --check placement--> --rewrite--> --plan the head--> open over a Source
//!                     mod.rs              pipeline.rs         rewrite/      assemble.rs
//! ```
//!
//! There is one file for each stage. Its row in [`STAGES`] is the only place that has its name. To add a stage,
//! write a file with a row and a [`Stage`], and add the row to the table.

mod add_fields;
pub(crate) mod assemble;
mod bucket;
mod bucket_auto;
mod bucket_rows;
mod change_stream;
mod change_stream_split_large_event;
mod coll_stats;
mod count;
mod current_op;
mod densify;
mod densify_spec;
mod documents;
mod facet;
mod facts;
mod fill;
mod geo_near;
mod granularity;
mod graph_lookup;
mod group;
mod hash_join;
mod independent;
mod index_stats;
mod inhibit_optimization;
mod inner;
mod join;
mod limit;
mod list_local_sessions;
mod list_search_indexes;
mod list_sessions;
mod lookup;
mod lookup_run;
mod lookup_unwind;
mod map;
mod match_;
mod merge;
mod numbers;
mod of_server;
mod out;
mod paths;
mod pipeline;
mod plan_cache_stats;
mod prelude;
mod project;
mod query_settings;
mod query_stats;
mod redact;
mod replace_root;
mod rewrite;
mod sample;
mod search;
mod set_window_fields;
mod several;
mod shown;
mod skip;
mod sort;
mod sort_by_count;
mod union_with;
mod unpack_bucket;
mod unpack_columns;
mod unpack_ends;
mod unpack_top;
mod unset;
mod unwind;
mod windows;

use std::{cell::Cell, sync::Arc};

use nagi_bson::{Doc, DocWriter, Value};
use nagi_error::{Error, Result};
use nagi_lang::{
    collation::Collation,
    expr::{Deps, MetaSet, ParseCx},
    filter::Filter,
    sort::SortSpec,
};
use nagi_store::{Namespace, Store};
use nagi_timeseries::bucket::Shape;

pub(crate) use count::Counter;

use crate::{change_stream::StreamOptions, limits::QueryOptions, source::Source};

pub use coll_stats::write_coll_stats;
pub use documents::Given;
pub(crate) use facts::{Accumulates, How, Part};
pub use facts::{
    COLLECTIONLESS, InChangeStream, RunsOn, StageFacts, feeds_pipelines, inner_pipelines,
    opens_change_stream, stage_facts,
};
pub(crate) use geo_near::GeoNear;
pub use list_search_indexes::SEARCH_INDEXES_NOT_ENABLED;
pub(crate) use match_::Match;
pub(crate) use pipeline::Pipeline;
pub(crate) use sort::Sort;
pub(crate) use unpack_columns::ByColumns;
pub(crate) use unpack_ends::Ends;

/// A parsed stage: immutable, shared between executions.
pub(crate) trait Stage: Send + Sync {
    /// Opens a running instance that reads from `input`.
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source>;

    /// Writes `{$name: specification}` as one field.
    fn explain(&self, out: &mut DocWriter<'_>);

    /// The properties that the optimizer and the planner use.
    fn step(&self) -> Step<'_> {
        Step::Other
    }

    /// The paths it may change, if it only changes values document by document (or repeats documents). Then a
    /// `$match` on other paths may move before it.
    fn changes(&self) -> Option<Vec<String>> {
        None
    }

    /// True if it yields exactly one document for each input document, in the same order.
    fn is_one_to_one(&self) -> bool {
        false
    }

    /// The path of its input that has, for every output document, the same value as its output has at `path`; none
    /// if that is not known. A `$match` may move before the stage under that name.
    fn source_of(&self, path: &str) -> Option<String> {
        let changed = self.changes()?;
        let same = !changed.iter().any(|other| paths::overlap(path, other));
        same.then(|| path.to_owned())
    }

    /// A condition on its input that holds for each document of which a document of its output that matches `filter`
    /// is made.
    fn implied(&self, _filter: &Filter) -> Option<Filter> {
        None
    }

    /// The same stage, which may leave out documents that do not match `filter`, because the next stage does; none if
    /// it cannot.
    fn narrowed(&self, _filter: &Filter) -> Option<Arc<dyn Stage>> {
        None
    }

    /// If its input are buckets of measurements: the condition on these, of which `next` is the one of the next stage.
    fn asks<'f>(&'f self, _next: Option<&'f Filter>) -> Option<Option<&'f Filter>> {
        None
    }

    /// The stages that it stands for, if it is combined of several.
    fn replaces(&self) -> &[Arc<dyn Stage>] {
        &[]
    }

    /// A cheaper stage, if later stages read only these paths of its output.
    fn only(&self, _paths: &[String]) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The shape of the buckets that it unpacks, if it does nothing else.
    fn unpacks(&self) -> Option<&Arc<Shape>> {
        None
    }

    /// A stage that does the same with the buckets of which `replaced` makes its input; none if that is not possible.
    fn over_columns(&self, _by: ByColumns, _replaced: &[Arc<dyn Stage>]) -> Option<Arc<dyn Stage>> {
        None
    }

    /// A stage that yields only one measurement of each bucket of those that `by` wants, instead of `replaced`.
    fn only_ends(
        &self,
        _by: ByColumns,
        _ends: Ends,
        _replaced: &[Arc<dyn Stage>],
    ) -> Option<Arc<dyn Stage>> {
        None
    }

    /// If only the first document of all with the same values at some paths matters, or only the last one: these paths,
    /// and true for the last one.
    fn takes_one(&self) -> Option<(Vec<String>, bool)> {
        None
    }

    /// A stage that yields what it yields, filtered, sorted and limited, and nothing more than that; none if that is no
    /// cheaper.
    fn first_of(
        &self,
        _filter: Option<Arc<Filter>>,
        _sort: &Sort,
        _count: u64,
    ) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The order of its input that it makes use of, if an index has it.
    fn wanted_order(&self) -> Option<&Arc<SortSpec>> {
        None
    }

    /// The parameters of an unwind, if the stage does nothing but unwind an array.
    fn unwinds(&self) -> Option<&Arc<unwind::Unwind>> {
        None
    }

    /// The stage combined with the unwinding of its result; none if its result there is no array.
    fn unwound(&self, _by: &Arc<unwind::Unwind>) -> Option<Arc<dyn Stage>> {
        None
    }

    /// True if it merges documents whose values only compare equal.
    fn makes_equal_one(&self) -> bool {
        false
    }

    /// True if documents keep their metadata.
    fn keeps_meta(&self) -> bool {
        true
    }

    /// The stages that do the same with documents that an earlier stage made.
    ///
    /// # Errors
    /// If that is not possible.
    fn after_unpacking(&self, _cx: &PipelineCx<'_>) -> Result<Option<Vec<Arc<dyn Stage>>>> {
        Ok(None)
    }

    /// The metadata that it gives to documents.
    fn gives(&self) -> MetaSet {
        MetaSet::NONE
    }

    /// The stages that it consists of, if it is an abbreviation of several.
    fn parts(&self) -> Option<Vec<Arc<dyn Stage>>> {
        None
    }

    /// Refuses an invalid target before anything runs.
    fn check_target(&self, _store: &Store) -> Result<()> {
        Ok(())
    }

    /// True if it writes its input.
    fn writes(&self) -> bool {
        false
    }

    /// Adds its actions on collections other than its pipeline's, including those of inner pipelines.
    fn touches(&self, _out: &mut Vec<Touch>) {}

    /// Its action, as the first stage, on the collection of its pipeline.
    fn begins_with(&self) -> Option<Use> {
        Some(Use::Read)
    }

    /// The options of a change stream.
    fn stream(&self) -> Option<&Arc<StreamOptions>> {
        None
    }

    /// True if it splits events of a change stream that are too large.
    fn splits_events(&self) -> bool {
        false
    }

    /// The path, if it needs only the distinct values at that path, in any order.
    fn distinct_of(&self) -> Option<&str> {
        None
    }

    /// Given the paths that later stages read of its output, adds the paths it reads itself and removes the paths
    /// it writes. Returns true if it passes on everything else unchanged.
    fn hands_on(&self, _deps: &mut Deps) -> bool {
        false
    }

    /// Adds the paths it reads. Returns true if nothing else of its input can reach its output.
    fn needs(&self, _deps: &mut Deps) -> bool {
        false
    }
}

/// The action of a pipeline on a collection, for privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    /// Reads its statistics.
    CollStats,
    /// Reads the statistics of its indexes.
    IndexStats,
    /// Reads the cached plans.
    PlanCache,
    /// Watches the changes of the collection, of its database, or of all databases.
    Watch,
    WatchDatabase,
    WatchCluster,
    Insert,
    Update,
    Remove,
}

/// A collection and the action on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    pub namespace: Namespace,
    pub usage: Use,
}

/// A stage that the planner can take over.
pub(crate) enum Step<'s> {
    Match(&'s Match),
    Sort(&'s Sort),
    Limit(u64),
    Skip(u64),
    Sample(u64),
    /// Reads the collection by distance.
    GeoNear(&'s GeoNear),
    /// Yields documents of its own instead of reading its input (`$indexStats`, `$documents`).
    Begins,
    Other,
}

/// The allowed positions of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Only as the first stage, and not inside `$facet` (40602, 40600).
    First,
    /// The same, but it may follow the stage that unpacks the buckets of a time series.
    FirstUnpacked,
    /// Only as the last stage, and not in inner pipelines (40601, 40600, 51047).
    Last,
    /// Anywhere but inside `$facet` (40600).
    NotInFacet,
}

/// A row of the table of stages.
pub(crate) struct StageSpec {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) parse: fn(Value<'_>, &mut PipelineCx<'_>) -> Result<Box<dyn Stage>>,
    /// The treatment of its value in a query shape.
    pub(crate) shape: How,
    /// Where its value has accumulators.
    pub(crate) accumulates: Accumulates,
    pub(crate) facts: StageFacts,
}

impl StageSpec {
    /// The defaults of a row.
    pub(crate) const ROW: StageSpec = StageSpec {
        name: "",
        place: Place::Anywhere,
        parse: |_, _| Err(Error::bug("a stage without a parser")),
        shape: How::Expression,
        accumulates: Accumulates::Nowhere,
        facts: StageFacts::ORDINARY,
    };
}

/// All known stages, sorted by name.
pub(crate) static STAGES: &[&StageSpec] = &[
    &inhibit_optimization::INHIBIT_OPTIMIZATION,
    &unpack_bucket::UNPACK_BUCKET,
    &unpack_bucket::EXTERNAL_UNPACK_BUCKET,
    &add_fields::ADD_FIELDS,
    &bucket::BUCKET,
    &bucket_auto::BUCKET_AUTO,
    &change_stream::CHANGE_STREAM,
    &change_stream_split_large_event::CHANGE_STREAM_SPLIT_LARGE_EVENT,
    &coll_stats::COLL_STATS,
    &count::COUNT,
    &current_op::CURRENT_OP,
    &densify::DENSIFY,
    &documents::DOCUMENTS,
    &facet::FACET,
    &fill::FILL,
    &geo_near::GEO_NEAR,
    &graph_lookup::GRAPH_LOOKUP,
    &group::GROUP,
    &index_stats::INDEX_STATS,
    &limit::LIMIT,
    &list_local_sessions::LIST_LOCAL_SESSIONS,
    &list_search_indexes::LIST_SEARCH_INDEXES,
    &list_sessions::LIST_SESSIONS,
    &lookup::LOOKUP,
    &match_::MATCH,
    &merge::MERGE,
    &out::OUT,
    &plan_cache_stats::PLAN_CACHE_STATS,
    &project::PROJECT,
    &query_settings::QUERY_SETTINGS,
    &query_stats::QUERY_STATS,
    &redact::REDACT,
    &replace_root::REPLACE_ROOT,
    &replace_root::REPLACE_WITH,
    &sample::SAMPLE,
    &search::SEARCH,
    &search::SEARCH_META,
    &add_fields::SET,
    &set_window_fields::SET_WINDOW_FIELDS,
    &skip::SKIP,
    &sort::SORT,
    &sort_by_count::SORT_BY_COUNT,
    &union_with::UNION_WITH,
    &unset::UNSET,
    &unwind::UNWIND,
    &search::VECTOR_SEARCH,
];

/// The row with a stage's name.
pub(crate) fn stage_spec(name: &str) -> Option<&'static StageSpec> {
    let at = STAGES.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(STAGES[at])
}

/// The names of all stages, for coverage.
pub fn stage_names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().map(|row| row.name)
}

/// The context of parsing a pipeline.
pub(crate) struct PipelineCx<'p> {
    /// The collection of the pipeline.
    pub(crate) namespace: &'p Namespace,
    /// This server's name in replies.
    pub(crate) host: &'p str,
    /// Names of the variables in scope.
    pub(crate) lets: &'p [Box<str>],
    /// Number of enclosing pipelines (`$lookup`, `$unionWith`, `$facet`).
    pub(crate) depth: u32,
    /// Options from the server's parameters.
    pub(crate) options: QueryOptions,
    /// True if stages that write do not check the target's validator.
    pub(crate) bypass_validation: bool,
    /// True if pipelines are rewritten into a cheaper form.
    pub(crate) rewrites: bool,
    /// True if the pipeline is parsed only to find out which privileges it needs. The collections that a stage may not
    /// have are then accepted: whether they are refused is for clients with the privileges, as in MongoDB.
    pub(crate) for_access: bool,
    /// The kind of the enclosing pipeline, for placement errors.
    pub(crate) within: Within,
    /// The collation of all its stages.
    pub(crate) collation: Option<&'static Collation>,
    /// Collects the kinds of metadata that its stages use.
    pub(crate) metas: &'p Cell<MetaSet>,
    /// The documents of a `$documents` at the beginning, which then has none itself.
    pub(crate) given: Option<&'p Arc<dyn Given>>,
}

/// The kind of pipeline being parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    Top,
    Facet,
    Lookup,
    UnionWith,
}

impl<'p> PipelineCx<'p> {
    /// A context for the expressions and filters of a stage.
    pub(crate) fn lang(&self) -> ParseCx<'p> {
        ParseCx::with_let(self.lets).collated(self.collation).noting(self.metas)
    }
}

/// Returns true for an empty specification, which `$indexStats: {}` and others require.
fn is_empty_object(spec: Value<'_>) -> bool {
    spec.as_doc().is_some_and(|doc: Doc<'_>| doc.is_empty())
}
