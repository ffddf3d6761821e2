//! Merges adjacent stages of one kind: conditions, limits, skips.
//!
//!   [{$match: {a: 1}}, {$match: {b: 2}}, {$limit: 5}, {$limit: 3}]
//!   [{$match: {$and: [{a: 1}, {b: 2}]}}, {$limit: 3}]

use std::sync::Arc;

use nagi_lang::filter::Filter;

use super::{Match, Stages, Step};
use crate::stages::{limit::Limit, skip::Skip};

pub(super) fn apply(stages: Stages) -> Stages {
    let mut out = Stages::with_capacity(stages.len());
    for stage in stages {
        let joined = out.last().and_then(|before| match (before.step(), stage.step()) {
            (Step::Limit(a), Step::Limit(b)) => Some(Limit::boxed(a.min(b))),
            // Their sum must not overflow; otherwise they stay two stages.
            (Step::Skip(a), Step::Skip(b)) => {
                a.checked_add(b).filter(|sum| i64::try_from(*sum).is_ok()).map(Skip::boxed)
            }
            (Step::Match(a), Step::Match(b)) => both(a, b),
            _ => None,
        });
        match joined {
            Some(joined) => {
                out.pop();
                out.push(joined);
            }
            None => out.push(stage),
        }
    }
    out
}

/// Both conditions as one stage. A text search has its own plan, so it stays separate.
fn both(a: &Match, b: &Match) -> Option<Arc<dyn super::Stage>> {
    if a.filter.text().is_some() || b.filter.text().is_some() {
        return None;
    }
    let filter = Filter::And(vec![(*a.filter).clone(), (*b.filter).clone()]).normalize();
    Some(Arc::new(Match::part(filter)))
}
