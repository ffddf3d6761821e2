//! Whether an index holds every document that a filter can match.
//!
//! Sparse indexes leave out documents without the field, partial ones those outside their filter. An
//! index is usable if the filter's conditions imply being in it: conditions are compared as sets of
//! values (see `bounds`).

use std::sync::Arc;

use nagi_bson::Value;
use nagi_lang::filter::{Filter, Pred};
use nagi_store::{Collection, Index};

use super::{
    access::{self, Item},
    bounds::{self, Keys},
};
use crate::access::AllowedIndexes;

/// The indexes that may serve the filter, by this and by being ready, not hidden and allowed; and those
/// that may not because they are sparse or partial. Of a wildcard index: one for each path. A text
/// index serves searches only, which have plans of their own.
pub(crate) fn usable<'c>(
    collection: &'c Collection,
    items: &[Item<'_>],
    filter: &Filter,
    allowed: Option<&AllowedIndexes>,
) -> (Vec<Arc<Index>>, Vec<&'c Arc<Index>>) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for index in collection.ready_indexes() {
        let apart = index.spec.hidden || !index.spec.kind.facts().answers_filters;
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

/// A wildcard index as the index of each path that it can serve: a document without the path has no
/// key in it.
pub(super) fn at_paths(index: &Arc<Index>, items: &[Item<'_>], filter: &Filter) -> Vec<Arc<Index>> {
    let mut paths: Vec<&str> =
        items.iter().filter(|item| item.excludes_missing()).map(|item| &*item.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let view = |path| index.at_path(path).filter(|view| in_partial(view, items, filter));
    paths.into_iter().filter_map(view).collect()
}

/// A sparse index holds the document if some condition needs one of its fields to be there.
fn in_sparse(index: &Index, items: &[Item<'_>]) -> bool {
    index
        .spec
        .key
        .iter()
        .any(|part| items.iter().any(|item| *item.path == *part.path && item.excludes_missing()))
}

pub(super) fn in_partial(index: &Index, items: &[Item<'_>], filter: &Filter) -> bool {
    let keys = Keys::Index(index.spec.collation);
    index.partial_filter().is_none_or(|partial| implies(filter, items, partial, keys))
}

/// Whether every document that `filter` (with its `items`) matches is matched by `needed`.
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
    /// Whether a document without the field fails the condition.
    pub(super) fn excludes_missing(&self) -> bool {
        if let Some(Pred::Exists | Pred::Geo(_) | Pred::Near(_)) = self.pred() {
            return true;
        }
        // To an expression `"$a.b"` of `{a: []}` is an array, and no field is there.
        if self.is_known() && self.path.contains('.') {
            return false;
        }
        self.bounds(u64::MAX, Keys::Own).is_some_and(|bounds| !bounds.set.contains(Value::Null))
    }

    /// Whether the condition implies `pred` on `path`.
    fn implies(&self, path: &str, pred: &Pred, keys: Keys) -> bool {
        if self.path != path {
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
