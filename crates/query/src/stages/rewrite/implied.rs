//! Puts a `$match` before a stage of whose input a condition on its output implies something.
//!
//!   [{$_internalUnpackBucket: ..}, {$match: {t: {$gt: d}}}]
//!   [{$match: {"control.max.t": {$gt: d}}}, {$_internalUnpackBucket: ..}, {$match: {t: {$gt: d}}}]
//!
//! The condition itself stays: the implied one only keeps input away that has no matching output, and an index may
//! serve it. The stage may leave out what does not match, if that costs less than its output (measurements of other
//! times).

use std::sync::Arc;

use super::{Match, Stages, Step};

pub(super) fn apply(stages: Stages) -> Stages {
    let mut out = Stages::with_capacity(stages.len());
    for (at, stage) in stages.iter().enumerate() {
        let mut narrowed = None;
        if let Some(Step::Match(after)) = stages.get(at + 1).map(|next| next.step()) {
            if let Some(implied) = stage.implied(&after.filter) {
                out.push(Arc::new(Match::part(implied.normalize())));
            }
            narrowed = stage.narrowed(&after.filter);
        }
        out.push(narrowed.unwrap_or_else(|| stage.clone()));
    }
    out
}
