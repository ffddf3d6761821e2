//! Pipeline stages: the table of rows, the parser of pipelines, the trait.
//!
//! A pipeline is parsed into immutable [`Stage`]s, checked for placement, then optimised and opened
//! over a source. One file a stage; the row in [`STAGES`] is the only place that knows its name.

mod add_fields;
mod count;
mod group;
mod limit;
mod map;
mod match_;
mod numbers;
mod pipeline;
mod prelude;
mod project;
mod refused;
mod replace_root;
mod skip;
mod sort;
mod sort_by_count;
mod unset;
mod unwind;

use nagi_bson::{DocWriter, Value};
use nagi_error::Result;
use nagi_lang::expr::{Deps, ParseCx};
use nagi_store::Namespace;

use crate::source::Source;

pub(crate) use match_::Match;
pub(crate) use pipeline::Pipeline;
pub(crate) use sort::Sort;

/// A parsed stage: immutable, shared between executions.
pub(crate) trait Stage: Send + Sync {
    /// A running instance that reads from `input`.
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source>;

    /// What the optimiser may know.
    fn traits(&self) -> Traits;

    /// Writes `{$name: specification}` as one field.
    fn explain(&self, out: &mut DocWriter<'_>);

    /// What the optimiser and the planner may look into.
    fn step(&self) -> Step<'_> {
        Step::Other
    }

    /// Adds the paths it reads; true if nothing else of its input can reach its output.
    fn needs(&self, _deps: &mut Deps) -> bool {
        false
    }

    /// Collections other than the pipeline's own that are read.
    fn foreign(&self, _visit: &mut dyn FnMut(&Namespace)) {}
}

/// What is true of a stage for all inputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// Documents leave in the order in which they came.
    pub(crate) keeps_order: bool,
    /// Documents leave as they came, or not at all.
    pub(crate) keeps_documents: bool,
    /// Reads all its input before it yields anything.
    pub(crate) blocking: bool,
}

impl Traits {
    pub(crate) const FILTER: Traits =
        Traits { keeps_order: true, keeps_documents: true, blocking: false };
    pub(crate) const MAP: Traits =
        Traits { keeps_order: true, keeps_documents: false, blocking: false };
    pub(crate) const BLOCKING: Traits =
        Traits { keeps_order: false, keeps_documents: false, blocking: true };
}

/// A stage the planner can take over.
pub(crate) enum Step<'s> {
    Match(&'s Match),
    Sort(&'s Sort),
    Limit(u64),
    Skip(u64),
    /// Yields documents of its own instead of reading its input ($indexStats, $documents).
    Begins(Begins),
    /// Writes to a collection: `$out`, `$merge`.
    Writes,
    Other,
}

/// What a first stage reads instead of the collection's documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    IndexStats,
    CollStats,
    Documents,
}

/// Where a stage may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Only as the first stage, and not inside `$facet` (40602, 40600).
    First,
    /// Only as the last stage, and not in inner pipelines (40601, 40600, 51047).
    Last,
    /// Anywhere but inside `$facet` (40600).
    NotInFacet,
}

/// A row of the table.
pub(crate) struct StageSpec {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) parse: fn(Value<'_>, &mut PipelineCx<'_>) -> Result<Box<dyn Stage>>,
}

/// Every stage that is known, sorted by name.
pub(crate) static STAGES: &[&StageSpec] = &[
    &add_fields::ADD_FIELDS,
    &refused::CHANGE_STREAM,
    &count::COUNT,
    &group::GROUP,
    &limit::LIMIT,
    &match_::MATCH,
    &project::PROJECT,
    &replace_root::REPLACE_ROOT,
    &replace_root::REPLACE_WITH,
    &refused::SEARCH,
    &refused::SEARCH_META,
    &add_fields::SET,
    &skip::SKIP,
    &sort::SORT,
    &sort_by_count::SORT_BY_COUNT,
    &unset::UNSET,
    &unwind::UNWIND,
    &refused::VECTOR_SEARCH,
];

/// The row for a stage's name.
pub(crate) fn stage_spec(name: &str) -> Option<&'static StageSpec> {
    let at = STAGES.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(STAGES[at])
}

/// The names of all stages, for coverage.
pub fn stage_names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().map(|row| row.name)
}

/// What parsing a pipeline knows.
pub(crate) struct PipelineCx<'p> {
    /// The database of the pipeline's collection.
    pub(crate) db: &'p str,
    /// Names of the variables in scope.
    pub(crate) lets: &'p [Box<str>],
    /// Pipelines around this one (`$lookup`, `$unionWith`, `$facet`).
    pub(crate) depth: u32,
    /// Whether blocking stages may write to disk.
    pub(crate) allow_disk_use: bool,
    /// The kind of pipeline around it, for placement errors.
    pub(crate) within: Within,
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
        ParseCx::with_let(self.lets)
    }
}
