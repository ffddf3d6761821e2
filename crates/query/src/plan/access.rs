//! Index assignment: the part of an index that a filter needs.
//!
//! The filter's top level is a conjunction. Each conjunct that is a predicate on a path (or its negation, or an
//! `$elemMatch` of such) yields [`Item`]s: path and bounds. For each of its fields an index takes the items on that
//! path, as far as arrays permit:
//!
//! - Two items on paths that share an array may be satisfied by different elements. Their bounds may be intersected
//!   only if they come from one `$elemMatch` on that array.
//! - Otherwise one of them gives the bounds, and the other is tested on the document.
//!
//! Example: with `{a: [1, 9]}` in the collection, `{a: {$gt: 5, $lt: 5}}` matches (9 > 5 and 1 < 5). So an index on
//! `a` scans `(5, inf]` or `[-inf, 5)`, not the empty intersection, and tests the whole filter on the document.

use nagi_bson::Value;
use nagi_lang::{
    filter::{Filter, Known, Pred},
    path::FieldPath,
};
use nagi_store::{Index, PathField};

use super::{
    bounds::{self, Bounds, Keys},
    geo, known_bounds,
};
use crate::access::{Interval, Intervals};

/// A predicate that an index could serve.
#[derive(Debug)]
pub(crate) struct Item<'f> {
    pub(crate) path: String,
    source: Source<'f>,
    /// Position of the conjunct that it comes from.
    pub(crate) conjunct: usize,
    /// The number of the `$elemMatch` it comes from, and the number of components up to its array.
    element: Option<(usize, usize)>,
    /// True if the item is its whole conjunct.
    whole: bool,
    /// It is a condition on what the document stands for, so it bounds only geometries of buckets.
    given: bool,
}

#[derive(Debug)]
enum Source<'f> {
    Is(&'f Pred),
    IsNot(&'f Pred),
    /// A fact that an `$expr` implies about the path.
    Known(&'f Known),
}

/// The use of an index for a filter.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// A set of values for each field of the key pattern.
    pub(crate) bounds: Vec<Intervals>,
    /// Positions of the conjuncts that the bounds decide completely.
    pub(crate) exact: Vec<usize>,
    /// Number of fields that have bounds.
    pub(crate) bound_fields: usize,
}

/// The conjuncts of a filter; the filter itself if it is no `$and`.
pub(crate) fn conjuncts(filter: &Filter) -> &[Filter] {
    match filter {
        Filter::And(all) => all,
        Filter::AlwaysTrue => &[],
        other => std::slice::from_ref(other),
    }
}

/// The items of all conjuncts.
pub(crate) fn items(conjuncts: &[Filter]) -> Vec<Item<'_>> {
    let mut out = Vec::new();
    let mut elements = 0;
    for (at, conjunct) in conjuncts.iter().enumerate() {
        let first = out.len();
        collect(conjunct, "", at, None, &mut elements, &mut out);
        if let (true, [item]) = (is_one(conjunct), &mut out[first..]) {
            item.whole = item.element.is_none();
        }
    }
    out
}

/// Returns true if a conjunct is one predicate on a path, or the negation of one.
fn is_one(conjunct: &Filter) -> bool {
    match conjunct {
        Filter::Field { .. } | Filter::Not(_) => true,
        Filter::Nor(none) => none.len() == 1,
        _ => false,
    }
}

fn join(prefix: &str, path: &FieldPath) -> String {
    match (prefix, path.as_str()) {
        ("", path) => path.to_owned(),
        (prefix, "") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}.{path}"),
    }
}

fn collect<'f>(
    filter: &'f Filter,
    prefix: &str,
    conjunct: usize,
    element: Option<(usize, usize)>,
    elements: &mut usize,
    out: &mut Vec<Item<'f>>,
) {
    match filter {
        Filter::And(all) => {
            for part in all {
                collect(part, prefix, conjunct, element, elements, out);
            }
        }
        Filter::Field { path, pred } => {
            // Inside `$elemMatch` a number may be a position in an inner array.
            if !prefix.is_empty() && path.has_index() {
                return;
            }
            let full = join(prefix, path);
            let depth = full.split('.').count();
            match pred {
                Pred::ElemMatchObject(inner) => {
                    *elements += 1;
                    let id = *elements;
                    collect(inner, &full, conjunct, Some((id, depth)), elements, out);
                }
                Pred::ElemMatchValue(_) => {
                    *elements += 1;
                    let element = element.or(Some((*elements, depth)));
                    out.push(Item {
                        path: full,
                        source: Source::Is(pred),
                        conjunct,
                        element,
                        whole: false,
                        given: false,
                    });
                }
                _ => out.push(Item {
                    path: full,
                    source: Source::Is(pred),
                    conjunct,
                    element,
                    whole: false,
                    given: false,
                }),
            }
        }
        Filter::Expr(expr) if prefix.is_empty() => {
            out.extend(expr.known.iter().map(|known| Item {
                path: known.path.clone(),
                source: Source::Known(known),
                conjunct,
                element: None,
                whole: false,
                given: false,
            }));
        }
        Filter::Given(inner) if prefix.is_empty() => {
            let first = out.len();
            collect(inner, "", conjunct, None, elements, out);
            out[first..].iter_mut().for_each(|item| item.given = true);
        }
        Filter::Not(inner) => out.extend(negated(inner, prefix, conjunct, element)),
        Filter::Nor(none) => {
            out.extend(none.iter().filter_map(|part| negated(part, prefix, conjunct, element)));
        }
        _ => {}
    }
}

