//! Decides if an index contains every document that a filter can match.
//!
//! Sparse indexes leave out documents without the field; partial indexes leave out documents that do not match
//! their filter. An index is usable if the query's filter implies that a document is in the index. Implication is
//! decided by comparing conditions as sets of values (see `bounds`).
//!
//! Example: the partial index on `a` with the filter `{b: {$gt: 5}}` serves `{a: 1, b: 7}`, because `[7, 7]` is a
//! subset of `(5, inf]`. It does not serve `{a: 1}`.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_lang::filter::{Filter, Pred};
use nagi_store::{Collection, Index};

use super::{
    access::{self, Item},
    bounds::{self, Keys},
};
use crate::access::AllowedIndexes;

/// The indexes that may serve the filter (ready, not hidden, allowed, and containing every match), and the indexes
/// that were excluded because they are sparse or partial. A wildcard index yields one entry per path. A text index
/// serves only searches, which have their own plans.
pub(crate) fn usable<'c>(
    collection: &'c Collection,
    items: &[Item<'_>],
    filter: &Filter,
    allowed: Option<&AllowedIndexes>,
) -> (Vec<Arc<Index>>, Vec<&'c Arc<Index>>) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for index in collection.ready_indexes() {
        let apart = index.spec.hidden || !index.spec.kind.facts().answers_filters();
        if apart || allowed.is_some_and(|allowed| !allowed.allows(index)) {
            continue;
        }
        if index.spec.kind.facts().by_path {
            found.extend(at_paths(index, items, filter));
        } else if (!index.spec.sparse || in_sparse(index, items))
            && in_partial(index, items, filter)
        {
            found.push(Arc::clone(index));
        } else {
            left_out.push(index);
        }
    }
    (found, left_out)
}

/// A wildcard index, as one index for each path that it can serve: it has no key for a document without the path.
pub(super) fn at_paths(index: &Arc<Index>, items: &[Item<'_>], filter: &Filter) -> Vec<Arc<Index>> {
    let mut paths: Vec<&str> =
        items.iter().filter(|item| item.excludes_missing()).map(|item| &*item.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let view = |path| index.at_path(path).filter(|view| in_partial(view, items, filter));
    paths.into_iter().filter_map(view).collect()
}

/// Returns true if some condition requires one of the fields of a sparse index to exist.
fn in_sparse(index: &Index, items: &[Item<'_>]) -> bool {
    index
        .spec
        .key
        .iter()
        .any(|part| items.iter().any(|item| *item.path == *part.path && item.excludes_missing()))
}

pub(super) fn in_partial(index: &Index, items: &[Item<'_>], filter: &Filter) -> bool {
    let keys = Keys::Index(index.spec.collation);
    if let Some(needed) = index.given_filter() {
        return access::conjuncts(filter).iter().any(|conjunct| match conjunct {
            Filter::Given(given) => {
                let items = access::items(access::conjuncts(given));
                implies(given, &items, needed, keys)
            }
            _ => false,
        });
    }
    index.partial_filter().is_none_or(|partial| implies(filter, items, partial, keys))
}

/// Returns true if every document that `filter` (with its `items`) matches is matched by `needed`.
fn implies(filter: &Filter, items: &[Item<'_>], needed: &Filter, keys: Keys) -> bool {
    match needed {
        Filter::AlwaysTrue => return true,
        Filter::And(all) => return all.iter().all(|part| implies(filter, items, part, keys)),
        Filter::Or(any) if any.iter().any(|part| implies(filter, items, part, keys)) => {
            return true;
        }
        Filter::Field { path, pred }
            if items.iter().any(|i| i.implies(path.as_str(), pred, keys)) =>
        {
            return true;
        }
        _ => {}
    }
    access::conjuncts(filter).iter().any(|conjunct| match conjunct {
        Filter::Or(branches) => branches
            .iter()
            .all(|branch| implies(branch, &access::items(access::conjuncts(branch)), needed, keys)),
        _ => false,
    })
}

impl Item<'_> {
    /// Returns true if a document without the field does not satisfy the condition.
    pub(super) fn excludes_missing(&self) -> bool {
        if self.is_given() {
            return false;
        }
        if let Some(Pred::Exists | Pred::Geo(_) | Pred::Near(_)) = self.pred() {
            return true;
        }
        // To expressions, `"$a.b"` of `{a: []}` is an array, although no such field exists.
        if self.is_known() && self.path.contains('.') {
            return false;
        }
        self.bounds(u64::MAX, Keys::Own).is_some_and(|bounds| !bounds.set.contains(Value::Null))
    }

    /// Returns true if the condition implies `pred` on `path`.
    fn implies(&self, path: &str, pred: &Pred, keys: Keys) -> bool {
        if self.path != path || self.is_given() {
            return false;
        }
        if let Pred::Exists = pred {
            return self.excludes_missing();
        }
        let needed = bounds::of_pred(pred, !path.contains('.'), keys);
        let Some(own) = self.bounds(u64::MAX, keys) else { return false };
        needed.exact && own.set.intersect(&needed.set.complement()).is_empty()
    }
}
