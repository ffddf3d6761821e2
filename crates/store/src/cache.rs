//! The record cache: whole documents by `_id`, above the engine.
//!
//! A hit costs a hash, a lock and a copy; a read through the engine costs ten times as much. The cache is sharded
//! by hash; each shard is limited in bytes and evicts by second chance.
//!
//! Coherence: before a write commits, it removes the documents it changes and marks their slots as pending until
//! the commit is over. A reader must not fill a slot that is pending, nor one that was pending since the reader
//! began (the slot's epoch tells). So a cached document is always the newest committed version.
//!
//! ```text
//!   reader            miss, epoch 4 ... reads old version ............ fill refused: epoch 5
//!   writer                       begin_write: epoch 5 ... commit ... end_write
//! ```
//!
//! Dropped collections are not removed from the cache: their idents are never reused, and their entries are evicted
//! in time.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::LazyLock;

use nagi_kv::reuse::{CacheEstimate, Reuse};
use nagi_kv::sync::{
    HashState, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use nagi_percore::note_shared;

use crate::ident::Ident;

const SHARD_COUNT: usize = 64;
const SLOT_COUNT: usize = 256;
/// Memory of an entry in addition to its bytes.
const ENTRY_BYTES: usize = 120;
/// At most one of 64 documents is in the sample that tells what another size would do: a hit takes less than a
/// microsecond, a read in the sample a fifth of one more.
const SAMPLED_SHIFT: u32 = 6;

/// Documents by collection and `_id` key string.
pub(crate) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    /// May change at any time.
    shard_bytes_max: AtomicUsize,
    reuse: Reuse,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<u64, Entry, HashState>,
    queue: VecDeque<u64>,
    bytes: usize,
    slots: Vec<Slot>,
    hit_count: u64,
    miss_count: u64,
}

#[derive(Default, Clone, Copy)]
struct Slot {
    pending: u32,
    epoch: u32,
}

struct Entry {
    ident: Ident,
    used: bool,
    /// Key string of `_id`, then the document.
    bytes: Box<[u8]>,
    key_len: u32,
}

/// Permission to fill a slot; invalid once the slot is written.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    hash: u64,
    epoch: u32,
}

impl Cache {
    /// A cache of about `bytes_max`; none if that is too small to be useful.
    pub(crate) fn new(bytes_max: usize) -> Option<Cache> {
        let shard_bytes_max = bytes_max / SHARD_COUNT;
        if shard_bytes_max < 4096 {
            return None;
        }
        let shard = || Shard { slots: vec![Slot::default(); SLOT_COUNT], ..Shard::default() };
        let shards = (0..SHARD_COUNT).map(|_| Mutex::new(shard())).collect();
        let reuse = Reuse::new(SAMPLED_SHIFT, bytes_max as u64);
        Some(Cache { shards, shard_bytes_max: AtomicUsize::new(shard_bytes_max), reuse })
    }

    /// Changes the size; the excess is evicted at once.
    pub(crate) fn resize(&self, bytes_max: usize) {
        let shard_bytes_max = bytes_max / SHARD_COUNT;
        let before = self.shard_bytes_max.swap(shard_bytes_max, Relaxed);
        self.reuse.set_capacity(bytes_max as u64);
        if shard_bytes_max < before {
            self.shards.iter().for_each(|shard| shard.lock().evict(shard_bytes_max));
        }
    }

