//! Choosing between candidate plans: the plan cache first, otherwise a short trial.
//!
//! A cost model needs correct statistics; a trial needs none. All candidates run on the real data, one after
//! another, each with the same budget of index entries and records that it may examine:
//!
//! ```text
//!   budget  256   plan A: 3 results    plan B: 0 results   none has a first batch: budget x 4
//!   budget 1024   plan A: 101 results  plan B: 7 results   A wins; its 101 results are returned first
//! ```
//!
//! - A candidate is done when it has delivered a first batch (101 results, or all there are). The cheapest done
//!   candidate wins. If none is done, the budget is quadrupled and all start again; after five rounds the best
//!   ratio of results to entries wins. A trial thus costs about twice what the best candidate needs for its first
//!   batch, times the number of candidates.
//! - The winner is stored in the plan cache under the query's shape, with the work it needed. A cached choice runs
//!   alone, with ten times that work as its budget. If it exceeds the budget, a new trial decides: the data may
//!   have changed.
//! - Results that the winner produced during the trial are not computed again.
//!
//! Called by `plan::plan` for every query with more than one candidate. Why trials: docs/decisions/005; why the
//! cache stores a choice and not a plan: docs/decisions/032.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use nagi_bson::{ArrayBuf, DocBuf};
use nagi_error::Result;
use nagi_lang::{collation, expr::Vars};
use nagi_store::{Collection, Index};

use super::{
    access::Assignment,
    build::FindSpec,
    cache::{self, Hash, Origin, PlanCache},
    describe, intersect,
    node::{Choice, Node, Plan, Tried},
    open::{Opener, open},
};
use crate::access::Intervals;
use crate::{
    encrypted::has_secrets,
    limits::TRIAL_RESULTS,
    source::{Cx, ExecutionStats, Returned, Source, Started, sum_stats},
};

/// Entries that each candidate may examine in the first round; the minimal budget of a cached choice.
const FIRST_BUDGET: u64 = 256;
/// Limit of rounds. The budget is quadrupled in each, so in the last a candidate examines 65,536 entries.
const ROUNDS_MAX: u32 = 5;

/// A candidate plan, and an id that distinguishes it from the others for any query of the same shape.
pub(crate) struct Candidate {
    pub(crate) node: Node,
    pub(crate) id: u64,
}

impl Candidate {
    /// A plan over one index.
    pub(super) fn index(index: &Index, node: Node) -> Candidate {
        let mut hash = Hash::new();
        identify(index, &mut hash);
        Candidate { node, id: hash.finish() }
    }

    /// A plan that intersects several indexes.
    pub(super) fn intersection<'n>(
        indexes: impl Iterator<Item = &'n Arc<Index>>,
        node: Node,
    ) -> Candidate {
        let mut hash = Hash::from(2);
        indexes.for_each(|index| identify(index, &mut hash));
        Candidate { node, id: hash.finish() }
    }

    /// A plan over several indexes, or over none.
    pub(super) fn union<'n>(
        indexes: impl Iterator<Item = &'n Arc<Index>>,
        node: Node,
    ) -> Candidate {
        let mut hash = Hash::from(1);
        indexes.for_each(|index| identify(index, &mut hash));
        Candidate { node, id: hash.finish() }
    }
}

fn identify(index: &Index, hash: &mut Hash) {
    hash.text(index.name());
    if let Some(path) = index.spec.path_field().and_then(|field| field.path) {
        hash.text(path);
    }
}

/// The order of assignments: fewer values first.
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

/// The state of a candidate after its trial run.
struct Trial {
    source: Box<dyn Source>,
    /// The results it returned.
    returned: VecDeque<Returned>,
    results: u64,
    /// Entries examined.
    spent: u64,
    done: bool,
}

impl Trial {
    fn started(self) -> Started {
        Started::new(self.returned, self.source)
    }
}

