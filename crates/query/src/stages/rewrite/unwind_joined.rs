//! Combines a `$lookup` with the `$unwind` of its result: joined documents are passed on one by one.
//!
//!   [{$lookup: {from: "c", ..., as: "x"}}, {$unwind: "$x"}]
//!
//! No array is built, so there may be more joined documents than one document can hold.

use super::Stages;

pub(super) fn apply(stages: Stages) -> Stages {
    let mut out = Stages::with_capacity(stages.len());
    for stage in stages {
        let before = out.last().zip(stage.unwinds());
        match before.and_then(|(before, by)| before.unwound(by)) {
            Some(both) => {
                out.pop();
                out.push(both);
            }
            None => out.push(stage),
        }
    }
    out
}
