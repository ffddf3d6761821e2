//! The plan that yields each value of a path once: a skip scan of an index, from value to value.
//!
//! ```text
//!   distinct a                        over {a: 1, b: 1}   one key for each a
//!   distinct a, {a: {$gt: 3}, b: 5}                       for each a above 3 the first key with b 5
//!   distinct b, {a: 7}                                    one key for each b with a 7
//! ```

use std::sync::Arc;

use nagi_lang::filter::Filter;
use nagi_store::{Collection, Index};

use super::{
    IndexAccess, access, build,
    cache::Shape,
    key_filter,
    node::{Choice, Node, Plan},
    usable,
};
use crate::access::AllowedIndexes;
use crate::access::Intervals;

/// The plan that yields one document `{path: value, ..}` for each value that documents matching `filter` have at
/// `path`. None if no index serves: an index with arrays at the path may not be used, nor one whose keys do not
/// decide the filter. If `with_missing`, documents without the path yield a document, too. Only `allowed` indexes
/// are used.
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
    // Without a filter a sparse index serves as well: the documents that it leaves out have no value at the path.
    let all = collection
        .ready_indexes()
        .filter(|index| index.spec.sparse && !with_missing && matches!(filter, Filter::AlwaysTrue));
    indexes.iter().chain(all.filter(may)).find_map(|index| {
        let field = serves(index, path)?;
        let access = Arc::new(access_for(index, field, filter, &items)?);
        let scan = Box::new(Node::IndexScan(access.clone()));
        let root = Node::FromKey { access, fields: Some([path.to_owned()].into()), input: scan };
        // The shape of a query with another plan: what is told of both belongs together.
        let choice = Choice { shape: Shape::of_filter(filter), ..Choice::default() };
        Some(Plan { choice, ..build::single(root) })
    })
}

/// The position of the index field that contains the path's values, if the index serves.
fn serves(index: &Index, path: &str) -> Option<usize> {
    let spec = &index.spec;
    let field = spec.key.iter().position(|part| *part.path == *path)?;
    let holds = !spec.hidden
        && spec.kind.facts().by_value
        && spec.collation.is_none()
        && !access::has_position(path)
        && index.multikey_components(field) == 0;
    holds.then_some(field)
}

/// The scan for the values of a field, if its keys decide the filter.
fn access_for(
    index: &Arc<Index>,
    field: usize,
    filter: &Filter,
    items: &[access::Item<'_>],
) -> Option<IndexAccess> {
    let scan = |bounds, filter| IndexAccess {
        index: index.clone(),
        bounds,
        forward: true,
        dedup: false,
        distinct: Some(field + 1),
        filter,
        range: None,
    };
    if let Filter::AlwaysTrue = filter {
        let is_whole = index.spec.partial.is_none() && field == 0;
        return is_whole.then(|| scan(vec![Intervals::all(); index.spec.key.len()], None));
    }
    let found = access::assign(index, items)?;
    let rest = build::rest(access::conjuncts(filter), &found.exact);
    let (keyed, rest) = key_filter::split(index, rest);
    rest.is_none().then(|| scan(found.bounds, keyed))
}
