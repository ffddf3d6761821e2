//! Which candidate: a short trial decides.
//!
//! Each candidate runs with the same small budget of entries it may look at. The first that delivers
//! a first batch (101 results, or all there are) wins; if none does, the budget is quadrupled and they
//! begin again. What the winner returned is kept and returned first. So the trial costs at most about
//! twice what the best candidate needs for its first batch, times the number of candidates.

use std::{collections::VecDeque, sync::Arc};

use nagi_error::Result;
use nagi_lang::expr::Vars;

use super::{
    Intervals,
    access::Assignment,
    build::FindSpec,
    node::{Node, Plan},
    open::{Opener, open},
};
use crate::{
    limits::TRIAL_RESULTS,
    source::{Cx, Returned, Source, Started},
};

/// Entries each candidate may look at in the first round.
const FIRST_BUDGET: u64 = 256;
/// Rounds; with four times the budget each, the last looks at 65,536 entries.
const ROUNDS_MAX: u32 = 5;

/// Orders assignments: fewer values first.
pub(crate) fn narrowness(assignment: &Assignment) -> u32 {
    let width = |set: &Intervals| match set {
        set if set.is_empty() => 0,
        set if set.is_one_point() => 1,
        set if set.is_points() => 2,
        set if set.is_all() => 5,
        _ => 3,
    };
    let first = width(&assignment.bounds[0]) * 64;
    let rest: u32 = assignment.bounds[1..].iter().map(width).sum();
    (first + rest * 4).saturating_sub(assignment.bound_fields.min(8) as u32)
}

/// How a trial ended.
struct Trial {
    source: Box<dyn Source>,
    /// What it returned.
    returned: VecDeque<Returned>,
    results: u64,
    /// Entries looked at.
    spent: u64,
    done: bool,
}

pub(crate) fn choose(candidates: Vec<Node>, spec: &FindSpec<'_>, cx: &mut Cx<'_>) -> Result<Plan> {
    let mut candidates: Vec<Arc<Node>> = candidates.into_iter().map(Arc::new).collect();
    if candidates.len() == 1 {
        return Ok(Plan { root: candidates.remove(0), rejected: Vec::new(), started: None });
    }
    let wanted = spec.limit.map_or(TRIAL_RESULTS, |limit| limit.clamp(1, TRIAL_RESULTS));
    let mut budget = FIRST_BUDGET;
    let mut best = 0;
    let mut started = None;
    for round in 0..ROUNDS_MAX {
        let mut trials = Vec::with_capacity(candidates.len());
        for node in &candidates {
            trials.push(run(node, wanted, budget, cx)?);
        }
        best = rank(&candidates, &trials);
        if trials[best].done {
            let trial = trials.swap_remove(best);
            started = Some(Started::new(trial.returned, trial.source));
            break;
        }
        if round + 1 == ROUNDS_MAX {
            break;
        }
        budget *= 4;
    }
    let root = candidates.remove(best);
    Ok(Plan { root, rejected: candidates, started })
}

/// The position of the best trial: done before not done, then cheap, then without blocking sort.
fn rank(candidates: &[Arc<Node>], trials: &[Trial]) -> usize {
    let cost = |at: &usize| {
        let trial = &trials[*at];
        let node = &candidates[*at];
        let per_result = trial.spent.saturating_mul(1000) / trial.results.max(1);
        (
            !trial.done,
            if trial.done { trial.spent } else { per_result },
            node.has_blocking_sort(),
            fetches(node),
            *at,
        )
    };
    (0..candidates.len()).min_by_key(cost).unwrap_or(0)
}

/// Whether documents are read beside index keys.
fn fetches(node: &Node) -> bool {
    matches!(node, Node::Fetch { .. } | Node::CollScan { .. })
        || node.inputs().into_iter().any(fetches)
}

fn run(node: &Arc<Node>, wanted: u64, budget: u64, cx: &mut Cx<'_>) -> Result<Trial> {
    let mut source = open(node, &Opener::default());
    let before = cx.env.spent();
    cx.env.set_budget(Some(budget));
    let mut results = 0;
    let mut done = false;
    let mut returned = VecDeque::new();
    let vars: &Vars<'_> = cx.vars;
    let mut inner = Cx { store: cx.store, reader: cx.reader, vars, env: cx.env };
    while results < wanted {
        match source.advance(&mut inner) {
            Ok(true) => {
                results += 1;
                returned.push_back(Returned::of(&*source));
            }
            Ok(false) => {
                done = true;
                break;
            }
            Err(_) if cx.env.is_exhausted() => break,
            Err(error) => {
                cx.env.set_budget(None);
                return Err(error);
            }
        }
    }
    done |= results >= wanted;
    cx.env.set_budget(None);
    Ok(Trial { source, returned, results, spent: cx.env.spent() - before, done })
}
