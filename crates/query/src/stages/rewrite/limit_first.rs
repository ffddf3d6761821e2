//! Moves `$limit` and `$skip` before stages that derive one document from each input document.
//!
//!   [{$sort: {a: 1}}, {$project: {a: 1}}, {$limit: 3}]
//!   [{$sort: {a: 1}}, {$limit: 3}, {$project: {a: 1}}]
//!
//! So a sort becomes a top-k sort, and documents that are skipped are not computed first.

use super::{Stages, Step};

pub(super) fn apply(mut stages: Stages) -> Stages {
    for at in 1..stages.len() {
        if !matches!(stages[at].step(), Step::Limit(_) | Step::Skip(_)) {
            continue;
        }
        let before = stages[..at].iter().rev().take_while(|stage| stage.is_one_to_one()).count();
        stages[at - before..=at].rotate_right(1);
    }
    stages
}
