//! Indexes: specification, kinds and key generation, and the state of an index.

mod bulk;
mod ceiling;
mod encrypted;
pub(crate) mod keygen;
mod kind;
mod kinds;
pub(crate) mod precondition;
mod spec;

use std::sync::{Arc, OnceLock};

use nagi_bson::{DocBuf, Value, ValueBuf};
use nagi_error::Result;
use nagi_kv::Space;
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use nagi_lang::{expr::ParseCx, filter::Filter};
use nagi_percore::PerCore;

pub(crate) use bulk::Bulk;
pub(crate) use ceiling::Ceiling;
pub use kind::{IndexKind, KindFacts, PathField};
pub use kinds::{Geometry, Grid, hash_value, key_term};
pub use precondition::given;
pub(crate) use spec::EXPIRE_SECONDS_MAX;
pub use spec::{IndexSpec, KeyPart};

use crate::{
    clock, ident::Ident, index::precondition::Precondition, keystring, record_key::Layout,
};

/// One version of an index of a collection. It is immutable except for the multikey paths, which only grow.
#[derive(Debug)]
pub struct Index {
    /// Key pattern and options.
    pub spec: IndexSpec,
    /// False while it is being built: writers maintain it, plans must not use it.
    pub ready: bool,
    pub(crate) ident: Ident,
    pub(crate) multikey: Arc<Multikey>,
    pub(crate) partial: Option<Precondition>,
    /// For a partial index on buckets: the condition on measurements from which `partial` was made.
    pub(crate) given: Option<Filter>,
    /// True if the engine's key is the index key alone, with the record id in the value. That holds for every index
    /// created unique; an index made unique later has the record id in its keys.
    pub(crate) keyed_alone: bool,
    /// For a unique index that is being built: the doubtful keys, for which a writer met another record's entry.
    /// None once such writers are refused.
    pub(crate) deferred: Option<Arc<DeferredChecks>>,
    /// The range for the doubtful keys of writers, which nodes that share the data write for the one that builds.
    pub(crate) doubts: Option<Ident>,
    /// For an index that is not ready: the build that fills it.
    pub(crate) building: Option<Building>,
    /// For an index that is being built from sorted keys.
    pub(crate) bulk: Option<Arc<Bulk>>,
    /// True if writers log changes instead of writing keys.
    pub(crate) logs: bool,
    /// For an `_id` index that was complete when it was created.
    pub(crate) ceiling: Option<Arc<Ceiling>>,
    /// The kind of record keys of its collection.
    pub(crate) layout: Layout,
    /// For the index on `_id` of a clustered collection whose record keys are its ids: it has no entries of its
    /// own; the records in this range are its entries.
    pub(crate) records: Option<(Space, Ident)>,
    usage: Arc<Usage>,
}

/// The build of an unfinished index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Building {
    /// The ident of the build's first index; equal for all indexes of one request.
    pub(crate) build: Ident,
    /// True if it will replace the index of the same name; until then it has no name of its own.
    pub(crate) replaces: bool,
    /// The node that builds it, if nodes share the data.
    pub(crate) owner: Option<[u8; 16]>,
}

/// Number of uses by reads, since the index was created or the server started.
#[derive(Debug)]
struct Usage {
    /// None before the first use.
    counts: OnceLock<PerCore<AtomicU64>>,
    since_ms: i64,
}

/// Limit of per-core copies of the count: one kibibyte per used index.
const USAGE_COPIES_MAX: usize = 8;

/// Keys that more than one record may have; checked when the build ends.
#[derive(Debug, Default)]
pub(crate) struct DeferredChecks(pub(crate) Mutex<Vec<Box<[u8]>>>);

/// For each field of the key pattern, a bit set of the path components that are arrays in some document: bit 0 is
/// the first component. Bits are never cleared.
#[derive(Debug)]
pub(crate) struct Multikey {
    /// Set before the write that needs them commits.
    pub(crate) seen: Box<[AtomicU64]>,
    /// The stored bits; a write stores the bits it needs beyond them.
    pub(crate) durable: Box<[AtomicU64]>,
    /// The value of [`Index::multikey_changes`] after the last change of a bit; shared by all views of an index.
    pub(crate) changed: Arc<AtomicU64>,
}

/// Number of changes of any index's bits since the process began.
static CHANGES: AtomicU64 = AtomicU64::new(0);

impl Multikey {
    pub(crate) fn new(field_count: usize) -> Multikey {
        let zeros = || (0..field_count).map(|_| AtomicU64::new(0)).collect();
        Multikey { seen: zeros(), durable: zeros(), changed: Arc::default() }
    }

