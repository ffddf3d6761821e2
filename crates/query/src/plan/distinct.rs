//! The plan that meets each value of a path once: an index that begins with it, skipped through.

use std::sync::Arc;

use nagi_lang::filter::Filter;
use nagi_store::{Collection, Index, IndexKind};

use super::{
    Intervals, access, build,
    node::{IndexAccess, Node, Plan},
    usable,
};
use crate::settings::AllowedIndexes;

/// One document `{path: value, ..}` for each value that documents matching `filter` have at `path`. None
/// if no index serves: one that holds arrays may not, nor one that does not decide the filter alone.
/// `with_missing` asks for a document of those without the path, too. Of indexes only those `allowed`.
pub(crate) fn distinct_scan(
    collection: &Arc<Collection>,
    path: &str,
    filter: &Filter,
    with_missing: bool,
    allowed: Option<&AllowedIndexes>,
) -> Option<Plan> {
    let items = access::items(access::conjuncts(filter));
    let (indexes, _) = usable::usable(collection, &items, filter, allowed);
    let may = |index: &&Arc<Index>| allowed.is_none_or(|allowed| allowed.allows(index));
    // Of every document, if nothing is asked: also what a sparse index would leave out is missing only.
    let all = collection
        .ready_indexes()
        .filter(|index| index.spec.sparse && !with_missing && matches!(filter, Filter::AlwaysTrue));
    let mut candidates = indexes.iter().chain(all.filter(may)).filter(|index| serves(index, path));
    candidates.find_map(|index| {
        let bounds = bounds(index, filter, &items)?;
        let access = Arc::new(IndexAccess {
            bounds,
            index: index.clone(),
            forward: true,
            dedup: false,
            distinct: true,
            range: None,
        });
        let scan = Box::new(Node::IndexScan(access.clone()));
        Some(build::single(Node::FromKey { access, flat: false, input: scan }))
    })
}

fn serves(index: &Index, path: &str) -> bool {
    let spec = &index.spec;
    !spec.hidden
        && spec.kind == IndexKind::Btree
        && spec.collation.is_none()
        && *spec.key[0].path == *path
        && !index.is_multikey()
}

/// The bounds, if they are on the first field only and decide the filter.
fn bounds(index: &Index, filter: &Filter, items: &[access::Item<'_>]) -> Option<Vec<Intervals>> {
    if let Filter::AlwaysTrue = filter {
        let is_whole = index.spec.partial.is_none();
        return is_whole.then(|| vec![Intervals::all(); index.spec.key.len()]);
    }
    let found = access::assign(index, items)?;
    let first_only = found.bounds[1..].iter().all(Intervals::is_all);
    let mut exact = found.exact;
    exact.sort_unstable();
    exact.dedup();
    (first_only && exact.len() == access::conjuncts(filter).len()).then_some(found.bounds)
}
