//! The reader's view: layers of commits in memory above a snapshot of the files.
//!
//!   layer 0   active: commits go here
//!   layer 1   frozen: being written to the file (may be absent)
//!   base      one read transaction of each environment, shared by all readers
//!
//! A layer is a table of versions, including deleted keys, and the ranges that were dropped, which hide the data of
//! the layers below. A view is immutable. A new one is published when a layer is frozen, when a step of it is in
//! the file, and when all of it is. An old view lives as long as a reader uses it.
//!
//! A snapshot is a view and a stamp. The view is loaded again after the ticket was taken: if it is still the same
//! one, every commit up to the stamp is in it.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use nagi_kv::{
    CommitStamp, Cursor, Read, Result, Snapshot, Space, Ticket,
    table::{Bytes, Table},
};
use parking_lot::RwLock;

use crate::{
    core::Core,
    db::{self, Base, Db, TreeCursor},
    merge::Merge,
};

/// Commits that are not in the files.
pub(crate) struct Layer {
    pub(crate) table: Table,
    drops: RwLock<[Ranges; Space::CORE.len()]>,
    drop_count: AtomicUsize,
    /// The newest stamp in the layer, once it is frozen.
    end: AtomicU64,
}

impl AsRef<Table> for Layer {
    fn as_ref(&self) -> &Table {
        &self.table
    }
}

/// Dropped ranges by their start, without overlaps. An empty end means no upper bound.
type Ranges = BTreeMap<Vec<u8>, Vec<u8>>;

impl Layer {
    pub(crate) fn new() -> Layer {
        Layer {
            table: Table::new(true),
            drops: RwLock::default(),
            drop_count: AtomicUsize::new(0),
            end: AtomicU64::new(0),
        }
    }

    /// Marks the layer as frozen: no commit after `stamp` goes into it.
    pub(crate) fn freeze(&self, stamp: u64) {
        self.end.store(stamp, SeqCst);
    }

    /// The newest stamp of a frozen layer.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.key_count() == 0 && self.drop_count.load(SeqCst) == 0
    }

    /// Hides the range in the layers below and in the file. The caller has removed it from this layer's table.
    pub(crate) fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) {
        let mut drops = self.drops.write();
        let ranges = &mut drops[space.table() as usize];
        let (mut start, mut end) = (start.to_vec(), end.to_vec());
        let mut merged: Vec<Vec<u8>> = Vec::new();
        for (other_start, other_end) in ranges.iter() {
            let before = !other_end.is_empty() && *other_end < start;
            let behind = !end.is_empty() && *other_start > end;
            if before || behind {
                continue;
            }
            merged.push(other_start.clone());
            start = start.min(other_start.clone());
            end = match end.is_empty() || other_end.is_empty() {
                true => Vec::new(),
                false => end.max(other_end.clone()),
            };
        }
        for other in &merged {
            ranges.remove(other);
        }
        ranges.insert(start, end);
        self.drop_count.store(drops.iter().map(BTreeMap::len).sum(), SeqCst);
    }

    /// The dropped range, if any, that hides the key below this layer.
    pub(crate) fn dropped(&self, space: Space, key: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.drop_count.load(SeqCst) == 0 {
            return None;
        }
        let drops = self.drops.read();
        let (start, end) = drops[space.table() as usize]
            .range::<[u8], _>((Unbounded, Included(key)))
            .next_back()?;
        (end.is_empty() || key < end.as_slice()).then(|| (start.clone(), end.clone()))
    }

    /// Returns true if a dropped range overlaps `[start, end)`; `end` must not be empty.
    pub(crate) fn drops_overlap(&self, space: Space, start: &[u8], end: &[u8]) -> bool {
        let drops = self.drops.read();
        let mut ranges = drops[space.table() as usize].range::<[u8], _>((Unbounded, Excluded(end)));
        ranges.next_back().is_some_and(|(_, last)| last.is_empty() || last.as_slice() > start)
    }

    /// All ranges.
    pub(crate) fn drops(&self) -> Vec<(Space, Vec<u8>, Vec<u8>)> {
        let drops = self.drops.read();
        let of = |space: &Space| {
            let ranges = drops[*space as usize].iter();
            ranges.map(|(start, end)| (*space, start.clone(), end.clone())).collect::<Vec<_>>()
        };
        Space::CORE.iter().flat_map(of).collect()
    }
}

