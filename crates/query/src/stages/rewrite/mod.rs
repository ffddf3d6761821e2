//! Rewriting rules: transform a pipeline into an equivalent cheaper one. There is one rule per file; they are
//! applied in this order.
//!
//!   [{$project: {a: 1}}, {$match: {a: 5}}, {$limit: 3}, {$limit: 2}]
//!   [{$match: {a: 5}}, {$limit: 2}, {$project: {a: 1}}]
//!
//! A plan takes over the leading stages of the result (`Pipeline::head`), so conditions, orders and limits reach
//! the indexes. A rule may use only the traits of stages, never their names, and must not change the result. An
//! error of a document that is no longer needed may disappear.

mod by_columns;
mod ends;
mod first_of;
mod implied;
mod join;
mod limit_first;
mod match_first;
mod only;
mod unwind_joined;

use std::sync::Arc;

use super::{ByColumns, Match, Stage, Step};

type Stages = Vec<Arc<dyn Stage>>;

/// The rules, in the order in which they are applied.
const RULES: &[fn(Stages) -> Stages] = &[
    match_first::apply,
    implied::apply,
    limit_first::apply,
    join::apply,
    unwind_joined::apply,
    only::apply,
    by_columns::apply,
    ends::apply,
    first_of::apply,
];

/// The pipeline after all rules.
pub(super) fn rewrite(stages: Stages) -> Stages {
    RULES.iter().fold(stages, |stages, rule| rule(stages))
}

/// If the stage at `at` unpacks buckets: which measurements stay after a condition on them, if columns can answer it,
/// and the position after it.
fn unpacked_range(stages: &[Arc<dyn Stage>], at: usize) -> Option<(ByColumns, usize)> {
    let shape = stages.get(at)?.unpacks()?.clone();
    let (filter, next) = match stages.get(at + 1).map(|stage| stage.step()) {
        Some(Step::Match(matching)) => (Some(matching.filter.clone()), at + 2),
        _ => (None, at + 1),
    };
    Some((ByColumns::new(shape, filter)?, next))
}
