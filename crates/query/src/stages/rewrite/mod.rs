//! Rewriting rules: the same pipeline in a form that does less. One rule a file, applied in this order.
//!
//!   [{$project: {a: 1}}, {$match: {a: 5}}, {$limit: 3}, {$limit: 2}]
//!   [{$match: {a: 5}}, {$limit: 2}, {$project: {a: 1}}]
//!
//! What stands first afterwards is what a plan takes over (`Pipeline::head`), so conditions, orders and
//! limits reach the indexes. A rule may rely on the traits of stages only, never on their names, and must
//! not change what comes out; an error of a document that is not asked for any more may be gone.

mod join;
mod limit_first;
mod match_first;
mod unwind_joined;

use std::sync::Arc;

use super::{Match, Stage, Step};

type Stages = Vec<Arc<dyn Stage>>;

/// The rules, in the order in which they are applied.
const RULES: &[fn(Stages) -> Stages] =
    &[match_first::apply, limit_first::apply, join::apply, unwind_joined::apply];

/// The pipeline after all rules.
pub(super) fn rewrite(stages: Stages) -> Stages {
    RULES.iter().fold(stages, |stages, rule| rule(stages))
}
