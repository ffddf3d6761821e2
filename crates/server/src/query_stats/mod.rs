//! Query statistics, which `$queryStats` shows: what each kind of query costs, in memory.
//!
//! ```text
//!   find, aggregate, distinct, count --> rate limit --> key --> entry: executions, times, documents, plans
//!     getMore of its cursor ---------> Pending, until the cursor is gone --^
//! ```
//!
//! A kind of query is its key ([`key`]): the shape, the client's software, the options. Off (the parameter
//! `internalQueryStatsRateLimit` is 0, its default), a query costs one load here.
//!
//! Invariants
//! - All entries together have at most the bytes of `internalQueryStatsCacheSize`: the least recently used ones make
//!   way for new ones. Their memory is charged to the plans' pool.
//! - Values of queries are not kept, only their types.
//! - Shards have locks of their own; nothing else is locked while one is held.

mod entry;
mod key;
mod pending;
mod shown;

use std::array::from_fn;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;
use nagi_bson::{Doc, DocWriter};
use nagi_budget::{Budget, Charge, Pool};
use nagi_store::Store;
use parking_lot::Mutex;

use crate::cache_size::CacheSize;
use crate::clock;
use crate::metrics::Counter;
use crate::op::ClientMetadata;
use crate::request::Request;
use crate::settings::query_settings::ShapeHash;

use entry::Entry;
pub(crate) use entry::Observed;
pub(crate) use pending::Pending;
pub(crate) use shown::Transform;

const SHARD_COUNT: usize = 16;
/// Queries that are longer have no entry: reading them again costs more than it tells.
const BODY_BYTES_MAX: usize = 256 << 10;
/// The longest key.
const KEY_BYTES_MAX: usize = 64 << 10;
/// What the tables need for an entry beside its key.
const ENTRY_BYTES: usize = size_of::<Entry>() + 160;
/// Step in which memory is charged.
const CHARGE_BYTES: u64 = 64 << 10;

/// The statistics of all queries.
pub(crate) struct QueryStats {
    shards: [Mutex<Shard>; SHARD_COUNT],
    hasher: RandomState,
    /// The limit of all entries.
    bytes_max: AtomicU64,
    window: Window,
    limited: Counter,
    evicted: Counter,
    /// Queries without an entry: they are too long, or there is no memory.
    failed: Counter,
}

/// A part of the entries, by the hash of their keys.
struct Shard {
    entries: HashMap<Arc<[u8]>, Entry, RandomState>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, Arc<[u8]>>,
    next_use: u64,
    bytes: usize,
    charge: Charge,
}

/// What tells of a query, at its end or when its cursor is parked.
pub(crate) struct Query<'q> {
    pub(crate) request: &'q Request<'q>,
    pub(crate) client: Option<&'q ClientMetadata>,
    pub(crate) store: &'q Store,
    /// The default read concern that an administrator has set.
    pub(crate) default_level: Option<&'static str>,
}

/// The limit of queries in a second.
#[derive(Default)]
struct Window {
    begin_ms: AtomicI64,
    count: AtomicI64,
}

impl Window {
    /// Returns true if another query may be recorded. `limit`: in a second; below 0 for all.
    fn admits(&self, limit: i64, now_ms: i64) -> bool {
        if limit < 0 {
            return true;
        }
        let begin = self.begin_ms.load(Relaxed);
        let is_over = !(0..1000).contains(&(now_ms - begin));
        if is_over && self.begin_ms.compare_exchange(begin, now_ms, Relaxed, Relaxed).is_ok() {
            self.count.store(0, Relaxed);
        }
        // Most queries of a busy server are refused, and need not write for that.
        self.count.load(Relaxed) < limit && self.count.fetch_add(1, Relaxed) < limit
    }
}

impl Shard {
    fn touch(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.by_use.remove(&entry.used) {
            entry.used = self.next_use;
            self.by_use.insert(entry.used, key);
            self.next_use += 1;
        }
        Some(entry)
    }

