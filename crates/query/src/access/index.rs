//! Access paths through an index: a scan of part of it, a search in a text index, and the use of its keys by a
//! projection.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_lang::{
    filter::{Filter, TextFilter},
    sort::SortSpec,
};
use nagi_store::{Collection, Index, key_term};

use super::{Interval, Intervals};

/// A scan of part of an index.
#[derive(Clone)]
pub(crate) struct IndexAccess {
    pub(crate) index: Arc<Index>,
    /// For each field of the key pattern, the values to visit, ascending.
    pub(crate) bounds: Vec<Intervals>,
    /// Forward is the direction of the index itself.
    pub(crate) forward: bool,
    /// True if a record may have several entries within the bounds, so that duplicates must be removed.
    pub(crate) dedup: bool,
    /// The number of leading fields for whose values one entry each is enough; none if every entry is needed.
    pub(crate) distinct: Option<usize>,
    /// The filter that is tested on each key within the bounds.
    pub(crate) filter: Option<Arc<KeyFilter>>,
    /// `min` (inclusive) and `max` (exclusive) of the request, as whole keys.
    pub(crate) range: Option<(Vec<u8>, Vec<u8>)>,
}

impl IndexAccess {
    /// The stage's name in explain. A clustered index stands for the records themselves.
    pub(crate) fn stage_name(&self) -> &'static str {
        match self.index.spec.is_clustered() {
            true if self.scans_all() => "COLLSCAN",
            true => "CLUSTERED_IXSCAN",
            false => "IXSCAN",
        }
    }

    /// Returns true if it reads all records of a clustered collection.
    pub(crate) fn scans_all(&self) -> bool {
        self.index.spec.is_clustered()
            && self.range.is_none()
            && self.bounds.iter().all(Intervals::is_all)
    }
}

/// Conditions on the fields of an index.
pub(crate) struct KeyFilter {
    /// The conditions with the paths of documents, for explain.
    pub(crate) shown: Arc<Filter>,
    /// The same conditions on a flat document of the key's fields, whose names are `names`.
    pub(crate) tested: Filter,
    /// The names of the key's leading fields, up to the last one with a condition.
    pub(crate) names: Box<[Box<str>]>,
}

/// The sources of a projection's `$meta`: the sort key and the index key.
#[derive(Clone, Default)]
pub(crate) struct MetaSource {
    pub(crate) sort: Option<Arc<SortSpec>>,
    pub(crate) index: Option<Arc<Index>>,
}

/// A search in a text index.
pub(crate) struct TextAccess {
    pub(crate) collection: Arc<Collection>,
    pub(crate) index: Arc<Index>,
    /// The search, with the settings of the index.
    pub(crate) text: Arc<TextFilter>,
    /// The position in the key pattern of the field with terms; the next field has their scores.
    pub(crate) term: usize,
    /// Bounds of the other fields.
    pub(crate) bounds: Vec<Intervals>,
}

impl TextAccess {
    /// The scan of one term, with the filter that is tested on its keys.
    pub(crate) fn scan(&self, term: &str, filter: Option<Arc<KeyFilter>>) -> Arc<IndexAccess> {
        let term = key_term(term);
        let term = Value::String(&term);
        let mut bounds = self.bounds.clone();
        bounds[self.term] =
            Intervals::from_any(Interval::new(term, true, term, true).into_iter().collect());
        Arc::new(IndexAccess {
            index: self.index.clone(),
            bounds,
            forward: true,
            dedup: false,
            distinct: None,
            filter,
            range: None,
        })
    }
}
