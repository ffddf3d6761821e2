//! A sorted table in memory with the versions of each key: the memory engine's whole store, and what an
//! engine that writes its files in the background has not written yet.
//!
//! Each space is a sorted map from key to its versions; a reader at stamp s takes the newest one that is
//! not after s. Whoever writes sets versions under the space's lock and publishes the stamp last, so
//! no one sees half of a commit.
//!
//!   key -> (stamp 12, "b"), older: [(stamp 3, "a"), (stamp 9, deleted)]
//!
//! A version goes away once a newer one is visible to the oldest reader: when its key is written again,
//! or by `prune`. Whether a deleted key stays (it hides one in a file below) is chosen at `new`.
//!
//! Cost: a get is one lock and one map search; a scan takes up to 64 entries per lock.

mod cursor;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
    sync::Arc,
};

pub use cursor::Scan;

use crate::{
    Space,
    sync::{
        RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// A key or a value.
pub type Bytes = Arc<[u8]>;

/// What a version and a key cost beside their bytes: reference counts, allocator, place in the map.
const VERSION_COST: usize = 48;
const KEY_COST: usize = 96;

struct Versions {
    stamp: u64,
    /// None: deleted.
    value: Option<Bytes>,
    /// Oldest first.
    older: Vec<(u64, Option<Bytes>)>,
}

type Map = BTreeMap<Bytes, Versions>;

#[derive(Default)]
struct Sorted {
    map: RwLock<Map>,
    /// Keys in the map; asked before the lock is.
    count: AtomicUsize,
}

/// See the module's header.
pub struct Table {
    spaces: [Sorted; Space::CORE.len()],
    bytes: AtomicUsize,
    keeps_deleted: bool,
}

/// What `set` left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The key has one version, or none.
    Clean,
    /// Older versions or a deleted key are to be pruned once no one reads them.
    Stale,
}

impl Versions {
    fn at(&self, stamp: u64) -> Option<&Option<Bytes>> {
        if self.stamp <= stamp {
            return Some(&self.value);
        }
        self.older.iter().rev().find(|(written, _)| *written <= stamp).map(|(_, value)| value)
    }

    /// What the key costs with all its versions.
    fn bytes(&self, key: &[u8]) -> usize {
        let older = self.older.iter().map(|(_, value)| cost(value.as_ref()));
        KEY_COST + key.len() + cost(self.value.as_ref()) + older.sum::<usize>()
    }

    /// Drops what no reader at `oldest` or later can see; the bytes it gave back.
    fn prune(&mut self, oldest: u64) -> usize {
        let end = match self.stamp <= oldest {
            true => self.older.len(),
            false => self.older.iter().rposition(|(written, _)| *written <= oldest).unwrap_or(0),
        };
        self.older.drain(..end).map(|(_, value)| cost(value.as_ref())).sum()
    }
}

fn cost(value: Option<&Bytes>) -> usize {
    VERSION_COST + value.map_or(0, |value| value.len())
}

impl Table {
    /// An empty table. `keeps_deleted`: a deleted key stays as such.
    pub fn new(keeps_deleted: bool) -> Table {
        Table { spaces: Default::default(), bytes: AtomicUsize::new(0), keeps_deleted }
    }

    /// Bytes of memory, an estimate that counts every key and version.
    pub fn byte_count(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Whether the space has no key at all.
    pub fn is_empty(&self, space: Space) -> bool {
        self.spaces[space.table() as usize].count.load(Relaxed) == 0
    }

    /// Keys of all spaces, deleted ones included.
    pub fn key_count(&self) -> usize {
        self.spaces.iter().map(|space| space.count.load(Relaxed)).sum()
    }

    /// Calls `read` with the key's value at a stamp, `None` if it was deleted; not called if there is
    /// no such version. The stamp is requested under the lock: no version it needs can be pruned then.
    pub fn read<R>(
        &self,
        space: Space,
        key: &[u8],
        stamp: impl FnOnce() -> u64,
        read: impl FnOnce(Option<&Bytes>) -> R,
    ) -> Option<R> {
        if self.is_empty(space) {
            return None;
        }
        let map = self.spaces[space.table() as usize].map.read();
        let value = map.get(key)?.at(stamp())?;
        Some(read(value.as_ref()))
    }

    /// Sets a key's newest version. `oldest`: no reader is or will be older.
    pub fn set(
        &self,
        space: Space,
        key: &[u8],
        (stamp, value): (u64, Option<Bytes>),
        oldest: u64,
    ) -> Left {
        let sorted = &self.spaces[space.table() as usize];
        let mut map = sorted.map.write();
        if let Some(versions) = map.get_mut(key) {
            self.bytes.fetch_add(cost(value.as_ref()), Relaxed);
            let old = std::mem::replace(&mut versions.value, value);
            versions.older.push((std::mem::replace(&mut versions.stamp, stamp), old));
            self.bytes.fetch_sub(versions.prune(oldest), Relaxed);
            return Left::Stale;
        }
        if value.is_none() && !self.keeps_deleted {
            return Left::Clean;
        }
        self.bytes.fetch_add(KEY_COST + key.len() + cost(value.as_ref()), Relaxed);
        map.insert(key.into(), Versions { stamp, value, older: Vec::new() });
        sorted.count.fetch_add(1, Relaxed);
        Left::Clean
    }

    /// Forgets what no one at `oldest` or later can see of a key.
    pub fn prune(&self, space: Space, key: &Bytes, oldest: u64) {
        let sorted = &self.spaces[space.table() as usize];
        let mut map = sorted.map.write();
        let Entry::Occupied(mut entry) = map.entry(Arc::clone(key)) else { return };
        let versions = entry.get_mut();
        let mut bytes = versions.prune(oldest);
        let gone = versions.value.is_none() && versions.stamp <= oldest && !self.keeps_deleted;
        if gone {
            bytes += KEY_COST + key.len() + cost(None);
            entry.remove();
            sorted.count.fetch_sub(1, Relaxed);
        }
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// Forgets every key in `[start, end)`, whoever may read it. An empty `end`: no upper bound.
    pub fn remove_range(&self, space: Space, start: &[u8], end: &[u8]) {
        let Some(bounds) = bounds(start, end) else { return };
        let sorted = &self.spaces[space.table() as usize];
        let mut map = sorted.map.write();
        if map.is_empty() {
            return;
        }
        let gone = match end {
            [] => map.split_off::<[u8]>(start),
            _ => {
                let keys: Vec<Bytes> =
                    map.range::<[u8], _>(bounds).map(|(key, _)| Arc::clone(key)).collect();
                keys.into_iter().filter_map(|key| map.remove_entry(&key)).collect()
            }
        };
        let mut bytes = 0;
        for (key, versions) in &gone {
            bytes += versions.bytes(key);
        }
        self.bytes.fetch_sub(bytes, Relaxed);
        sorted.count.fetch_sub(gone.len(), Relaxed);
    }

    /// Forgets the first keys in `[start, end)`, `most` at the most, whoever may read them.
    pub fn remove_some(&self, space: Space, start: &[u8], end: &[u8], most: usize) -> Removed {
        let mut removed = Removed::default();
        let Some(bounds) = bounds(start, end) else { return removed };
        let sorted = &self.spaces[space.table() as usize];
        let mut map = sorted.map.write();
        let mut range = map.range::<[u8], _>(bounds).map(|(key, _)| key);
        let keys: Vec<Bytes> = range.by_ref().take(most).map(Arc::clone).collect();
        removed.more = range.next().is_some();
        removed.entries = keys.iter().filter_map(|key| map.remove_entry(key)).collect();
        sorted.count.fetch_sub(removed.entries.len(), Relaxed);
        drop(map);
        let bytes = removed.entries.iter().map(|(key, versions)| versions.bytes(key));
        self.bytes.fetch_sub(bytes.sum(), Relaxed);
        removed
    }

    /// Whether there is any key in `[start, end)`, deleted ones included.
    pub fn has_any(&self, space: Space, start: &[u8], end: &[u8]) -> bool {
        let Some(bounds) = bounds(start, end) else { return false };
        let sorted = &self.spaces[space.table() as usize];
        !self.is_empty(space) && sorted.map.read().range::<[u8], _>(bounds).next().is_some()
    }

    /// Bytes of keys and values in `[start, end)` at a stamp.
    pub fn range_bytes(&self, space: Space, start: &[u8], end: &[u8], stamp: u64) -> u64 {
        let Some(bounds) = bounds(start, end) else { return 0 };
        let map = self.spaces[space.table() as usize].map.read();
        let bytes = map.range::<[u8], _>(bounds).map(|(key, versions)| match versions.at(stamp) {
            Some(Some(value)) => key.len() + value.len(),
            _ => 0,
        });
        bytes.sum::<usize>() as u64
    }
}

/// What `remove_some` took out: its memory is given back when this is dropped, so after any lock.
#[derive(Default)]
pub struct Removed {
    entries: Vec<(Bytes, Versions)>,
    /// There are more keys in the range.
    pub more: bool,
}

type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

fn bounds<'k>(start: &'k [u8], end: &'k [u8]) -> Option<Bounds<'k>> {
    match end {
        [] => Some((Bound::Included(start), Bound::Unbounded)),
        _ if start >= end => None,
        _ => Some((Bound::Included(start), Bound::Excluded(end))),
    }
}
