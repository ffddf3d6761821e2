//! Tells a stage that the next one needs only the smallest and largest values of some fields.
//!
//!   [{$_internalUnpackBucket: ..}, {$group: {_id: "$m", v: {$max: "$v"}}}]      the buckets' ranges have the values

use super::Stages;

pub(super) fn apply(mut stages: Stages) -> Stages {
    for at in 1..stages.len() {
        if let Some((same, extremes)) = stages[at].extremes()
            && let Some(cheaper) = stages[at - 1].only_extremes(same, extremes)
        {
            stages[at - 1] = cheaper;
        }
    }
    stages
}
