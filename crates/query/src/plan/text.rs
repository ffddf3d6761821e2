//! Text searches: one scan of the text index for each term, their union, and the rest of the search.
//!
//! ```text
//!   TEXT_MATCH                phrases, negations, case and diacritics: examines the documents
//!     TEXT_OR                 if the score is used: sums it, record by record
//!       IXSCAN, IXSCAN ...    otherwise FETCH over OR over the scans
//! ```

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_lang::{
    expr::MetaKind,
    filter::{CompareOp, Filter, Pred, TextFilter},
};
use nagi_store::{Collection, Index};

use super::{
    access::{self, Item},
    build::{FindSpec, above, best_access, rest},
    key_filter::{self},
    node::Node,
    usable,
};
use crate::access::{Intervals, TextAccess};
use crate::source::check_memory;

/// Memory of the scan of a term, including the engine's.
const TERM_BYTES: usize = 12 << 10;

/// The text index of a collection.
///
/// # Errors
/// 27 if there is none.
fn text_index(collection: &Collection) -> Result<&Arc<Index>> {
    match collection.ready_indexes().find(|index| index.spec.text().is_some()) {
        Some(index) => Ok(index),
        None => bail!(Code::INDEX_NOT_FOUND, "text index required for $text query"),
    }
}

/// Refuses a search in a collection that does not exist.
///
/// # Errors
/// 27 if the filter has a search.
pub(super) fn refuse_missing(filter: &Filter) -> Result<()> {
    match filter.text() {
        Some(_) => bail!(Code::INDEX_NOT_FOUND, "text index required for $text query"),
        None => Ok(()),
    }
}

/// The plan of a filter with a search.
///
/// # Errors
/// 27 without a text index; 291 if the index does not serve the filter; 2 for options that a search excludes.
pub(super) fn plan(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    text: &Arc<TextFilter>,
) -> Result<Node> {
    if spec.hint.is_some() {
        bail!(Code::BAD_VALUE, "text and hint not allowed in same query");
    }
    if spec.natural.is_some() {
        bail!(Code::BAD_VALUE, "text expression not allowed with $natural sort order");
    }
    let index = text_index(collection)?;
    if let Some(bound) = index.spec.text() {
        text.bind(bound)?;
    }
    let conjuncts = access::conjuncts(&spec.filter);
    if conjuncts.iter().any(|part| matches!(part, Filter::Text(_))) {
        let node = search(spec, collection, index, &spec.filter)?;
        return Ok(above(spec, node, false));
    }
    let either = conjuncts.iter().enumerate().find_map(|(at, part)| match part {
        Filter::Or(branches) if part.text().is_some() => Some((at, branches)),
        _ => None,
    });
    let Some((at, branches)) = either else { return unserved(collection) };
    let mut inputs = Vec::new();
    for branch in branches {
        let direct = access::conjuncts(branch).iter().any(|part| matches!(part, Filter::Text(_)));
        let input = match (direct, branch.text()) {
            (true, _) => search(spec, collection, index, branch)?,
            (false, Some(_)) => return unserved(collection),
            (false, None) => indexed(collection, branch)?,
        };
        // Every document that the search finds has a score.
        inputs.insert(if direct { 0 } else { inputs.len() }, input);
    }
    let mut node = Node::Or { inputs };
    if let Some(filter) = rest(conjuncts, &[at]) {
        let (collection, filter) = (collection.clone(), Some(filter));
        node = Node::Fetch { collection, filter, whole: None, input: Box::new(node) };
    }
    Ok(above(spec, node, false))
}

/// A branch of an `$or` beside a search, which needs an index of its own.
fn indexed(collection: &Arc<Collection>, branch: &Filter) -> Result<Node> {
    let Some((access, filter, _)) = best_access(collection, branch, None, None) else {
        bail!(
            Code::NO_QUERY_EXECUTION_PLANS,
            "error processing query: ns={} planner returned error :: caused by :: Failed to \
             produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be \
             indexed as well.",
            collection.namespace
        );
    };
    let input = Box::new(Node::IndexScan(access));
    Ok(Node::Fetch { collection: collection.clone(), filter, whole: None, input })
}

fn unserved<T>(collection: &Collection) -> Result<T> {
    bail!(
        Code::NO_QUERY_EXECUTION_PLANS,
        "error processing query: ns={} planner returned error :: caused by :: failed to use text \
         index to satisfy $text query (if text index is compound, are equality predicates given \
         for all prefix fields?)",
        collection.namespace
    )
}

/// The plan of a conjunction that contains a search.
fn search(
    spec: &FindSpec<'_>,
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    filter: &Filter,
) -> Result<Node> {
    let conjuncts = access::conjuncts(filter);
    let found = conjuncts.iter().enumerate().find_map(|(at, part)| match part {
        Filter::Text(text) => Some((at, text)),
        _ => None,
    });
    let Some((at, text)) = found else { return unserved(collection) };
    let Some(bound) = text.bound() else { return unserved(collection) };
    let items = access::items(conjuncts);
    let served = !index.spec.hidden && usable::in_partial(index, &items, filter);
    let Some((term, bounds)) = bounds(index, &items).filter(|_| served) else {
        return unserved(collection);
    };
    let access = Arc::new(TextAccess {
        collection: collection.clone(),
        index: index.clone(),
        text: text.clone(),
        term,
        bounds,
    });
    check_memory(bound.search.terms.len() * TERM_BYTES)?;
    let (keyed, filter) = key_filter::split(index, rest(conjuncts, &[at]));
    let scan = |term: &String| Node::IndexScan(access.scan(term, keyed.clone()));
    let mut inputs: Vec<Node> = bound.search.terms.iter().map(scan).collect();
    let scored = spec.metas.contains(MetaKind::TextScore);
    let counted = spec.needed.as_ref().is_some_and(Vec::is_empty) && spec.sort.is_none();
    if scored {
        let memory_bytes_max = spec.options.memory.text_or;
        let spills = spec.options.allow_disk_use;
        let input =
            Node::TextOr { access: access.clone(), filter, memory_bytes_max, spills, inputs };
        return Ok(Node::TextMatch { access, input: Box::new(input) });
    }
    let union = match inputs.len() {
        1 => inputs.remove(0),
        _ => Node::Or { inputs },
    };
    if counted && filter.is_none() && !bound.needs_verifying() {
        return Ok(union);
    }
    let input =
        Node::Fetch { collection: collection.clone(), filter, whole: None, input: Box::new(union) };
    Ok(Node::TextMatch { access, input: Box::new(input) })
}

/// The position of the terms in the key, and the bounds of the fields beside them; none if a field before the terms
/// is not fixed.
fn bounds(index: &Index, items: &[Item<'_>]) -> Option<(usize, Vec<Intervals>)> {
    let key = &index.spec.key;
    let term = key.iter().position(|part| part.is_term())?;
    let mut out = vec![Intervals::all(); key.len()];
    for (field, part) in key.iter().enumerate() {
        if field == term || field == term + 1 {
            continue;
        }
        let mut fixed = false;
        for item in items.iter().filter(|item| *item.path == *part.path) {
            // These fields contain no arrays.
            let Some(found) = item.bounds_in(index, 0) else { continue };
            out[field] = out[field].intersect(&found.set);
            fixed |= matches!(item.pred(), Some(Pred::Compare { op: CompareOp::Eq, .. }));
        }
        if field < term && !fixed {
            return None;
        }
    }
    Some((term, out))
}