/// The item of a negated predicate.
fn negated<'f>(
    filter: &'f Filter,
    prefix: &str,
    conjunct: usize,
    element: Option<(usize, usize)>,
) -> Option<Item<'f>> {
    let Filter::Field { path, pred } = filter else { return None };
    let nested = matches!(pred, Pred::ElemMatchObject(_) | Pred::ElemMatchValue(_));
    if nested || (!prefix.is_empty() && path.has_index()) {
        return None;
    }
    let path = join(prefix, path);
    let source = Source::IsNot(pred);
    Some(Item { path, source, conjunct, element, whole: false, given: false })
}

impl<'f> Item<'f> {
    /// The predicate, if it is not negated.
    pub(crate) fn pred(&self) -> Option<&'f Pred> {
        match self.source {
            Source::Is(pred) => Some(pred),
            Source::IsNot(_) | Source::Known(_) => None,
        }
    }

    /// True for a condition on something else than the document.
    pub(super) fn is_given(&self) -> bool {
        self.given
    }

    /// True if it comes from an `$expr`.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.source, Source::Known(_))
    }

    /// The bounds on a field; `multikey` says which components of its path are arrays in some document (bit 0: the
    /// first).
    pub(crate) fn bounds(&self, multikey: u64, keys: Keys) -> Option<Bounds> {
        // Geometries have keys only in geometry indexes: see `geo`.
        if let Source::Is(Pred::Geo(_) | Pred::Near(_)) | Source::IsNot(Pred::Geo(_)) = self.source
        {
            return None;
        }
        let components = self.path.split('.').count();
        let above = (1u64 << (components - 1).min(63)) - 1;
        let simple = multikey & above == 0;
        let mut bounds = match self.source {
            Source::Known(known) => {
                let usable = !has_position(&self.path);
                return known_bounds::of(known, keys).filter(|_| usable).map(Bounds::inexact);
            }
            Source::Is(pred) => bounds::of_pred(pred, simple, keys),
            Source::IsNot(pred) => {
                let mut bounds = bounds::of_negation(pred, simple, keys)?;
                // A document with arrays may have one key inside the bounds and others outside.
                bounds.exact &= multikey == 0;
                bounds
            }
        };
        // A single condition of an `$elemMatch` does not decide it. A number in a path may be a position or a name,
        // and keys do not distinguish the two.
        let has_index = has_position(&self.path);
        bounds.exact &= self.whole && !has_index;
        // The condition also looks for a field of that name in each element. Elements without it match null, so
        // null means that the bounds cannot exclude any key.
        if has_index && bounds.set.contains(Value::Null) {
            bounds.set = Intervals::all();
        }
        Some(bounds)
    }

    /// The bounds in `index`. A sparse index on one field contains only the documents that have the field.
    pub(super) fn bounds_in(&self, index: &Index, multikey: u64) -> Option<Bounds> {
        let keys = Keys::Index(index.spec.collation);
        match self.source {
            Source::Is(pred) | Source::IsNot(pred) if bounds::is_foreign(pred, keys) => {
                return None;
            }
            // Expressions treat an array as one value, but an index has a key for each element. A wildcard index
            // has no keys for documents and empty arrays, only for the paths below.
            Source::Known(_) if multikey != 0 || index.spec.kind.facts().by_path => return None,
            _ => {}
        }
        let mut bounds = self.bounds(multikey, keys)?;
        if let Source::Is(Pred::Exists) = self.source {
            let own = index.spec.sparse && index.spec.key.len() == 1;
            bounds.exact = own && self.whole && !has_position(&self.path);
        }
        Some(bounds)
    }

    /// Returns true if both conditions refer to the same element at every array among the first `shared`
    /// components.
    fn same_element(&self, other: &Item<'_>, multikey: u64, shared: usize) -> bool {
        let arrays = multikey & mask(shared);
        if arrays == 0 {
            return true;
        }
        let deepest = 64 - arrays.leading_zeros() as usize;
        match (self.element, other.element) {
            (Some((a, depth)), Some((b, _))) => a == b && deepest <= depth,
            _ => false,
        }
    }
}

