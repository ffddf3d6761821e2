//! Opens a plan: builds the sources of its nodes.

use std::sync::Arc;

use super::node::Node;
use crate::source::{
    self, AndSorted, CollScan, Counted, Eof, Fetch, FromKey, IdLookup, IndexScan, KeptKey, Limit,
    Nearest, Project, RecordIds, Skip, Sort, SortMerge, Source, TextMatch, TextOr, Union,
};

/// Options for opening.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Opener {
    /// Puts a counter around every node, for explain.
    pub(crate) counted: bool,
    /// The counters also measure time.
    pub(crate) timed: bool,
    /// The largest number of documents that will be requested, if it is known.
    pub(crate) wanted: Option<u64>,
    /// The number of other branches of a merge that are read alternately with this one.
    pub(crate) beside: usize,
    /// An index scan lends the records that are its entries.
    pub(crate) records: bool,
}

impl Opener {
    /// Options for a plan whose run is shown.
    pub(crate) const SHOWN: Opener =
        Opener { counted: true, timed: true, wanted: None, beside: 0, records: false };
}

/// Opens the sources of a plan. They read nothing yet.
pub(crate) fn open(node: &Node, opener: &Opener) -> Box<dyn Source> {
    let beside = match node {
        Node::SortMerge { inputs, .. } => (opener.beside + 1) * inputs.len().max(1) - 1,
        _ => opener.beside,
    };
    let records = fetches_entries(node);
    let below = Opener { wanted: wanted(node, opener.wanted), beside, records, ..*opener };
    let input = |node: &Node| open(node, &below);
    let opened: Box<dyn Source> = match node {
        Node::Eof => Box::new(Eof),
        Node::CollScan { collection, forward, filter, options } => {
            Box::new(CollScan::new(collection.clone(), *forward, filter.clone(), options.clone()))
        }
        Node::IdLookup { collection, id } => {
            Box::new(IdLookup::new(collection.clone(), id.clone()))
        }
        Node::Pick { collection, count } => Box::new(source::Pick::new(collection.clone(), *count)),
        Node::IndexScan(access) => Box::new(IndexScan::new(access).lending(opener.records)),
        Node::Express { collection, access } => {
            let fetch = Fetch::new(
                Box::new(IndexScan::new(access)),
                collection.clone(),
                [None, None],
                (Some(1), 0),
            );
            Box::new(Limit::new(Box::new(fetch), 1))
        }
        Node::GeoNear(access) => Box::new(Nearest::new(access)),
        Node::TextMatch { access, input: below } => {
            Box::new(TextMatch::new(input(below), access.clone()))
        }
        Node::TextOr { access, filter, memory_bytes_max, spills, inputs } => {
            let inputs = inputs.iter().map(input).collect();
            let limits = (*memory_bytes_max, *spills);
            Box::new(TextOr::new(inputs, access.clone(), filter.clone(), limits))
        }
        Node::Fetch { collection, filter, whole, input: entries } => {
            let filters = [filter.clone(), whole.clone()];
            let wanted = (opener.wanted, opener.beside);
            let fetch = Fetch::new(input(entries), collection.clone(), filters, wanted);
            Box::new(fetch.of_records(below.records))
        }
        Node::AndSorted { inputs } => Box::new(AndSorted::new(inputs.iter().map(input).collect())),
        Node::Or { inputs } => Box::new(Union::new(inputs.iter().map(input).collect())),
        Node::SortMerge { sort, inputs } => {
            Box::new(SortMerge::new(inputs.iter().map(input).collect(), sort.clone()))
        }
        Node::Sort(sort) => {
            let limits = source::SortLimits {
                count: sort.limit,
                memory_bytes: sort.memory_bytes_max,
                allow_disk_use: sort.allow_disk_use,
            };
            let opened = Sort::new(input(&sort.input), sort.sort.clone(), limits);
            Box::new(opened.keyed_by(sort.keyed_by.clone()))
        }
        Node::Skip { count, input: below } => Box::new(Skip::new(input(below), *count)),
        Node::Limit { count, input: below } => Box::new(Limit::new(input(below), *count)),
        Node::Projection { projection, filter, meta, input: below, .. } => {
            let (projection, filter) = (projection.clone(), filter.clone());
            Box::new(Project::new(input(below), projection, filter, meta.clone()))
        }
        Node::KeptKey { input: below } => Box::new(KeptKey::new(input(below))),
        Node::FromKey { access, fields, input: below } => {
            let index = Arc::clone(&access.index);
            Box::new(FromKey::new(input(below), index, fields.as_deref()))
        }
        Node::RecordId { input: below } => Box::new(RecordIds::new(input(below))),
        Node::Subplan { input: below } => Box::new(source::Pass::new(input(below))),
    };
    if opener.counted { Box::new(Counted::new(opened, opener.timed)) } else { opened }
}

/// Returns true if the node fetches records that are themselves the entries of the index below it.
fn fetches_entries(node: &Node) -> bool {
    let Node::Fetch { input, .. } = node else { return false };
    matches!(&**input, Node::IndexScan(access) if access.index.is_of_records())
}

/// The number of documents that a node requests of the one below it, given the number requested of the node.
fn wanted(node: &Node, wanted: Option<u64>) -> Option<u64> {
    match node {
        Node::Limit { count, .. } => Some(wanted.map_or(*count, |wanted| wanted.min(*count))),
        Node::Skip { count, .. } => wanted.map(|wanted| wanted.saturating_add(*count)),
        Node::Projection { .. }
        | Node::KeptKey { .. }
        | Node::FromKey { .. }
        | Node::RecordId { .. }
        | Node::Subplan { .. } => wanted,
        _ => None,
    }
}
