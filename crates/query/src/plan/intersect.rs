//! Index intersection: two or more indexes that each fix a value, and only the records in all of them.
//!
//! Entries of one key lie in the order of their records, so the indexes are walked side by side and
//! each steps over what another does not have; the cost is that of the shortest list. It pays where
//! each index alone would read many documents of which few match. Whether it does is measured: the
//! trial compares what it looked at with what the best single index looked at ([`pays`]).

use std::sync::Arc;

use nagi_store::{Collection, Index};

use super::{
    IndexAccess,
    access::Assignment,
    build::{FindSpec, above},
    choose::Candidate,
    node::Node,
};
use crate::access::Intervals;
use crate::source::ExecutionStats;

/// Indexes that are walked side by side at the most.
const INDEXES_MAX: usize = 4;
/// Entries of an index that one step over costs as much as reading a document by its record: measured, see
/// `docs/decisions/032-a-cached-plan-is-a-choice.md`.
const ENTRIES_PER_DOCUMENT: u64 = 4;

/// What a trial or a run looked at, in entries of an index.
fn cost(stats: &ExecutionStats) -> u64 {
    stats.keys_examined + ENTRIES_PER_DOCUMENT * stats.docs_examined
}

/// Whether an intersection did the same for less than three quarters of the cost.
pub(super) fn pays(intersection: &ExecutionStats, single: &ExecutionStats) -> bool {
    cost(intersection) * 4 < cost(single) * 3
}

/// Whether every field of the index is fixed, so that its entries come in the order of the records.
fn fixes(index: &Index, assignment: &Assignment) -> bool {
    let ordinary =
        !index.spec.is_clustered() && !index.spec.unique && index.spec.kind.facts().whole;
    ordinary && assignment.bounds.iter().all(Intervals::is_one_point)
}

/// Whether all paths of an index are among the other's.
fn is_within(index: &Index, other: &Index) -> bool {
    index.spec.key.iter().all(|part| other.spec.key.iter().any(|p| p.path == part.path))
}

/// The plan over all indexes that fix a value; none if there are less than two.
pub(super) fn candidate(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    assigned: &[(Arc<Index>, Assignment)],
) -> Option<Candidate> {
    let mut chosen: Vec<(&Arc<Index>, &Assignment)> = Vec::new();
    for (index, assignment) in assigned.iter().filter(|(index, of)| fixes(index, of)) {
        if chosen.iter().any(|(other, _)| is_within(index, other)) {
            continue;
        }
        chosen.retain(|(other, _)| !is_within(other, index));
        chosen.push((index, assignment));
    }
    chosen.truncate(INDEXES_MAX);
    if chosen.len() < 2 || spec.return_key {
        return None;
    }
    let scan = |(index, assignment): &(&Arc<Index>, &Assignment)| {
        Node::IndexScan(Arc::new(IndexAccess {
            index: Arc::clone(index),
            bounds: assignment.bounds.clone(),
            forward: true,
            dedup: false,
            distinct: None,
            filter: None,
            range: None,
        }))
    };
    let inputs = chosen.iter().map(scan).collect();
    // Of a record met before a pause the entries are of another state: the whole filter is asked again.
    let fetch = Node::Fetch {
        collection: Arc::clone(collection),
        filter: Some(Arc::clone(&spec.filter)),
        whole: Some(Arc::clone(&spec.filter)),
        input: Box::new(Node::AndSorted { inputs }),
    };
    let indexes = chosen.iter().map(|(index, _)| *index);
    Some(Candidate::intersection(indexes, above(spec, fetch, false)))
}
