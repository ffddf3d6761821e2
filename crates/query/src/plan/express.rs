//! Express plans: point reads that need no choice, with one equality on the first field of an index.
//!
//! ```text
//!   {email: "a@b"}            a unique index on email: at most one document
//!   {city: "Rome"}, limit 1   any index that begins with city: the first entry suffices
//! ```
//!
//! No other plan could be better, so neither other candidates nor the plan cache are consulted. A query covered by
//! the keys is left to the ordinary plan, which reads no document. The name is MongoDB's.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_lang::{
    expr::MetaSet,
    filter::{CompareOp, Filter, Pred},
};
use nagi_store::{Collection, Index};

use super::{IndexAccess, access, build, build::FindSpec, cache::IndexFilters, node::Node};
use crate::access::Intervals;

/// The plan, if the request is such a point read.
pub(super) fn express(spec: &FindSpec<'_>, collection: &Arc<Collection>) -> Option<Node> {
    let plain = spec.sort.is_none()
        && spec.natural.is_none()
        && spec.hint.is_none()
        && spec.skip == 0
        && spec.metas == MetaSet::NONE
        && !spec.return_key
        && spec.min.is_empty()
        && spec.max.is_empty();
    let (path, value) = equality(&spec.filter).filter(|_| plain)?;
    let one = spec.limit == Some(1);
    let serves = |index: &&Arc<Index>| serves(index, path, value, one);
    let index = collection
        .ready_indexes()
        .filter(serves)
        .min_by_key(|index| (!index.spec.unique, index.spec.key.len()))?;
    // Index filters are looked up by shape, which is not computed here.
    if IndexFilters::has_any(collection) || build::covers(spec, index) {
        return None;
    }
    let items = access::items(access::conjuncts(&spec.filter));
    let assignment = access::assign(index, &items)?;
    let exact = assignment.exact.len() == 1 && assignment.bounds[0].is_one_point();
    let access = IndexAccess {
        index: Arc::clone(index),
        bounds: assignment.bounds,
        forward: true,
        dedup: false,
        distinct: None,
        filter: None,
        range: None,
    };
    let others = access.bounds[1..].iter().all(Intervals::is_all);
    (exact && others)
        .then(|| Node::Express { collection: Arc::clone(collection), access: Arc::new(access) })
}

/// The condition of the filter, if it is one equality with a value that has exactly one key.
fn equality(filter: &Filter) -> Option<(&str, Value<'_>)> {
    match filter {
        Filter::And(all) if all.len() == 1 => equality(&all[0]),
        Filter::Field { path, pred: Pred::Compare { op: CompareOp::Eq, value, .. } } => {
            let value = value.value();
            let plain = !matches!(
                value,
                Value::Null
                    | Value::Missing
                    | Value::Undefined
                    | Value::Array(_)
                    | Value::Regex { .. }
            );
            plain.then_some((path.as_str(), value))
        }
        _ => None,
    }
}

/// Returns true if the index contains every document with the value, and has at most one entry for it (or one entry
/// is enough).
fn serves(index: &Index, path: &str, value: Value<'_>, one: bool) -> bool {
    let spec = &index.spec;
    // Keys of strings and of values with strings depend on the collation; the ordinary plan handles that.
    let collated = spec.collation.is_some()
        && matches!(value, Value::String(_) | Value::Doc(_) | Value::Symbol(_));
    let single = spec.unique && spec.key.len() == 1;
    *spec.key[0].path == *path
        && (single || one)
        && !collated
        && !spec.hidden
        && !spec.sparse
        && spec.partial.is_none()
        && spec.kind.facts().by_value
        && !index.is_multikey()
}
