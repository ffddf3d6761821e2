//! Combines a stage with a sort and a limit after it, if the stage can find the first documents without producing all.
//!
//!   [{$_internalUnpackBucket: ..}, {$match: ..}, {$sort: {t: -1}}, {$limit: 1}]
//!
//! The limit stays.

use super::{Stages, Step};

pub(super) fn apply(mut stages: Stages) -> Stages {
    let mut at = 0;
    while at < stages.len() {
        let step = |at: usize| stages.get(at).map(|stage| stage.step());
        let (filter, sort) = match step(at + 1) {
            Some(Step::Match(matching)) => (Some(matching.filter.clone()), at + 2),
            _ => (None, at + 1),
        };
        let combined = match (step(sort), step(sort + 1)) {
            (Some(Step::Sort(order)), Some(Step::Limit(count))) => {
                stages[at].first_of(filter, order, count)
            }
            _ => None,
        };
        if let Some(combined) = combined {
            stages.splice(at..=sort, [combined]);
        }
        at += 1;
    }
    stages
}