/// See the module's header.
pub(crate) struct View {
    /// Newest first: the active one, then at most one that is frozen.
    pub(crate) layers: Vec<Arc<Layer>>,
    pub(crate) base: Arc<Base>,
}

impl View {
    pub(crate) fn active(&self) -> &Arc<Layer> {
        &self.layers[0]
    }

    pub(crate) fn frozen(&self) -> Option<&Arc<Layer>> {
        self.layers.get(1)
    }

    /// Looks the key up in the layers. Returns `Some` if a layer decides its value.
    fn layers_get(
        &self,
        space: Space,
        key: &[u8],
        stamp: impl Fn() -> u64,
        buf: &mut Vec<u8>,
    ) -> Option<bool> {
        for layer in &self.layers {
            let mut copy = |value: Option<&Bytes>| match value {
                Some(value) => {
                    buf.clear();
                    buf.extend_from_slice(value);
                    true
                }
                None => false,
            };
            let found = layer.table.read(space, key, &stamp, &mut copy);
            if found.is_some() {
                return found;
            }
            if layer.dropped(space, key).is_some() {
                return Some(false);
            }
        }
        None
    }

    /// Copies the value of a key as of a stamp into `buf`.
    pub(crate) fn get_copy(
        &self,
        space: Space,
        key: &[u8],
        stamp: impl Fn() -> u64,
        buf: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(found) = self.layers_get(space, key, stamp, buf) {
            return Ok(found);
        }
        let Some(value) = db::get(self.base.of(space), Db::Space(space), key)? else {
            return Ok(false);
        };
        buf.clear();
        buf.extend_from_slice(value);
        Ok(true)
    }
}

/// A ticket that keeps the versions at its stamp from being removed.
pub(crate) struct Kept {
    core: Arc<Core>,
    ticket: Ticket,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.core.ledger.active.leave(&self.ticket);
    }
}

/// A snapshot of the store.
pub(crate) struct State {
    view: Arc<View>,
    kept: Kept,
}

impl State {
    pub(crate) fn new(core: &Arc<Core>) -> State {
        loop {
            let view = core.views.load_full();
            let ticket = core.ledger.active.enter();
            let kept = Kept { core: Arc::clone(core), ticket };
            if Arc::ptr_eq(&view, &core.views.load()) {
                return State { view, kept };
            }
        }
    }
}

impl Read for State {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let stamp = self.kept.ticket.stamp();
        match self.view.layers_get(space, key, || stamp, buf) {
            Some(found) => Ok(found.then_some(buf.as_slice())),
            None => db::get(self.view.base.of(space), Db::Space(space), key),
        }
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        let stamp = self.kept.ticket.stamp();
        let base = TreeCursor::open(self.view.base.of(space), Db::Space(space), start, end)?;
        let active = &self.kept.core.ledger.active;
        let kept = Kept { ticket: active.enter_at(stamp), core: Arc::clone(&self.kept.core) };
        let layers = &self.view.layers;
        Ok(Box::new(Merge::new(layers, base, kept, stamp, (space, start, end))))
    }
}

impl Snapshot for State {
    fn stamp(&self) -> CommitStamp {
        CommitStamp(self.kept.ticket.stamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_ranges_join_and_hide() {
        let layer = Layer::new();
        let space = Space::Records;
        layer.drop_range(space, b"b", b"d");
        layer.drop_range(space, b"f", b"h");
        let hides = |key: &[u8]| layer.dropped(space, key).is_some();
        let seen = |keys: [&[u8]; 7]| keys.map(hides);
        let keys: [&[u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"g", b"h"];
        assert_eq!(seen(keys), [false, true, true, false, false, true, false]);
        layer.drop_range(space, b"c", b"f");
        assert_eq!(layer.drops(), [(space, b"b".to_vec(), b"h".to_vec())]);
        layer.drop_range(space, b"", b"a");
        assert!(hides(b"") && !hides(b"a"));
        assert!(layer.drops_overlap(space, b"a", b"c") && !layer.drops_overlap(space, b"a", b"b"));
        layer.drop_range(space, b"g", b"");
        assert_eq!(seen(keys), [false, true, true, true, true, true, true]);
        assert!(layer.dropped(Space::Index, b"c").is_none());
        assert!(layer.drops_overlap(space, b"zz", b"zzz"));
    }
}