pub(crate) fn choose(
    candidates: Vec<Candidate>,
    (spec, collection): (&FindSpec<'_>, &Collection),
    choice: Choice,
    cx: &mut Cx<'_>,
) -> Result<Plan> {
    let (ids, mut nodes): (Vec<u64>, Vec<Arc<Node>>) =
        candidates.into_iter().map(|candidate| (candidate.id, Arc::new(candidate.node))).unzip();
    if nodes.len() == 1 {
        return Ok(Plan { choice, ..Plan::of(nodes.remove(0)) });
    }
    let wanted = spec.limit.map_or(TRIAL_RESULTS, |limit| limit.clamp(1, TRIAL_RESULTS));
    let cache = collection.version_annotations.get_or_make::<PlanCache>();
    let entry = cache.get(choice.shape.key).filter(|entry| entry.is_active);
    let mut choice = choice;
    if cx.env.is_explaining() {
        choice.cached = entry.map(|entry| entry.choice);
        return tried(nodes, &ids, wanted, choice, cx).map(|(plan, _)| plan);
    }
    let metrics = cx.store.annotations().get_or_make::<crate::figures::QueryMetrics>();
    let counter = if entry.is_some() { &metrics.hits } else { &metrics.misses };
    counter.fetch_add(1, Relaxed);
    if let Some(entry) = entry {
        if let Some(at) = ids.iter().position(|id| *id == entry.choice) {
            let budget = cache::works_max(&entry, FIRST_BUDGET);
            let trial = run(&nodes[at], wanted, budget, Opener::default(), cx)?;
            if trial.done {
                choice.from_cache = true;
                let started = Some(trial.started());
                return Ok(Plan { choice, started, ..Plan::of(nodes.swap_remove(at)) });
            }
            choice.replanned = Some((entry.works, trial.spent));
        }
        cache.deactivate(choice.shape.key);
        metrics.replanned.fetch_add(1, Relaxed);
    }
    let (plan, decided) = tried(nodes, &ids, wanted, choice, cx)?;
    if let Some((id, works)) = decided {
        let store = cx.store;
        let shape = plan.choice.shape;
        let now_ms = cx.env.now_ms();
        cache.keep(shape, id, works, store, &mut || origin(spec, &plan, now_ms));
    }
    Ok(plan)
}

/// Runs the trial of all candidates. Returns the plan, and the winner's id and works if it completed a first batch.
fn tried(
    mut nodes: Vec<Arc<Node>>,
    ids: &[u64],
    wanted: u64,
    mut choice: Choice,
    cx: &mut Cx<'_>,
) -> Result<(Plan, Option<(u64, u64)>)> {
    let opener = Opener { timed: cx.env.is_explaining(), ..Opener::SHOWN };
    let mut budget = FIRST_BUDGET;
    let mut round = 1;
    let (best, mut trials) = loop {
        let mut trials = Vec::with_capacity(nodes.len());
        for node in &nodes {
            trials.push(run(node, wanted, budget, opener, cx)?);
        }
        let best = rank(&nodes, &mut trials);
        if trials[best].done || round == ROUNDS_MAX {
            break (best, trials);
        }
        budget *= 4;
        round += 1;
    };
    choice.ids = ids.to_vec();
    let id = choice.ids.remove(best);
    choice.ids.insert(0, id);
    choice.tried = nodes.iter().zip(&mut trials).map(|(node, trial)| report(node, trial)).collect();
    let first = choice.tried.remove(best);
    choice.tried.insert(0, first);
    let trial = trials.swap_remove(best);
    let decided = trial.done.then_some((id, trial.spent));
    let started = trial.done.then(|| trial.started());
    let root = nodes.remove(best);
    Ok((Plan { root, rejected: nodes, started, choice }, decided))
}

/// The counters of a trial run, for explain and `$planCacheStats`.
fn report(node: &Node, trial: &mut Trial) -> Tried {
    let mut stats = ExecutionStats::default();
    sum_stats(&mut *trial.source, &mut stats);
    Tried {
        nanos: trial.source.stats().nanos,
        results: trial.results,
        works: trial.spent,
        keys_examined: stats.keys_examined,
        docs_examined: stats.docs_examined,
        stages: DocBuf::build(|out| describe::write_node(node, Some(&mut *trial.source), out)),
    }
}

/// The query and its trial, as the cache stores them. Nothing is stored of a query with tags or tokens: a reader of
/// the cache could find values by them.
fn origin(spec: &FindSpec<'_>, plan: &Plan, created_ms: i64) -> Origin {
    let query = DocBuf::build(|out| {
        out.put("query", &spec.filter.to_doc());
        out.doc("sort", |out| {
            for part in spec.sort.iter().flat_map(|sort| sort.parts()) {
                out.put(part.path.as_str(), if part.descending { -1 } else { 1 });
            }
        });
        match &spec.projection {
            Some(projection) => out.put("projection", projection.text()),
            None => out.put("projection", nagi_bson::Doc::EMPTY),
        }
        let order = spec.sort.as_ref().and_then(|sort| sort.collation());
        collation::put(order, "collation", out);
    });
    let filtered = plan.choice.filtered;
    if has_secrets(query.as_doc()) {
        return Origin {
            query: DocBuf::new(),
            plan: DocBuf::new(),
            trials: ArrayBuf::build(|_| {}),
            created_ms,
            filtered,
            is_hidden: true,
        };
    }
    Origin {
        query,
        is_hidden: false,
        plan: DocBuf::build(|out| describe::write_node(&plan.root, None, out)),
        trials: ArrayBuf::build(|out| {
            plan.choice.tried.iter().for_each(|tried| out.doc(|out| tried.write(out)));
        }),
        created_ms,
        filtered,
    }
}

/// The position of the best trial: among the plans over one index or a union, unless an intersection pays.
fn rank(candidates: &[Arc<Node>], trials: &mut [Trial]) -> usize {
    let intersections = || (0..candidates.len()).filter(|at| candidates[*at].intersects());
    let best = rank_singles(candidates, trials);
    let mut looked_at = |at: usize| {
        let mut stats = ExecutionStats::default();
        sum_stats(&mut *trials[at].source, &mut stats);
        (trials[at].done, stats)
    };
    let better = |at: &usize| match (looked_at(*at), looked_at(best)) {
        ((true, stats), (true, others)) => intersect::pays(&stats, &others),
        ((done, _), (other, _)) => done && !other,
    };
    intersections().find(better).unwrap_or(best)
}

/// The best without intersections: done before not done, then by cost, then those without a blocking sort, then
/// those that do not fetch.
fn rank_singles(candidates: &[Arc<Node>], trials: &[Trial]) -> usize {
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
    let singles = (0..candidates.len()).filter(|at| !candidates[*at].intersects());
    singles.min_by_key(cost).unwrap_or(0)
}

/// Returns true if documents are read in addition to index keys.
fn fetches(node: &Node) -> bool {
    matches!(node, Node::Fetch { .. } | Node::CollScan { .. })
        || node.inputs().into_iter().any(fetches)
}

fn run(
    node: &Arc<Node>,
    wanted: u64,
    budget: u64,
    opener: Opener,
    cx: &mut Cx<'_>,
) -> Result<Trial> {
    let mut source = open(node, &opener);
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
