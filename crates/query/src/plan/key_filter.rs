//! The part of a filter that is decided on index keys, before any document is read.
//!
//! ```text
//!   {i: {$gte: 0}, s: /99$/} over {i: 1, s: 1}
//!     bounds          i: [0, inf], s: anything
//!     tested on keys  {s: /99$/}
//!     on documents    nothing: only matching documents are fetched
//! ```
//!
//! A key holds the exact value of a field, with its type and with the fact that it is missing. Exceptions are paths
//! that lead through an array in some document, and keys that hold a substitute for the value: a hash, a cell of a
//! geometry index, a term, a collation key. A conjunct is tested on keys if all its paths are fields whose values
//! the keys hold; the other conjuncts are tested on the documents.

use std::sync::Arc;

use nagi_lang::{
    filter::{Filter, Pred},
    path::FieldPath,
};
use nagi_store::Index;

use super::access;
use crate::access::{IndexAccess, KeyFilter};

/// The access with the part of `filter` that its keys decide, and the rest of the filter.
pub(super) fn apply(
    access: &Arc<IndexAccess>,
    filter: Option<Arc<Filter>>,
) -> (Arc<IndexAccess>, Option<Arc<Filter>>) {
    match split(&access.index, filter) {
        (None, rest) => (Arc::clone(access), rest),
        (keyed, rest) => (Arc::new(IndexAccess { filter: keyed, ..(**access).clone() }), rest),
    }
}

/// The part of `filter` that the keys of `index` decide, and the rest.
pub(super) fn split(
    index: &Index,
    filter: Option<Arc<Filter>>,
) -> (Option<Arc<KeyFilter>>, Option<Arc<Filter>>) {
    let Some(filter) = filter.filter(|filter| !matches!(**filter, Filter::AlwaysTrue)) else {
        return (None, None);
    };
    // The clustered index stands for the records, so a test on its keys saves nothing.
    if index.spec.collation.is_some() || index.spec.is_clustered() {
        return (None, Some(filter));
    }
    let (mut shown, mut tested, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let mut fields = 0;
    for conjunct in access::conjuncts(&filter) {
        match on_key(conjunct, index, &mut fields) {
            Some(on_key) => {
                shown.push(conjunct.clone());
                tested.push(on_key);
            }
            None => rest.push(conjunct.clone()),
        }
    }
    let (Some(shown), Some(tested)) = (all_of(shown), all_of(tested)) else {
        return (None, Some(filter));
    };
    let names = (0..fields).map(|field| name(field).into()).collect();
    let keyed = KeyFilter { shown: Arc::new(shown), tested, names };
    (Some(Arc::new(keyed)), all_of(rest).map(Arc::new))
}

fn all_of(mut parts: Vec<Filter>) -> Option<Filter> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Filter::And(parts)),
    }
}

/// The name of a key's field during the test: a path of one component that is no array position.
fn name(field: usize) -> String {
    format!("k{field}")
}

/// Returns true if keys hold the exact value of a field in every document.
fn holds_value(index: &Index, field: usize) -> bool {
    let spec = &index.spec;
    let part = &spec.key[field];
    let path = spec.path_field().map(|field| field.at);
    let term = spec.key.iter().position(|part| part.is_term());
    // A path or a term precedes its value or score.
    let special = |at: Option<usize>| at.is_some_and(|at| field == at || field == at + 1);
    part.holds_value()
        && !special(path)
        && !special(term)
        && !access::has_position(&part.path)
        && index.multikey_components(field) == 0
}

/// The condition on a flat document of the key's fields; none if keys do not decide it. Raises `fields` to the
/// number of leading fields that it needs.
fn on_key(filter: &Filter, index: &Index, fields: &mut usize) -> Option<Filter> {
    let mut all = |parts: &[Filter]| -> Option<Vec<Filter>> {
        parts.iter().map(|part| on_key(part, index, fields)).collect()
    };
    Some(match filter {
        Filter::And(parts) => Filter::And(all(parts)?),
        Filter::Or(parts) => Filter::Or(all(parts)?),
        Filter::Nor(parts) => Filter::Nor(all(parts)?),
        Filter::Not(inner) => Filter::Not(Box::new(on_key(inner, index, fields)?)),
        Filter::Field { path, pred } if !matches!(pred, Pred::Geo(_) | Pred::Near(_)) => {
            let mut key = index.spec.key.iter();
            let field = key.position(|part| *part.path == *path.as_str())?;
            if !holds_value(index, field) {
                return None;
            }
            *fields = (*fields).max(field + 1);
            Filter::Field { path: FieldPath::new(&name(field)), pred: pred.clone() }
        }
        _ => return None,
    })
}
