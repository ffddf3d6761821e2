//! Combines a stage that unpacks buckets with a stage that gathers single values, so that no measurement is made.
//!
//!   [{$_internalUnpackBucket: ..}, {$match: {t: {$gt: d}}}, {$group: {_id: "$m", v: {$max: "$v"}}}]

use super::{Stages, unpacked_range};

pub(super) fn apply(mut stages: Stages) -> Stages {
    for at in 0..stages.len() {
        let Some((by, next)) = unpacked_range(&stages, at) else { continue };
        let gathering = stages.get(next);
        if let Some(combined) = gathering.and_then(|it| it.over_columns(by, &stages[at..next])) {
            stages.splice(at..=next, [combined]);
        }
    }
    stages
}