    /// Removes the entry that was not used for the longest time. Returns false if there is none.
    fn evict(&mut self) -> bool {
        let Some((_, key)) = self.by_use.pop_first() else { return false };
        self.entries.remove(&key);
        self.bytes -= key.len() + ENTRY_BYTES;
        true
    }

    /// Removes entries until they have at most `bytes`. Returns their number.
    fn shrink_to(&mut self, bytes: usize) -> u64 {
        let mut evicted = 0;
        while self.bytes > bytes && self.evict() {
            evicted += 1;
        }
        evicted
    }

    fn add(&mut self, key: &[u8], mut entry: Entry) {
        let key: Arc<[u8]> = key.into();
        entry.used = self.next_use;
        self.next_use += 1;
        self.by_use.insert(entry.used, key.clone());
        self.bytes += key.len() + ENTRY_BYTES;
        self.entries.insert(key, entry);
    }
}

impl QueryStats {
    /// `size`: the value of `internalQueryStatsCacheSize`.
    pub(crate) fn new(budget: &Arc<Budget>, size: CacheSize) -> QueryStats {
        let shard = |_| {
            Mutex::new(Shard {
                entries: HashMap::default(),
                by_use: BTreeMap::new(),
                next_use: 0,
                bytes: 0,
                charge: Charge::empty(budget, Pool::Plans),
            })
        };
        QueryStats {
            shards: from_fn(shard),
            hasher: RandomState::default(),
            bytes_max: AtomicU64::new(size.bytes(budget)),
            window: Window::default(),
            limited: Counter::default(),
            evicted: Counter::default(),
            failed: Counter::default(),
        }
    }

    /// Sets the limit of all entries.
    pub(crate) fn resize(&self, budget: &Budget, size: CacheSize) {
        self.bytes_max.store(size.bytes(budget), Relaxed);
        let each = self.shard_bytes();
        for shard in &self.shards {
            let mut shard = shard.lock();
            self.evicted.add(shard.shrink_to(each));
            let bytes = shard.bytes as u64;
            shard.charge.shrink_to(bytes);
        }
    }

    fn shard_bytes(&self) -> usize {
        usize::try_from(self.bytes_max.load(Relaxed)).unwrap_or(usize::MAX) / SHARD_COUNT
    }

    /// Records a query that has ended. `limit`: the value of `internalQueryStatsRateLimit`, which is not 0.
    pub(crate) fn record(&self, limit: i64, query: &Query<'_>, observed: &Observed) {
        if let Some(key) = self.key(limit, query) {
            self.observe(&key, observed);
        }
    }

    /// The record of a query whose cursor stays open; `None` if it is not to be recorded.
    pub(crate) fn begin(
        self: &Arc<QueryStats>,
        limit: i64,
        query: &Query<'_>,
        first: Observed,
    ) -> Option<Box<Pending>> {
        let key = self.key(limit, query)?;
        Some(Pending::new(self.clone(), key, first, key::is_change_stream(query.request)))
    }

    /// The key of a query; `None` if the rate limit excludes it.
    fn key(&self, limit: i64, query: &Query<'_>) -> Option<Box<[u8]>> {
        if !self.window.admits(limit, clock::wall_ms()) {
            self.limited.increment();
            return None;
        }
        if query.request.body.len() > BODY_BYTES_MAX {
            self.failed.increment();
            return None;
        }
        let key = key::of(query)?;
        if key.as_bytes().len() > KEY_BYTES_MAX {
            self.failed.increment();
            return None;
        }
        Some(key.as_bytes().into())
    }

