//! Which buckets of a time series collection are open: for each metadata, the buckets that got measurements most
//! recently; and some of these buckets, unpacked.
//!
//! The stored documents are read again by each insert. An id that is wrong costs only a lookup, and an unpacked bucket
//! is used only if the document is the one that it was written as.
//!
//! The memory is bounded by two generations: entries that are used move to the young one, and when it is full, it
//! becomes the old one and the entries of the old one are dropped. If the unpacked buckets of all collections are too
//! large, the collection that has not been used for the longest time gives up a generation.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use foldhash::HashMap;
use nagi_bson::{DocBuf, ValueBuf};
use nagi_store::RecordId;
use nagi_timeseries::bucket::Bucket;

use super::{series_counts::Counts, turns::Turns};

/// The size of one generation of a collection's ids, in bytes.
const GENERATION_BYTES_MAX: usize = 2 << 20;

/// The size of one generation of a collection's unpacked buckets, in bytes.
const UNPACKED_BYTES_MAX: usize = ALL_UNPACKED_BYTES_MAX / 2;

/// The size of the unpacked buckets of all collections, in bytes.
const ALL_UNPACKED_BYTES_MAX: usize = 128 << 20;

/// The most open buckets for one metadata. Several, because late measurements have another bucket than new ones.
const BUCKETS_MAX: usize = 4;

/// The bytes of an entry beside its metadata.
const ENTRY_OVERHEAD: usize = 96 + BUCKETS_MAX * 12;

/// The budget of all collections.
static ALL: Budget = Budget::new(ALL_UNPACKED_BYTES_MAX);

/// Metadata as a key; none for measurements without.
type Meta = Option<ValueBuf>;

type Ids = Vec<[u8; 12]>;

/// A bucket, and the record and the document that it is stored as.
pub(super) struct Unpacked {
    pub(super) bucket: Bucket,
    pub(super) record: RecordId,
    pub(super) stored: DocBuf,
}

impl Unpacked {
    /// Gives back memory that it does not need. Returns what it uses.
    pub(super) fn shrink(&mut self) -> usize {
        self.bucket.shrink();
        self.bytes()
    }

    fn bytes(&self) -> usize {
        self.bucket.heap_bytes() + self.stored.as_bytes().len()
    }
}

/// See [`OpenBuckets::figures`].
#[derive(Default)]
pub(super) struct Figures {
    /// Buckets that are known to be open.
    pub(super) known: usize,
    /// Buckets that are kept unpacked.
    pub(super) unpacked: usize,
    /// Their memory, and that of the ids.
    pub(super) bytes: usize,
}

/// What unpacked buckets of several collections may use together.
struct Budget {
    bytes_max: usize,
    bytes: AtomicUsize,
    /// Counts the uses of collections.
    clock: AtomicU64,
    collections: Mutex<Vec<Weak<Shared>>>,
}

impl Budget {
    const fn new(bytes_max: usize) -> Budget {
        let (bytes, clock) = (AtomicUsize::new(0), AtomicU64::new(0));
        Budget { bytes_max, bytes, clock, collections: Mutex::new(Vec::new()) }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.bytes.load(Relaxed) + bytes <= self.bytes_max
    }

    /// Frees memory for a bucket of `except`, at the expense of the collections that have not been used for the longest
    /// time. The caller must hold no lock.
    fn make_room(&self, bytes: usize, except: &Arc<Shared>) {
        if self.fits(bytes) {
            return;
        }
        let others = {
            let mut all = self.collections.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|weak| weak.strong_count() > 0);
            let others = all.iter().filter_map(Weak::upgrade);
            let mut others: Vec<_> = others.filter(|one| !Arc::ptr_eq(one, except)).collect();
            others.sort_by_key(|one| one.used.load(Relaxed));
            others
        };
        for other in &others {
            for old in [true, false] {
                let mut all = other.lock();
                let held = if old { &mut all.old_held } else { &mut all.young_held };
                *held = Held::new(held.budget);
                if self.fits(bytes) {
                    return;
                }
            }
        }
    }
}

/// Unpacked buckets by their ids, with their sizes.
struct Held {
    buckets: HashMap<[u8; 12], (Unpacked, usize)>,
    bytes: usize,
    budget: &'static Budget,
}

impl Held {
    fn new(budget: &'static Budget) -> Held {
        Held { buckets: HashMap::default(), bytes: 0, budget }
    }

    fn take(&mut self, id: &[u8; 12]) -> Option<Unpacked> {
        let (unpacked, bytes) = self.buckets.remove(id)?;
        self.bytes -= bytes;
        self.budget.bytes.fetch_sub(bytes, Relaxed);
        Some(unpacked)
    }