    /// Sets bits, before the write that needs them commits.
    pub(crate) fn see(&self, bits: &[u64]) {
        for (seen, bits) in self.seen.iter().zip(bits) {
            seen.fetch_or(*bits, Ordering::AcqRel);
        }
        // After the bits: a reader that sees the new number also sees them.
        let changes = CHANGES.fetch_add(1, Ordering::AcqRel) + 1;
        self.changed.fetch_max(changes, Ordering::AcqRel);
    }
}

impl Multikey {
    /// Takes over bits that are stored.
    pub(crate) fn learn(&self, stored: &[u64]) {
        let is_new =
            |(seen, bits): (&AtomicU64, &u64)| seen.load(Ordering::Acquire) & bits != *bits;
        if self.seen.iter().zip(stored).any(is_new) {
            self.see(stored);
        }
        for (durable, bits) in self.durable.iter().zip(stored) {
            durable.fetch_or(*bits, Ordering::AcqRel);
        }
    }
}

/// Number of words that an index stores for the paths with arrays.
pub(crate) fn multikey_words(spec: &IndexSpec) -> usize {
    spec.kind.facts().multikey_words.unwrap_or(spec.key.len())
}

/// Appends the key of a document's `_id`.
pub(crate) fn append_id(index: &Index, id: Value<'_>, key: &mut Vec<u8>) {
    let keyed = index.spec.collation.and_then(|collation| collation.keyed(id));
    keystring::append(keyed.as_ref().map_or(id, ValueBuf::value), false, key);
}

impl Index {
    /// An index as stored in the catalog.
    pub(crate) fn new(
        spec: IndexSpec,
        ready: bool,
        ident: Ident,
        multikey: Arc<Multikey>,
    ) -> Result<Index> {
        let of_buckets = spec.original.is_some();
        let parsed = |doc: &DocBuf| Precondition::partial(doc.as_doc(), spec.collation, of_buckets);
        let partial = spec.partial.as_ref().map(parsed);
        let original = spec.original.as_ref().map(|doc| doc.get("partialFilterExpression"));
        let given = match original {
            Some(Value::Doc(asked)) => {
                let asked = Filter::parse(asked, &mut ParseCx::new().collated(spec.collation))?;
                // One that cannot be given is one that no query implies.
                Some(given(&asked.normalize()).unwrap_or(Filter::AlwaysFalse))
            }
            _ => None,
        };
        let keyed_alone = spec.unique;
        let deferred = (keyed_alone && !ready).then(Arc::default);
        let ceiling = (keyed_alone && ready && spec.is_id()).then(Arc::default);
        let partial = partial.transpose()?;
        let usage = Arc::new(Usage { counts: OnceLock::new(), since_ms: clock::now_ms() });
        Ok(Index {
            partial,
            given,
            spec,
            ready,
            ident,
            multikey,
            keyed_alone,
            deferred,
            building: (!ready).then_some(Building { build: ident, replaces: false, owner: None }),
            doubts: None,
            bulk: None,
            logs: false,
            ceiling,
            layout: Layout::Numbers,
            records: None,
            usage,
        })
    }

    /// A new index that is being created, with an ident of its own.
    pub(crate) fn new_empty(spec: IndexSpec, ident: Ident, multikey: Multikey) -> Result<Index> {
        let mut index = Index::new(spec, true, ident, multikey.into())?;
        index.ceiling = index.ceiling.map(|_| Arc::new(Ceiling::of_nothing()));
        Ok(index)
    }

    /// The same index with other options, ready or not.
    pub(crate) fn changed(&self, spec: IndexSpec, ready: bool) -> Result<Index> {
        let mut changed = Index::new(spec, ready, self.ident, Arc::clone(&self.multikey))?;
        changed.keyed_alone = self.keyed_alone;
        changed.ceiling.clone_from(&self.ceiling);
        (changed.layout, changed.records) = (self.layout, self.records);
        changed.usage = Arc::clone(&self.usage);
        changed.deferred = self.deferred.clone().filter(|_| !ready);
        changed.doubts = self.doubts.filter(|_| !ready);
        changed.building = self.building.filter(|_| !ready);
        changed.bulk = self.bulk.clone().filter(|_| !ready);
        changed.logs = self.logs && !ready;
        Ok(changed)
    }

    /// The same entries with another pattern, and the known arrays on its paths.
    fn viewed(&self, spec: IndexSpec, multikey: Multikey) -> Index {
        Index {
            spec,
            ready: self.ready,
            ident: self.ident,
            multikey: Arc::new(multikey),
            partial: self.partial.clone(),
            given: self.given.clone(),
            keyed_alone: self.keyed_alone,
            deferred: self.deferred.clone(),
            doubts: self.doubts,
            building: self.building,
            bulk: self.bulk.clone(),
            logs: self.logs,
            ceiling: self.ceiling.clone(),
            layout: self.layout,
            records: self.records,
            usage: Arc::clone(&self.usage),
        }
    }

