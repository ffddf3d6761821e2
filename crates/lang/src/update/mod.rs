//! Updates of one document: by operators, by a replacement, or by a pipeline. Input and output are BSON bytes.
//!
//! ```text
//!   Update::parse --> tree of paths with changes --> apply(old document) --> new document
//! ```
//!
//! The operators are rows in `ops`. Their common parts are here, in `tree` and in `apply`: conflicting paths,
//! positional path components, array filters, the order of new fields, the immutable `_id`. The old document is
//! walked once together with the tree of paths, and the new document is written during the walk. An update is a no-op
//! if the new bytes equal the old ones.
//!
//! ```text
//!   {$set: {"a.b": 1}, $inc: {"a.c": 2}}
//!   Fields { a: Fields { b: Leaf Set 1,  c: Leaf Inc 2 } }
//! ```
//!
//! Invariants
//! - Existing fields keep their position, and `_id` comes first. New fields are appended in the order of their names;
//!   names that are numbers are ordered by value.
//! - On an error, the output is truncated to its previous length.
//!
//! This module does not know which documents to update or how they are stored. The caller generates ids and
//! timestamps.

mod apply;
mod array_filter;
mod check;
mod ops;
mod pipeline;
mod replace;
mod tree;
mod upsert;

use std::collections::{HashMap, HashSet};

use bumpalo::Bump;
use foldhash::fast::RandomState;
use nagi_bson::{Doc, Value, text};
use nagi_error::{Code, Result, bail};

use crate::expr::{ParseCx, Vars};
use crate::filter::{MatchCx, MatchInfo};
use crate::memory;

pub use check::check_id_names;
pub use pipeline::check_stages;
pub use upsert::upsert_supplied;

use array_filter::ArrayFilter;
use pipeline::Pipeline;
use replace::Replacement;
use tree::Node;

/// A parsed update.
#[derive(Debug)]
pub struct Update {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Operators(Operators),
    Replacement(Replacement),
    Pipeline(Pipeline),
}

/// An update by operators.
#[derive(Debug)]
pub(crate) struct Operators {
    root: Node,
    /// The array filters by identifier.
    filters: HashMap<Box<str>, ArrayFilter, RandomState>,
    /// True if a path has a positional `$`.
    positional: bool,
    /// True if the result may exceed the maximal nesting, so that its depth has to be checked.
    deep: bool,
}

/// The context of an update beside the document. It is created per document, so that the arena can be reset in
/// between.
#[derive(Clone, Copy)]
pub struct UpdateCx<'a> {
    pub vars: &'a Vars<'a>,
    pub arena: &'a Bump,
    /// The time of `$$NOW` and `$currentDate`, in milliseconds since 1970.
    pub now_ms: i64,
    /// Generates the values for `$currentDate` of type timestamp and for empty timestamps. Each call returns a new
    /// one.
    pub next_timestamp: &'a dyn Fn() -> u64,
    /// True if empty timestamps of a replacement stay empty (`bypassEmptyTsReplacement`).
    pub keep_empty_timestamps: bool,
}

impl<'a> UpdateCx<'a> {
    /// A context with the given time, in which empty timestamps are filled in.
    pub fn new(
        vars: &'a Vars<'a>,
        arena: &'a Bump,
        now_ms: i64,
        next_timestamp: &'a dyn Fn() -> u64,
    ) -> UpdateCx<'a> {
        UpdateCx { vars, arena, now_ms, next_timestamp, keep_empty_timestamps: false }
    }
}

/// The effect of an update on a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The new bytes equal the old ones, so nothing needs to be written.
    NoOp,
    Modified,
}

