//! Tells a stage which paths of its output later stages read, if it is cheaper without the others.
//!
//!   [{$_internalUnpackBucket: ..}, {$group: {_id: "$m", v: {$avg: "$v"}}}]      only the columns m and v are decoded

use super::Stages;
use crate::stages::paths::needed;

pub(super) fn apply(mut stages: Stages) -> Stages {
    for at in 0..stages.len() {
        if let Some(paths) = needed(&stages[at + 1..])
            && let Some(cheaper) = stages[at].only(&paths)
        {
            stages[at] = cheaper;
        }
    }
    stages
}
