//! Combines a stage that unpacks buckets with a stage that gathers single values, so that no measurement is made.
//!
//!   [{$_internalUnpackBucket: ..}, {$match: {t: {$gt: d}}}, {$group: {_id: "$m", v: {$max: "$v"}}}]

use super::{Stages, Step};
use crate::stages::ByColumns;

pub(super) fn apply(mut stages: Stages) -> Stages {
    let mut at = 0;
    while at < stages.len() {
        if let Some(shape) = stages[at].unpacks().cloned() {
            let (filter, next) = match stages.get(at + 1).map(|stage| stage.step()) {
                Some(Step::Match(matching)) => (Some(matching.filter.clone()), at + 2),
                _ => (None, at + 1),
            };
            let by = ByColumns::new(shape, filter);
            let combined = by
                .zip(stages.get(next))
                .and_then(|(by, gathering)| gathering.over_columns(by, &stages[at..next]));
            if let Some(combined) = combined {
                stages.splice(at..=next, [combined]);
            }
        }
        at += 1;
    }
    stages
}
