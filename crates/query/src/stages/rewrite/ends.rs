//! Tells a stage that unpacks buckets that of each bucket only the earliest or the latest measurement matters.
//!
//!   [{$_internalUnpackBucket: ..}, {$sort: {m: 1, t: -1}}, {$group: {_id: "$m", v: {$first: "$v"}}}]
//!
//! The sort stays, over one measurement of each bucket.

use super::{Stages, Step, unpacked_range};
use crate::stages::Ends;

pub(super) fn apply(mut stages: Stages) -> Stages {
    for at in 0..stages.len() {
        let Some((by, sort)) = unpacked_range(&stages, at) else { continue };
        let (Some(Step::Sort(order)), Some((key, last))) = (
            stages.get(sort).map(|stage| stage.step()),
            stages.get(sort + 1).and_then(|stage| stage.takes_one()),
        ) else {
            continue;
        };
        let Some((time, metas)) = order.spec.parts().split_last() else { continue };
        let of_meta = |path: &str| path.split('.').next() == by.meta_field();
        let by_time = time.meta.is_none() && time.path.as_str() == by.time_field();
        let same_in_bucket =
            metas.iter().all(|part| part.meta.is_none() && of_meta(part.path.as_str()))
                && key.iter().all(|path| of_meta(path));
        if by_time && same_in_bucket {
            let wanted = Ends { latest: time.descending != last, last };
            if let Some(ends) = stages[at].only_ends(by, wanted, &stages[at..sort]) {
                stages.splice(at..sort, [ends]);
            }
        }
    }
    stages
}