    fn put(&mut self, id: [u8; 12], unpacked: Unpacked, bytes: usize) {
        drop(self.take(&id));
        self.buckets.insert(id, (unpacked, bytes));
        self.bytes += bytes;
        self.budget.bytes.fetch_add(bytes, Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

struct Generations {
    young: HashMap<Meta, Ids>,
    young_bytes: usize,
    old: HashMap<Meta, Ids>,
    young_held: Held,
    old_held: Held,
}

/// What the budget knows of a collection.
struct Shared {
    all: Mutex<Generations>,
    /// The time of its last use, by the clock of the budget.
    used: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open buckets of one collection.
pub(super) struct OpenBuckets {
    shared: Arc<Shared>,
    budget: &'static Budget,
    pub(super) counts: Counts,
    /// Of the statements that add to them.
    pub(super) turns: Turns,
}

impl Default for OpenBuckets {
    fn default() -> OpenBuckets {
        OpenBuckets::within(&ALL)
    }
}

impl OpenBuckets {
    fn within(budget: &'static Budget) -> OpenBuckets {
        let generations = Generations {
            young: HashMap::default(),
            young_bytes: 0,
            old: HashMap::default(),
            young_held: Held::new(budget),
            old_held: Held::new(budget),
        };
        let shared = Arc::new(Shared { all: Mutex::new(generations), used: AtomicU64::new(0) });
        let mut all = budget.collections.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|weak| weak.strong_count() > 0);
        all.push(Arc::downgrade(&shared));
        drop(all);
        OpenBuckets { shared, budget, counts: Counts::default(), turns: Turns::default() }
    }

    /// What is in memory, of all collections.
    pub(super) fn figures() -> Figures {
        let all: Vec<_> = {
            let all = ALL.collections.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let mut figures = Figures { bytes: ALL.bytes.load(Relaxed), ..Figures::default() };
        for shared in all {
            let all = shared.lock();
            figures.known +=
                all.young.values().chain(all.old.values()).map(Vec::len).sum::<usize>();
            figures.unpacked += all.young_held.buckets.len() + all.old_held.buckets.len();
            figures.bytes += all.young_bytes;
        }
        figures
    }

    /// The ids of the open buckets for a metadata, the most recent first.
    pub(super) fn of(&self, meta: &Meta) -> Ids {
        let all = self.shared.lock();
        all.young.get(meta).or_else(|| all.old.get(meta)).cloned().unwrap_or_default()
    }

    /// Makes a bucket the most recent one.
    pub(super) fn note(&self, meta: &Meta, id: [u8; 12]) {
        let mut all = self.shared.lock();
        let all = &mut *all;
        if !all.young.contains_key(meta) {
            all.young_bytes += ENTRY_OVERHEAD + meta.as_ref().map_or(0, ValueBuf::heap_bytes);
            if all.young_bytes > GENERATION_BYTES_MAX {
                all.old = std::mem::take(&mut all.young);
                all.young_bytes = ENTRY_OVERHEAD + meta.as_ref().map_or(0, ValueBuf::heap_bytes);
            }
            let before = all.old.remove(meta).unwrap_or_default();
            all.young.insert(meta.clone(), before);
        }
        let Some(ids) = all.young.get_mut(meta) else { return };
        ids.retain(|other| *other != id);
        ids.truncate(BUCKETS_MAX - 1);
        ids.insert(0, id);
    }

    /// Forgets a bucket that is full or gone.
    pub(super) fn forget(&self, meta: &Meta, id: [u8; 12]) {
        let mut all = self.shared.lock();
        let all = &mut *all;
        for generation in [&mut all.young, &mut all.old] {
            if let Some(ids) = generation.get_mut(meta) {
                ids.retain(|other| *other != id);
            }
        }
    }

    /// Takes an unpacked bucket out.
    pub(super) fn take(&self, id: &[u8; 12]) -> Option<Unpacked> {
        let mut all = self.shared.lock();
        all.young_held.take(id).or_else(|| all.old_held.take(id))
    }

    /// Keeps an unpacked bucket, if there is memory for it.
    pub(super) fn hold(&self, mut unpacked: Unpacked) {
        let (id, bytes) = (*unpacked.bucket.id(), unpacked.shrink());
        self.shared.used.store(self.budget.clock.fetch_add(1, Relaxed), Relaxed);
        if bytes > UNPACKED_BYTES_MAX {
            return;
        }
        self.budget.make_room(bytes, &self.shared);
        let mut all = self.shared.lock();
        if all.young_held.bytes + bytes > UNPACKED_BYTES_MAX || !self.budget.fits(bytes) {
            all.old_held = std::mem::replace(&mut all.young_held, Held::new(self.budget));
        }
        if self.budget.fits(bytes) {
            all.young_held.put(id, unpacked, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::Value;

    fn meta(n: i32) -> Meta {
        Some(ValueBuf::new(Value::Int32(n)))
    }

    #[test]
    fn recent_buckets_come_first() {
        let open = OpenBuckets::default();
        for n in 0..6 {
            open.note(&meta(1), [n; 12]);
        }
        open.note(&meta(1), [3; 12]);
        assert_eq!(open.of(&meta(1)), [[3; 12], [5; 12], [4; 12], [2; 12]]);
        open.forget(&meta(1), [5; 12]);
        assert_eq!(open.of(&meta(1)), [[3; 12], [4; 12], [2; 12]]);
        assert!(open.of(&meta(2)).is_empty() && open.of(&None).is_empty());
        open.note(&None, [9; 12]);
        assert_eq!(open.of(&None), [[9; 12]]);
    }

    fn unpacked(n: u32, text: usize) -> Unpacked {
        let options = nagi_bson::doc! { "timeField": "t" };
        let options = nagi_timeseries::Options::parse(options.as_doc(), "d.c").unwrap();
        let mut id = [7; 12];
        id[..4].copy_from_slice(&n.to_be_bytes());
        let mut bucket = Bucket::renewed(id, 0, None);
        let text = "x".repeat(text);
        let doc = nagi_bson::doc! { "t": (Value::DateTime(5)), "a": (text.as_str()) };
        bucket.add(doc.as_doc(), 5, &options).unwrap();
        let stored = bucket.to_doc(&options).unwrap();
        Unpacked { bucket, record: RecordId::Id(1), stored }
    }

    #[test]
    fn unpacked_buckets_are_bounded() {
        let open = OpenBuckets::default();
        for n in 0..600 {
            open.hold(unpacked(n, 100_000));
        }
        let first = *unpacked(0, 1).bucket.id();
        let last = *unpacked(599, 1).bucket.id();
        assert!(open.take(&first).is_none());
        assert!(open.take(&last).is_some() && open.take(&last).is_none());
        let all = open.shared.lock();
        let held = all.young_held.bytes + all.old_held.bytes;
        assert!(held > UNPACKED_BYTES_MAX / 2 && held <= 2 * UNPACKED_BYTES_MAX);
        drop(all);
        open.hold(unpacked(1000, UNPACKED_BYTES_MAX));
        assert!(open.take(unpacked(1000, 1).bucket.id()).is_none(), "larger than the limit");
    }

    #[test]
    fn idle_collections_give_up_their_buckets() {
        // Two collections and a half.
        let bytes_max = 10 * unpacked(0, 100_000).bytes();
        let budget = Box::leak(Box::new(Budget::new(bytes_max)));
        let all: Vec<_> = (0..4).map(|_| OpenBuckets::within(budget)).collect();
        let held = |open: &OpenBuckets| {
            let all = open.shared.lock();
            all.young_held.bytes + all.old_held.bytes
        };
        for open in &all[..2] {
            (0..4).for_each(|n| open.hold(unpacked(n, 100_000)));
            assert!(held(open) > 1 << 20);
        }
        // The first one is used again, so the second one is idle for longer.
        all[0].hold(unpacked(9, 100));
        (0..4).for_each(|n| all[2].hold(unpacked(n, 100_000)));
        assert!(held(&all[0]) > 1 << 20 && held(&all[1]) == 0 && held(&all[2]) > 1 << 20);
        (0..4).for_each(|n| all[3].hold(unpacked(n, 100_000)));
        assert!(held(&all[0]) == 0 && held(&all[2]) > 1 << 20 && held(&all[3]) > 1 << 20);
        let sum: usize = all.iter().map(held).sum();
        assert!(sum == budget.bytes.load(Relaxed) && budget.fits(0));
        drop(all);
        assert_eq!(budget.bytes.load(Relaxed), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let open = OpenBuckets::default();
        for n in 0..200_000 {
            open.note(&meta(n), [1; 12]);
            open.note(&meta(-1), [2; 12]);
        }
        let all = open.shared.lock();
        assert!(all.young.len() + all.old.len() < 2 * GENERATION_BYTES_MAX / ENTRY_OVERHEAD);
        drop(all);
        assert_eq!(open.of(&meta(-1)), [[2; 12]], "what is used stays");
        assert!(open.of(&meta(0)).is_empty());
    }
}