    /// The same index, for a collection whose records are stored there.
    pub(crate) fn of_records(mut self, layout: Layout, at: (Space, Ident)) -> Index {
        self.layout = layout;
        self.records = (layout == Layout::Ids && self.spec.is_clustered()).then_some(at);
        self
    }

    /// True if its entries are the records themselves.
    pub fn is_of_records(&self) -> bool {
        self.records.is_some()
    }

    /// The space and ident of its entries.
    pub(crate) fn place(&self) -> (Space, Ident) {
        self.records.unwrap_or((Space::Index, self.ident))
    }

    /// The same index, to be built from sorted keys: writers log their changes.
    pub(crate) fn logged(mut self, bulk: Arc<Bulk>) -> Index {
        (self.bulk, self.logs) = (Some(bulk), true);
        self
    }

    /// The same index as another node has stored it, with what this process knows of `older`.
    pub(crate) fn with_memory_of(&self, older: &Index) -> Index {
        let stored = self.multikey.seen.iter().map(|bits| bits.load(Ordering::Acquire));
        older.multikey.learn(&stored.collect::<Vec<_>>());
        let mut index = self.viewed(self.spec.clone(), Multikey::new(0));
        index.multikey = Arc::clone(&older.multikey);
        index.usage = Arc::clone(&older.usage);
        index.ceiling = index.ceiling.and(older.ceiling.clone());
        index.deferred = index.deferred.map(|new| older.deferred.clone().unwrap_or(new));
        index.bulk = index.bulk.map(|new| older.bulk.clone().unwrap_or(new));
        index
    }

    /// The same unfinished index; writers write its keys themselves.
    pub(crate) fn direct(&self) -> Result<Index> {
        let mut direct = self.changed(self.spec.clone(), false)?;
        direct.logs = false;
        Ok(direct)
    }

    /// The same unfinished index; duplicates of writers are refused.
    pub(crate) fn strict(&self) -> Result<Index> {
        let mut strict = self.changed(self.spec.clone(), false)?;
        strict.deferred = None;
        Ok(strict)
    }

    /// Returns true if some document has, or might have had, more than one key.
    ///
    /// Must be called after the reader was created: a bit is set before the commit that needs it becomes visible.
    pub fn is_multikey(&self) -> bool {
        (0..self.multikey.seen.len()).any(|field| self.multikey_components(field) != 0)
    }

    /// Number of times that any index met an array on a path without one. A plan stores the number before it calls
    /// [`Index::is_multikey`]; before its source reads a later snapshot, [`Index::multikey_changed_since`] tells if
    /// the answer is still valid.
    pub fn multikey_changes() -> u64 {
        CHANGES.load(Ordering::Acquire)
    }

    /// Returns true if it may have become multikey, or multikey on another path, after [`Index::multikey_changes`]
    /// was `noted`.
    pub fn multikey_changed_since(&self, noted: u64) -> bool {
        self.multikey.changed.load(Ordering::Acquire) > noted
    }

    /// The components of field `field`'s path that are arrays in some document; bit 0 is the first.
    pub fn multikey_components(&self, field: usize) -> u64 {
        self.multikey.seen[field].load(Ordering::Acquire)
    }

    /// The index of one path of an index whose keys contain paths, for plans: `$_path` and the path in the place of
    /// the field with both, and the known arrays on the path.
    ///
    /// Must be called after the reader was created, as for [`Index::is_multikey`]. Costs a copy of the
    /// specification.
    pub fn at_path(&self, path: &str) -> Option<Arc<Index>> {
        (self.spec.kind.facts().at_path)(self, path)
    }

    /// Counts a use of the index by a plan.
    pub fn note_use(&self) {
        self.note_uses(1);
    }

    /// Counts several uses.
    pub(crate) fn note_uses(&self, count: u64) {
        let counts = &self.usage.counts;
        let counts =
            counts.get_or_init(|| PerCore::at_most(USAGE_COPIES_MAX, |_| AtomicU64::new(0)));
        counts.own().fetch_add(count, Ordering::Relaxed);
    }

    /// Number of plans that used it, and the begin of the count (milliseconds since 1970).
    pub fn uses(&self) -> (u64, i64) {
        let counts = self.usage.counts.get();
        let sum = counts.map_or(0, |all| all.iter().map(|one| one.load(Ordering::Relaxed)).sum());
        (sum, self.usage.since_ms)
    }

    /// True if it is a copy that `reIndex` fills beside the index of the same name; listings and lookups by name
    /// mean the other one.
    pub fn is_copy(&self) -> bool {
        self.building.is_some_and(|building| building.replaces)
    }

    /// Name, as in `listIndexes`.
    pub fn name(&self) -> &str {
        &self.spec.name
    }
}
