//! Properties of stages that are looked up by name, before or without parsing them.

use nagi_bson::{Array, Doc, Value};

/// The treatment of a value in a query shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The value stays.
    Same,
    /// The value is replaced by its type.
    Literal,
    Switch,
    Filter,
    Sort,
    Projection,
    /// An expression, or a document of expressions.
    Expression,
    Pipeline,
    /// A document with a pipeline under each name.
    Pipelines,
    /// A document in which these fields are special; the others are expressions.
    Fields(&'static [Part]),
}

/// Where the value of a stage has accumulators, or window functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accumulates {
    Nowhere,
    /// In each field but `_id`.
    Fields,
    /// In each field of `output`.
    Outputs,
    /// Window functions in each field of `output`.
    Windows,
}

/// A field and its treatment.
pub(crate) type Part = (&'static str, How);

/// The target of an `aggregate` that begins with a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    Collection,
    /// `{aggregate: 1}`: the stage yields documents of its own.
    Database,
    /// The stage's argument determines it.
    Either,
}

/// The place of a stage in the pipeline of a change stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InChangeStream {
    Refused,
    /// It begins the pipeline.
    Begins,
    Allowed,
    /// It ends the pipeline, and is in no other.
    Ends,
}

/// The name of the collection of `aggregate: 1`, which no collection has.
pub const COLLECTIONLESS: &str = "aggregate.collectionless";

/// True if a pipeline opens a change stream.
pub fn opens_change_stream(pipeline: Array<'_>) -> bool {
    let first = pipeline.iter().next().and_then(|stage| stage.as_doc()?.first());
    let facts = first.map(|stage| stage_facts(stage.name()));
    facts.is_some_and(|facts| facts.in_change_stream == InChangeStream::Begins)
}

/// The places in which a stage is allowed, in addition to its position in a pipeline.
#[derive(Debug, Clone, Copy)]
pub struct StageFacts {
    /// Allowed in a transaction, and with a snapshot read concern.
    pub in_transaction: bool,
    /// Part of version 1 of the stable API.
    pub in_api: bool,
    /// Allowed in a view.
    pub in_view: bool,
    /// Query settings may reject pipelines that begin with it, because it does not show the server itself.
    pub rejectable: bool,
    pub in_change_stream: InChangeStream,
    /// It writes its input.
    pub writes: bool,
    pub runs_on: RunsOn,
    /// As the first stage on a time series, it is one on the collection of its buckets.
    pub of_buckets: bool,
}

impl StageFacts {
    /// The properties of most stages.
    pub const ORDINARY: StageFacts = StageFacts {
        in_transaction: true,
        in_api: true,
        in_view: true,
        rejectable: true,
        in_change_stream: InChangeStream::Refused,
        writes: false,
        runs_on: RunsOn::Collection,
        of_buckets: false,
    };

    /// The properties of stages that may follow `$changeStream`.
    pub const OF_CHANGE_STREAM: StageFacts =
        StageFacts { in_change_stream: InChangeStream::Allowed, ..StageFacts::ORDINARY };

    /// What most stages that show the server itself have in common.
    pub const OF_SERVER: StageFacts = StageFacts {
        in_transaction: false,
        in_api: false,
        rejectable: false,
        ..StageFacts::ORDINARY
    };
}

/// Stages that the server answers and that have no row in the table of stages, because they exist with test commands
/// only.
const OF_SERVER_ONLY: &[(&str, StageFacts)] = &[("$listLocalCursors", StageFacts::OF_SERVER)];

/// MongoDB's stages that this server does not implement, as far as their names matter.
const ABSENT: &[(&str, StageFacts)] = &[
    (
        "$backupCursor",
        StageFacts { in_api: false, runs_on: RunsOn::Either, ..StageFacts::ORDINARY },
    ),
    (
        "$backupCursorExtend",
        StageFacts { in_api: false, runs_on: RunsOn::Either, ..StageFacts::ORDINARY },
    ),
    ("$listCatalog", StageFacts { in_api: false, rejectable: false, ..StageFacts::ORDINARY }),
    ("$listClusterCatalog", StageFacts { in_api: false, ..StageFacts::ORDINARY }),
    (
        "$listSampledQueries",
        StageFacts { in_api: false, rejectable: false, ..StageFacts::ORDINARY },
    ),
    ("$operationMetrics", StageFacts { rejectable: false, ..StageFacts::ORDINARY }),
];

/// The properties of the stage of this name; those of an ordinary stage if the name is unknown.
pub fn stage_facts(name: &str) -> StageFacts {
    let without_row = || {
        let mut all = OF_SERVER_ONLY.iter().chain(ABSENT);
        all.find(|(other, _)| *other == name).map(|(_, facts)| *facts)
    };
    let facts = super::stage_spec(name).map(|row| row.facts).or_else(without_row);
    facts.unwrap_or(StageFacts::ORDINARY)
}

/// True if the pipelines inside the stage's value read the documents that the stage gets, as those of `$facet` do.
/// Others read a collection of their own.
pub fn feeds_pipelines(name: &str) -> bool {
    super::stage_spec(name).is_some_and(|row| matches!(row.shape, How::Pipelines))
}

/// The pipelines inside a stage's value, according to its row.
pub fn inner_pipelines<'a>(name: &str, value: Value<'a>) -> Vec<Array<'a>> {
    let Some(row) = super::stage_spec(name) else { return Vec::new() };
    let spec = value.as_doc().unwrap_or(Doc::EMPTY);
    match row.shape {
        How::Pipelines => spec.iter().filter_map(|one| one.value().as_array()).collect(),
        How::Fields(parts) => {
            let inner = parts.iter().filter(|(_, how)| *how == How::Pipeline);
            inner.filter_map(|(field, _)| spec.get(field).as_array()).collect()
        }
        _ => Vec::new(),
    }
}