    /// Removes everything, including documents that are being read at this moment.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.entries.clear();
            shard.queue.clear();
            shard.bytes = 0;
            shard.slots.iter_mut().for_each(|slot| slot.epoch = slot.epoch.wrapping_add(1));
        }
    }

    /// Bytes in use, and their limit.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let used = self.shards.iter().map(|shard| shard.lock().bytes).sum();
        (used, self.shard_bytes_max.load(Relaxed) * SHARD_COUNT)
    }

    /// Bytes of one collection's documents. Visits every entry, one shard after another: some ten milliseconds for a
    /// million of them.
    pub(crate) fn bytes_of(&self, ident: Ident) -> usize {
        let of_shard = |shard: &Mutex<Shard>| -> usize {
            let shard = shard.lock();
            shard.entries.values().filter(|entry| entry.ident == ident).map(Entry::size).sum()
        };
        self.shards.iter().map(of_shard).sum()
    }

    /// Number of reads with a hit, and of reads without.
    pub(crate) fn reads(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(hits, misses), shard| {
            let shard = shard.lock();
            (hits + shard.hit_count, misses + shard.miss_count)
        })
    }

    pub(crate) fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    /// What another size would do; `None` while too few reads are known.
    pub(crate) fn estimate(&self) -> Option<CacheEstimate> {
        let (hits, misses) = self.reads();
        let (curve, sampled) = self.reuse.curve(hits + misses)?;
        let capacity = self.bytes().1 as u64;
        Some(CacheEstimate { curve, sampled, capacity, reserved: 0, density: 1.0 })
    }

    /// The hash of (collection, key), which the other calls take.
    pub(crate) fn hash(ident: Ident, key: &[u8]) -> u64 {
        /// One hasher for all caches of the process: transactions compute hashes before they have a cache.
        static HASHER: LazyLock<HashState> = LazyLock::new(HashState::default);
        HASHER.hash_one((ident.0, key))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 58) as usize]
    }

    /// Appends the document to `out` if it is cached; otherwise returns the permission to fill it.
    pub(crate) fn get(
        &self,
        hash: u64,
        ident: Ident,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Option<Fill>> {
        let found = self.look_up(hash, ident, key, out);
        if self.reuse.samples(hash) {
            self.reuse.read(hash, *found.as_ref().unwrap_or(&0) as u64);
        }
        found.map(|_| ())
    }

    /// As [`Cache::get`]; returns the size of the entry.
    fn look_up(
        &self,
        hash: u64,
        ident: Ident,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, Option<Fill>> {
        note_shared("record cache", 1, 2);
        let mut shard = self.shard(hash).lock();
        if let Some(entry) = shard.entries.get_mut(&hash)
            && entry.ident == ident
            && entry.bytes[..entry.key_len as usize] == *key
        {
            entry.used = true;
            out.extend_from_slice(&entry.bytes[entry.key_len as usize..]);
            let size = entry.size();
            shard.hit_count += 1;
            return Ok(size);
        }
        shard.miss_count += 1;
        let slot = shard.slots[slot_of(hash)];
        Err((slot.pending == 0).then_some(Fill { hash, epoch: slot.epoch }))
    }

    /// Adds a document that was read after `fill` was given, unless it was written in between.
    pub(crate) fn fill(&self, fill: Fill, ident: Ident, key: &[u8], doc: &[u8]) {
        let size = key.len() + doc.len() + ENTRY_BYTES;
        let shard_bytes_max = self.shard_bytes_max.load(Relaxed);
        if size > shard_bytes_max / 4 {
            return;
        }
        let bytes = [key, doc].concat().into_boxed_slice();
        let entry = Entry { ident, used: false, bytes, key_len: key.len() as u32 };
        let mut shard = self.shard(fill.hash).lock();
        let slot = shard.slots[slot_of(fill.hash)];
        if slot.pending > 0 || slot.epoch != fill.epoch {
            return;
        }
        shard.evict(shard_bytes_max.saturating_sub(size));
        shard.bytes += size;
        match shard.entries.insert(fill.hash, entry) {
            Some(old) => shard.bytes -= old.size(),
            None => shard.queue.push_back(fill.hash),
        }
        if shard.queue.len() > 2 * shard.entries.len() + 64 {
            // Documents removed by writes leave entries in the queue.
            shard.queue = shard.entries.keys().copied().collect();
        }
        drop(shard);
        if self.reuse.samples(fill.hash) {
            self.reuse.cached(fill.hash, size as u64);
        }
    }

    /// Called before the commit of a write that changes the document: removes it and blocks fills.
    pub(crate) fn begin_write(&self, hash: u64) {
        note_shared("record cache", 1, 2);
        let mut shard = self.shard(hash).lock();
        if let Some(old) = shard.entries.remove(&hash) {
            shard.bytes -= old.size();
        }
        let slot = &mut shard.slots[slot_of(hash)];
        slot.pending += 1;
        slot.epoch = slot.epoch.wrapping_add(1);
        drop(shard);
        if self.reuse.samples(hash) {
            self.reuse.removed(hash);
        }
    }

    /// Called after the commit, successful or not.
    pub(crate) fn end_write(&self, hash: u64) {
        note_shared("record cache", 1, 2);
        self.shard(hash).lock().slots[slot_of(hash)].pending -= 1;
    }
}

fn slot_of(hash: u64) -> usize {
    (hash >> 40) as usize % SLOT_COUNT
}

impl Entry {
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_BYTES
    }
}

