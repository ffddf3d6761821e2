//! A scan of part of an index, a search in a text index, and what a projection reads of their keys.

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
    /// For each field of the key pattern the values to visit, ascending.
    pub(crate) bounds: Vec<Intervals>,
    /// Forward is the direction of the index itself.
    pub(crate) forward: bool,
    /// Whether a record may come up more than once.
    pub(crate) dedup: bool,
    /// If one entry for each value of the leading fields is enough: how many fields that is.
    pub(crate) distinct: Option<usize>,
    /// What is tested on each key within the bounds.
    pub(crate) filter: Option<Arc<KeyFilter>>,
    /// `min` and `max` of the request: whole keys, inclusive and exclusive.
    pub(crate) range: Option<(Vec<u8>, Vec<u8>)>,
}

impl IndexAccess {
    /// Explain's name of the scan. The clustered index stands for the records.
    pub(crate) fn stage_name(&self) -> &'static str {
        match self.index.spec.is_clustered() {
            true if self.scans_all() => "COLLSCAN",
            true => "CLUSTERED_IXSCAN",
            false => "IXSCAN",
        }
    }

    /// Whether it walks all records of a clustered collection.
    pub(crate) fn scans_all(&self) -> bool {
        self.index.spec.is_clustered()
            && self.range.is_none()
            && self.bounds.iter().all(Intervals::is_all)
    }
}

/// Conditions on the fields of an index.
pub(crate) struct KeyFilter {
    /// With the paths of documents, for explain.
    pub(crate) shown: Arc<Filter>,
    /// The same about a flat document of the key's fields, called as `names` says.
    pub(crate) tested: Filter,
    /// The names of the key's leading fields, up to the last one that is tested.
    pub(crate) names: Box<[Box<str>]>,
}

/// Where a projection's `$meta` finds the values sorted by and the index key.
#[derive(Clone, Default)]
pub(crate) struct MetaSource {
    pub(crate) sort: Option<Arc<SortSpec>>,
    pub(crate) index: Option<Arc<Index>>,
}

/// A search in a text index.
pub(crate) struct TextAccess {
    pub(crate) collection: Arc<Collection>,
    pub(crate) index: Arc<Index>,
    /// Bound to the index.
    pub(crate) text: Arc<TextFilter>,
    /// The field of the key pattern that holds terms; their scores stand in the next.
    pub(crate) term: usize,
    /// Bounds of the other fields.
    pub(crate) bounds: Vec<Intervals>,
}

impl TextAccess {
    /// The scan of one term, with what is tested on its keys.
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