impl Update {
    /// Parses the field `u` of an update statement, with its `arrayFilters`.
    ///
    /// # Errors
    /// 9 for a value that is not an update, 40 for conflicting paths, and the errors of each operator.
    pub fn parse(
        spec: Value<'_>,
        array_filters: &[Doc<'_>],
        cx: &mut ParseCx<'_>,
    ) -> Result<Update> {
        let kind = match spec {
            Value::Doc(doc) if doc.first().is_some_and(|e| e.name().starts_with('$')) => {
                Kind::Operators(Operators::parse(doc, array_filters, cx)?)
            }
            Value::Doc(_) | Value::Array(_) if !array_filters.is_empty() => {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "arrayFilters may not be specified for replacement-style or pipeline-style \
                     updates"
                );
            }
            Value::Doc(doc) => Kind::Replacement(Replacement::new(doc)),
            Value::Array(stages) => Kind::Pipeline(Pipeline::parse(stages, cx)?),
            _ => {
                bail!(Code::FAILED_TO_PARSE, "Update argument must be either an object or an array")
            }
        };
        Ok(Update { kind })
    }

    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    /// Returns true if the update needs the array position by which the filter matched.
    pub fn needs_position(&self) -> bool {
        matches!(&self.kind, Kind::Operators(operators) if operators.positional)
    }

    /// Appends the updated form of `doc` to `out`, or nothing if the document does not change. As in MongoDB, a
    /// replacement without `_id` and some operators count as a change even if the bytes stay the same.
    ///
    /// # Errors
    /// 66 for a change of `_id`, 28 for a path through a scalar, 17419 for a result that is too large, and the errors
    /// of each operator. `out` is then unchanged.
    pub fn apply<'a>(
        &'a self,
        doc: Doc<'a>,
        info: MatchInfo,
        cx: &UpdateCx<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Applied> {
        let start = out.len();
        let outcome = match &self.kind {
            Kind::Operators(operators) => operators.apply(doc, info, cx, out),
            Kind::Replacement(replacement) => {
                replacement.apply(doc, cx, out).map(|()| replacement.id().is_missing())
            }
            Kind::Pipeline(pipeline) => pipeline.apply(doc, cx, out).map(|()| false),
        };
        let counts = outcome.and_then(|counts| check::size(out.len() - start).map(|()| counts));
        if !matches!(counts, Ok(true)) && (counts.is_err() || out[start..] == *doc.as_bytes()) {
            out.truncate(start);
            return counts.map(|_| Applied::NoOp);
        }
        Ok(Applied::Modified)
    }
}

impl<'a> UpdateCx<'a> {
    /// The context for filters.
    pub(crate) fn matching(&self) -> MatchCx<'a> {
        MatchCx::new(self.vars, self.arena, self.now_ms)
    }
}

impl Operators {
    fn parse(spec: Doc<'_>, filters: &[Doc<'_>], cx: &mut ParseCx<'_>) -> Result<Operators> {
        let filters = array_filter::parse(filters, cx)?;
        let mut operators =
            Operators { root: Node::empty(), filters, positional: false, deep: false };
        for modifier in spec {
            let (name, operand) = (modifier.name(), modifier.value());
            let Some(operator) = ops::find(name) else {
                if name == "$v" {
                    bail!(
                        Code::FAILED_TO_PARSE,
                        "The $v update field is only recognized internally"
                    );
                }
                bail!(
                    Code::FAILED_TO_PARSE,
                    "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style \
                     update specified as an array"
                );
            };
            let Value::Doc(fields) = operand else {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "Modifiers operate on fields but we found type {} instead. For example: \
                     {{$mod: {{<field>: ...}}}} not {{{name}: {}}}",
                    operand.kind().name(),
                    text::value_text(operand)
                );
            };
            for field in fields {
                memory::check()?;
                (operator.parse)(&mut operators, field, cx)?;
            }
        }
        operators.check_filters_used(spec)?;
        Ok(operators)
    }

    fn check_filters_used(&self, spec: Doc<'_>) -> Result<()> {
        let mut used = HashSet::new();
        self.root.identifiers(&mut used);
        // Sorted, so that the error always names the same one of several unused filters.
        let mut unused: Vec<&str> = self.filters.keys().map(|name| &**name).collect();
        unused.retain(|name| !used.contains(name));
        unused.sort_unstable();
        if let Some(name) = unused.first() {
            bail!(
                Code::FAILED_TO_PARSE,
                "The array filter for identifier '{name}' was not used in the update {spec}"
            );
        }
        Ok(())
    }
}
