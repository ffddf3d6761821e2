//! Facts of stages that are asked by their names, before or without parsing them.

use nagi_bson::{Array, Doc, Value};

/// What becomes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It stays.
    Same,
    /// Its type.
    Literal,
    Switch,
    Filter,
    Sort,
    Projection,
    /// An expression, or a document of expressions.
    Expression,
    Pipeline,
    /// Documents by the names of pipelines.
    Pipelines,
    /// A document of which these fields are special; the others are expressions.
    Fields(&'static [Part]),
}

/// A field and what becomes of it.
pub(crate) type Part = (&'static str, How);

/// What an `aggregate` that begins with a stage runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    Collection,
    /// `{aggregate: 1}`: it makes its documents itself.
    Database,
    /// The stage itself says which.
    Either,
}

/// Where a stage is allowed, besides its place in a pipeline.
#[derive(Debug, Clone, Copy)]
pub struct StageFacts {
    /// Runs in a transaction, and with a snapshot read concern.
    pub in_transaction: bool,
    /// Belongs to version 1 of the stable API.
    pub in_api: bool,
    /// A view may have it.
    pub in_view: bool,
    /// Query settings may reject pipelines that begin with it: it does not show the server itself.
    pub rejectable: bool,
    /// Writes what comes to it.
    pub writes: bool,
    pub runs_on: RunsOn,
}

impl StageFacts {
    /// What most stages have in common.
    pub const ORDINARY: StageFacts = StageFacts {
        in_transaction: true,
        in_api: true,
        in_view: true,
        rejectable: true,
        writes: false,
        runs_on: RunsOn::Collection,
    };
}

/// MongoDB's stages that this server does not have, as far as their names matter.
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
        "$listLocalCursors",
        StageFacts {
            in_transaction: false,
            in_api: false,
            rejectable: false,
            ..StageFacts::ORDINARY
        },
    ),
    (
        "$listSampledQueries",
        StageFacts { in_api: false, rejectable: false, ..StageFacts::ORDINARY },
    ),
    ("$operationMetrics", StageFacts { rejectable: false, ..StageFacts::ORDINARY }),
    (
        "$queryStats",
        StageFacts {
            in_transaction: false,
            in_api: false,
            rejectable: false,
            runs_on: RunsOn::Either,
            ..StageFacts::ORDINARY
        },
    ),
];

/// The facts of the stage of this name; those of an ordinary one if nothing is known of it.
pub fn stage_facts(name: &str) -> StageFacts {
    let absent = || ABSENT.iter().find(|(absent, _)| *absent == name).map(|(_, facts)| *facts);
    super::stage_spec(name).map(|row| row.facts).or_else(absent).unwrap_or(StageFacts::ORDINARY)
}

/// The pipelines within a stage's value, by its row.
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
