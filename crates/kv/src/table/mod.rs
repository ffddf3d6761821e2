//! A sorted multi-version table in memory. It is the whole store of the memory engine, and holds the commits that
//! an engine with background writes has not written to its files yet.
//!
//! Each space is a sorted map from keys to their versions. A reader at stamp s takes the newest version that is not
//! after s. A writer sets versions under the space's lock and publishes the stamp last, so no reader sees half of a
//! commit.
//!
//!   key -> (stamp 12, "b"), older: [(stamp 3, "a"), (stamp 9, deleted)]
//!   reader at 12: "b"     at 10: deleted     at 5: "a"     at 2: no such key
//!
//! A version is removed once a newer one is visible to the oldest reader: when its key is written again, or by
//! `prune`. `new` determines if a deleted key stays, which is required to hide a key in a file below.
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

/// Memory of a version and of a key in addition to their bytes: reference counts, allocator, map entry.
const VERSION_COST: usize = 48;
const KEY_COST: usize = 96;

struct Versions {
    stamp: u64,
    /// `None`: deleted.
    value: Option<Bytes>,
    /// Oldest first.
    older: Vec<(u64, Option<Bytes>)>,
}

type Map = BTreeMap<Bytes, Versions>;

#[derive(Default)]
struct Sorted {
    map: RwLock<Map>,
    /// Number of keys in the map; read before the lock is taken.
    count: AtomicUsize,
}

/// See the module's header.
pub struct Table {
    spaces: [Sorted; Space::CORE.len()],
    bytes: AtomicUsize,
    keeps_deleted: bool,
}

/// The state of a key after `set`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The key has one version, or none.
    Clean,
    /// Older versions or a deleted key have to be pruned once no reader needs them.
    Stale,
}

impl Versions {
    fn at(&self, stamp: u64) -> Option<&Option<Bytes>> {
        if self.stamp <= stamp {
            return Some(&self.value);
        }
        self.older.iter().rev().find(|(written, _)| *written <= stamp).map(|(_, value)| value)
    }

    /// Memory of the key with all its versions.
    fn bytes(&self, key: &[u8]) -> usize {
        let older = self.older.iter().map(|(_, value)| cost(value.as_ref()));
        KEY_COST + key.len() + cost(self.value.as_ref()) + older.sum::<usize>()
    }

    /// Drops versions that no reader at `oldest` or later can see. Returns the bytes freed.
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
    /// An empty table. If `keeps_deleted`, deleted keys stay as such.
    pub fn new(keeps_deleted: bool) -> Table {
        Table { spaces: Default::default(), bytes: AtomicUsize::new(0), keeps_deleted }
    }

    /// Estimated memory in bytes, including every key and version.
    pub fn byte_count(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns true if the space has no key at all.
    pub fn is_empty(&self, space: Space) -> bool {
        self.spaces[space.table() as usize].count.load(Relaxed) == 0
    }

    /// Number of keys in all spaces, including deleted ones.
    pub fn key_count(&self) -> usize {
        self.spaces.iter().map(|space| space.count.load(Relaxed)).sum()
    }

    /// Calls `read` with the key's value at a stamp, or `None` if it was deleted; does not call it if there is no
    /// such version. The stamp is determined under the lock, so no version that it needs can be pruned.
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

    /// Sets a key's newest version. `oldest`: no present or future reader is older.
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

    /// Removes the versions of a key that no reader at `oldest` or later can see.
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

    /// Removes every key in `[start, end)`, regardless of readers. An empty `end` means no upper bound.
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

    /// Removes the first keys in `[start, end)`, at most `most`, regardless of readers.
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

    /// Returns true if there is any key in `[start, end)`, including deleted ones.
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

/// The entries that `remove_some` took out. Their memory is freed when this is dropped, so outside of locks.
#[derive(Default)]
pub struct Removed {
    entries: Vec<(Bytes, Versions)>,
    /// True if there are more keys in the range.
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