/// Returns true if a component could be a position in an array.
pub(super) fn has_position(path: &str) -> bool {
    path.split('.').any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

fn mask(components: usize) -> u64 {
    if components >= 64 { u64::MAX } else { (1 << components) - 1 }
}

fn shared_components(a: &str, b: &str) -> usize {
    a.split('.').zip(b.split('.')).take_while(|(a, b)| a == b).count()
}

/// The rank of bounds for the choice between them: fewer values first.
fn rank(set: &Intervals) -> u8 {
    match set {
        set if set.is_empty() => 0,
        set if set.is_one_point() => 1,
        set if set.is_points() => 2,
        set if set.is_all() => 4,
        _ => 3,
    }
}

/// The use of `index` for the items; none if there are no bounds for its first field.
///
/// A geometry index serves only a condition on a geometry, because it does not contain documents without one.
pub(crate) fn assign(index: &Index, items: &[Item<'_>]) -> Option<Assignment> {
    assign_beside(index, items, None)
}

/// Like [`assign`], but the field `near` gets its bounds elsewhere, so the other fields may be unbounded.
pub(crate) fn assign_beside(
    index: &Index,
    items: &[Item<'_>],
    near: Option<usize>,
) -> Option<Assignment> {
    let key = &index.spec.key;
    let mut on_geometry = near.is_some() || index.spec.key.iter().all(|part| !part.is_geometry());
    let mut out = Assignment { bounds: Vec::new(), exact: Vec::new(), bound_fields: 0 };
    let mut chosen: Vec<&Item<'_>> = Vec::new();
    let wild = index.spec.path_field();
    let is_plain = |field| wild.is_none_or(|wild| wild.at + 1 != field);
    for (field, part) in key.iter().enumerate() {
        if wild.is_some_and(|wild| wild.at == field) {
            out.bounds.push(Intervals::all());
            continue;
        }
        let multikey = index.multikey_components(field);
        let mut candidates: Vec<(&Item<'_>, Bounds)> = items
            .iter()
            .filter(|item| *item.path == *part.path && near != Some(field))
            .filter(|item| !item.given || part.is_geometry())
            // A document without the path has no key here, not even null.
            .filter(|item| is_plain(field) || item.excludes_missing())
            .filter_map(|item| match part.is_geometry() {
                true => Some((item, geo::bounds(index, item.pred()?)?)),
                false => Some((item, item.bounds_in(index, multikey)?)),
            })
            .collect();
        on_geometry |= part.is_geometry() && !candidates.is_empty();
        if part.is_hashed() {
            candidates.retain(|(_, bounds)| bounds.set.is_points() || bounds.set.is_empty());
        }
        if candidates.is_empty() {
            let needed = field == 0 || wild.is_some_and(|wild| wild.at + 1 == field);
            if needed && near.is_none() {
                return None;
            }
            out.bounds.push(Intervals::all());
            continue;
        }
        candidates.sort_by_key(|(_, bounds)| rank(&bounds.set));
        let set = take(&candidates, multikey, part, &mut chosen, &mut out.exact);
        out.bound_fields += usize::from(set.is_some());
        out.bounds.push(set.unwrap_or_else(Intervals::all));
    }
    if let Some(wild) = wild {
        bound_path(wild, &mut out);
    }
    on_geometry.then_some(out)
}

/// Bounds the path in an index whose keys contain it. A document as a value has keys at the paths below it, so
/// bounds that may contain a document are widened to the existence of the path.
fn bound_path(wild: PathField<'_>, out: &mut Assignment) {
    let path = wild.path.unwrap_or("");
    let point = Interval::point(Value::String(path));
    if !out.bounds[wild.at + 1].may_hold_documents() {
        out.bounds[wild.at] = Intervals(vec![point]);
        return;
    }
    let (from, to) = (format!("{path}."), format!("{path}/"));
    let below = Interval::new(Value::String(&from), true, Value::String(&to), false);
    out.bounds[wild.at] = Intervals::from_any([point].into_iter().chain(below).collect());
    out.bounds[wild.at + 1] = Intervals::all();
    out.exact.clear();
}

/// Combines the candidates of one field as far as arrays permit.
fn take<'i, 'f>(
    candidates: &[(&'i Item<'f>, Bounds)],
    multikey: u64,
    part: &nagi_store::KeyPart,
    chosen: &mut Vec<&'i Item<'f>>,
    exact: &mut Vec<usize>,
) -> Option<Intervals> {
    let mut sets: Vec<Intervals> = Vec::new();
    for (item, bounds) in candidates {
        let beside = |other: &Item<'_>| {
            let shared = shared_components(&item.path, &other.path);
            item.same_element(other, multikey, shared)
        };
        let fits = match chosen.last() {
            _ if multikey == 0 => true,
            // An item compatible with the last one is compatible with all the items that the last one is compatible
            // with.
            Some(last) if !sets.is_empty() && last.element == item.element => beside(last),
            _ => chosen.iter().all(|other| beside(other)),
        };
        if !fits {
            continue;
        }
        chosen.push(item);
        if bounds.exact && !part.is_hashed() {
            exact.push(item.conjunct);
        }
        sets.push(bounds.set.clone());
    }
    (!sets.is_empty()).then(|| Intervals::all_of(sets))
}
