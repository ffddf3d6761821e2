//! Index intersection: two or more indexes that each fix a value, of which only the common records are read.
//!
//! Entries of one key are in the order of their records, so the indexes are scanned side by side, and each skips
//! the records that another does not have. The cost is that of the shortest list.
//!
//! ```text
//!   {a: 1}   records 3  7  9  20       each index seeks to the greatest record of the others:
//!   {b: 5}   records 7  8  20 41       7 and 20 are fetched, 3, 9, 8 and 41 are not
//! ```
//!
//! An intersection pays if each index alone would read many documents of which few match. The trial measures that:
//! it compares the work of the intersection with the work of the best single index ([`pays`]).

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

/// Limit of indexes that are intersected.
const INDEXES_MAX: usize = 4;
/// The number of index entries whose skip costs as much as fetching a document by its record; measured, see
/// `docs/decisions/032-plan-cache-stores-the-choice.md`.
const ENTRIES_PER_DOCUMENT: u64 = 4;

/// The cost of a trial or a run, in index entries.
fn cost(stats: &ExecutionStats) -> u64 {
    stats.keys_examined + ENTRIES_PER_DOCUMENT * stats.docs_examined
}

/// Returns true if the intersection did the same for less than three quarters of the cost.
pub(super) fn pays(intersection: &ExecutionStats, single: &ExecutionStats) -> bool {
    cost(intersection) * 4 < cost(single) * 3
}

/// Returns true if every field of the index is fixed, so that its entries are in the order of the records.
fn fixes(index: &Index, assignment: &Assignment) -> bool {
    let ordinary =
        !index.spec.is_clustered() && !index.spec.unique && index.spec.kind.facts().whole;
    ordinary && assignment.bounds.iter().all(Intervals::is_one_point)
}

/// Returns true if all paths of an index are among the other's.
fn is_within(index: &Index, other: &Index) -> bool {
    index.spec.key.iter().all(|part| other.spec.key.iter().any(|p| p.path == part.path))
}

/// The plan over all indexes that fix a value; none if there are fewer than two.
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
    // After a yield, the entries of a record may come from different snapshots, so the whole filter is tested
    // again.
    let fetch = Node::Fetch {
        collection: Arc::clone(collection),
        filter: Some(Arc::clone(&spec.filter)),
        whole: Some(Arc::clone(&spec.filter)),
        input: Box::new(Node::AndSorted { inputs }),
    };
    let indexes = chosen.iter().map(|(index, _)| *index);
    Some(Candidate::intersection(indexes, above(spec, fetch, false)))
}