    /// Adds an execution to the entry of a key.
    fn observe(&self, key: &[u8], observed: &Observed) {
        let now_ms = clock::wall_ms();
        // The upper bits: the tables of a shard use the lower ones.
        let at = (self.hasher.hash_one(key) >> 48) as usize % SHARD_COUNT;
        let mut shard = self.shards[at].lock();
        if let Some(entry) = shard.touch(key) {
            entry.add(observed, now_ms);
            return;
        }
        let bytes = key.len() + ENTRY_BYTES;
        let Some(room) = self.shard_bytes().checked_sub(bytes) else {
            self.failed.increment();
            return;
        };
        self.evicted.add(shard.shrink_to(room));
        loop {
            let wanted = (shard.bytes + bytes) as u64;
            if shard.charge.try_cover(wanted, CHARGE_BYTES) {
                break;
            }
            if !shard.evict() {
                self.failed.increment();
                return;
            }
            self.evicted.increment();
        }
        let shape = Doc::trusted(key).get("queryShape").as_doc().unwrap_or(Doc::EMPTY);
        shard.add(key, Entry::new(ShapeHash::of_bytes(shape.as_bytes()), observed, now_ms));
    }

    /// `metrics.queryStats` of `serverStatus`.
    pub(crate) fn write_status(&self, out: &mut DocWriter<'_>) {
        let (mut bytes, mut count) = (0, 0);
        for shard in &self.shards {
            let shard = shard.lock();
            bytes += shard.bytes;
            count += shard.entries.len();
        }
        out.put("numEvicted", self.evicted.get());
        out.put("numRateLimitedRequests", self.limited.get());
        out.put("queryStatsStoreSizeEstimateBytes", bytes as i64);
        out.put("numQueryStatsStoreWriteErrors", self.failed.get());
        // The hash of a name cannot fail.
        out.put("numHmacApplicationErrors", 0_i64);
        out.put("numEntries", count as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(bytes: &str) -> QueryStats {
        let size = CacheSize::parse(bytes).expect("a size");
        QueryStats::new(&Budget::new(1 << 30), size)
    }

    fn key_of(n: u32) -> Vec<u8> {
        let n = i64::from(n);
        nagi_bson::doc! { "queryShape": { "n": n } }.as_bytes().to_vec()
    }

    fn count(stats: &QueryStats) -> usize {
        stats.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    #[test]
    fn the_least_recently_used_entries_make_way() {
        let stats = stats("100KB");
        let often = key_of(0);
        for n in 0..2000 {
            stats.observe(&key_of(n), &Observed::default());
            stats.observe(&often, &Observed::default());
        }
        let bytes: usize = stats.shards.iter().map(|shard| shard.lock().bytes).sum();
        assert!(bytes <= 100 << 10, "{bytes}");
        assert!(count(&stats) > 20, "{}", count(&stats));
        assert_eq!(stats.evicted.get(), 2000 - count(&stats) as i64);
        let found = stats
            .shards
            .iter()
            .find_map(|shard| shard.lock().entries.get(&often[..]).map(|entry| entry.executions()));
        assert_eq!(found, Some(2001));
        stats.resize(&Budget::new(1 << 30), CacheSize::parse("0%").expect("a size"));
        assert_eq!(count(&stats), 0);
        stats.observe(&often, &Observed::default());
        assert_eq!((count(&stats), stats.failed.get()), (0, 1));
    }

    #[test]
    fn the_rate_limit_counts_by_seconds() {
        let window = Window::default();
        let admitted = |limit, ms| (0..10).filter(|_| window.admits(limit, ms)).count();
        assert_eq!(admitted(3, 10_000), 3);
        assert_eq!(admitted(3, 10_999), 0);
        assert_eq!(admitted(3, 11_000), 3);
        // The clock may be set back.
        assert_eq!(admitted(3, 5_000), 3);
        assert_eq!(admitted(-1, 5_000), 10);
    }

    #[test]
    fn entries_need_memory_of_the_budget() {
        let budget = Budget::new(32 << 20);
        let stats = QueryStats::new(&budget, CacheSize::parse("1GB").expect("a size"));
        for n in 0..20_000 {
            stats.observe(&key_of(n), &Observed::default());
        }
        let used = budget.pool(Pool::Plans).used;
        assert!(used <= budget.limit(Pool::Plans), "{used}");
        assert!(count(&stats) > 0);
        stats.resize(&budget, CacheSize::parse("0%").expect("a size"));
        assert_eq!(budget.pool(Pool::Plans).used, 0);
    }
}