impl Shard {
    /// Evicts until at most `bytes_max` are left: oldest first, but a document that was used gets a second round.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(hash) = self.queue.pop_front() else { return };
            match self.entries.get_mut(&hash) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.queue.push_back(hash);
                }
                Some(_) => {
                    self.bytes -= self.entries.remove(&hash).map_or(0, |entry| entry.size());
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENT: Ident = Ident(7);

    fn read(cache: &Cache, key: &[u8]) -> Result<Vec<u8>, Option<Fill>> {
        let mut out = Vec::new();
        cache.get(Cache::hash(IDENT, key), IDENT, key, &mut out).map(|_| out)
    }

    fn put(cache: &Cache, key: &[u8], doc: &[u8]) {
        let fill = read(cache, key).unwrap_err().unwrap();
        cache.fill(fill, IDENT, key, doc);
    }

    #[test]
    fn a_write_takes_out_and_forbids_to_fill_until_it_is_over() {
        let cache = Cache::new(1 << 20).unwrap();
        put(&cache, b"k", b"old");
        assert_eq!(cache.bytes_of(IDENT), cache.bytes().0);
        assert_eq!(cache.bytes_of(Ident(8)), 0);
        assert_eq!(read(&cache, b"k").ok().unwrap(), b"old");
        let hash = Cache::hash(IDENT, b"k");
        cache.begin_write(hash);
        assert!(read(&cache, b"k").err().unwrap().is_none());
        cache.end_write(hash);
        put(&cache, b"k", b"new");
        assert_eq!(read(&cache, b"k").ok().unwrap(), b"new");
    }

    #[test]
    fn a_fill_begun_before_a_write_is_refused() {
        let cache = Cache::new(1 << 20).unwrap();
        let fill = read(&cache, b"k").err().unwrap().unwrap();
        let hash = Cache::hash(IDENT, b"k");
        cache.begin_write(hash);
        cache.end_write(hash);
        cache.fill(fill, IDENT, b"k", b"old");
        assert!(read(&cache, b"k").is_err());
    }

    #[test]
    fn cleared_it_has_nothing_and_takes_nothing_old() {
        let cache = Cache::new(1 << 20).unwrap();
        put(&cache, b"k", b"old");
        let fill = read(&cache, b"l").err().unwrap().unwrap();
        cache.clear();
        assert_eq!(cache.bytes().0, 0);
        cache.fill(fill, IDENT, b"l", b"old");
        assert!(read(&cache, b"k").is_err() && read(&cache, b"l").is_err());
        put(&cache, b"k", b"new");
        assert_eq!(read(&cache, b"k").ok().unwrap(), b"new");
    }

    #[test]
    fn the_estimate_is_what_a_larger_cache_does() {
        let found = |bytes: usize, reads: u32| {
            let cache = Cache::new(bytes).unwrap();
            let mut random = 1_u32;
            for _ in 0..reads {
                random = random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                // The product of two parts: skewed.
                let key = ((u64::from(random >> 16) * u64::from(random & 0xFFFF)) >> 16) as u32;
                if let Err(Some(fill)) = read(&cache, &key.to_be_bytes()) {
                    cache.fill(fill, IDENT, &key.to_be_bytes(), &[0; 500]);
                }
            }
            cache
        };
        let small = found(4 << 20, 400_000);
        let estimate = small.estimate().unwrap();
        assert_eq!(estimate.capacity, 4 << 20);
        for times in [1, 2, 4] {
            let (hits, misses) = found(times * (4 << 20), 400_000).reads();
            let (truth, expected) = (
                hits as f64 / (hits + misses) as f64,
                estimate.hit_rate(times as u64 * (4 << 20)).unwrap(),
            );
            assert!((truth - expected).abs() < 0.06, "{times} times: {truth}, {expected} expected");
        }
    }

    #[test]
    fn it_stays_within_its_bytes() {
        let cache = Cache::new(1 << 20).unwrap();
        for key in 0..10_000u32 {
            put(&cache, &key.to_be_bytes(), &[0; 1000]);
        }
        let total: usize = cache.shards.iter().map(|shard| shard.lock().bytes).sum();
        assert!(total <= 1 << 20 && total > 1 << 19, "{total}");
        let queued: usize = cache.shards.iter().map(|shard| shard.lock().queue.len()).sum();
        assert!(queued < 2000);
        cache.resize(1 << 18);
        let (used, most) = cache.bytes();
        assert!(used <= 1 << 18 && used > 1 << 16 && most == 1 << 18, "{used}");
    }
}
