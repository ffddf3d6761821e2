//! Several stores that write to the same data, before the lease of the data is one of each node.
//!
//! Each node's engine keeps the lease, the fences and the parts of counters under names of its own, so each node finds
//! that it owns the data. Everything else is shared: what two nodes must agree on has to be agreed on by the store.

use std::{borrow::Cow, path::Path, sync::Arc};

use nagi_kv::{
    Capabilities, Clock, Compressor, Cursor, Engine, Maintenance, Minimal, Next, Read, Result,
    Savepoint, Scratch, Snapshot, Space, Tuning, Txn, TxnOptions,
};
use nagi_store::{CommitStamp, Durability, NodeOptions, Store, StoreOptions};

/// The key of the lease.
const LEASE: [u8; 5] = [9, 0, 0, 0, 0];
/// Fences of a node.
const FENCES: u16 = 512;

/// The data as one node sees them.
pub(crate) struct Node {
    inner: Arc<Minimal>,
    number: u8,
}

/// Opens the data as one more node.
pub(crate) fn open(on: &Arc<Minimal>, number: u8) -> Arc<Store> {
    let engine = Node { inner: Arc::clone(on), number };
    let node = NodeOptions { name: format!("node {number}"), ..NodeOptions::default() };
    Store::open(Arc::new(engine), StoreOptions { node, ..StoreOptions::default() }).unwrap()
}

/// The node's own name for a key.
fn own(number: u8, space: Space, key: &[u8]) -> Cow<'_, [u8]> {
    match (space, key.split_last_chunk()) {
        (Space::Catalog, _) if key == LEASE => Cow::Owned(vec![9, 0, 0, 0, number]),
        (Space::Counters, Some((of, part))) if key.len() == 6 => {
            let part = u16::from_be_bytes(*part) + FENCES * u16::from(number);
            Cow::Owned([of, &part.to_be_bytes()].concat())
        }
        _ => Cow::Borrowed(key),
    }
}

struct With<T>(T, u8);

macro_rules! read {
    ($type:ty, $this:ident => $inner:expr, $number:expr) => {
        impl Read for $type {
            fn get<'a>(
                &'a self,
                space: Space,
                key: &[u8],
                buf: &'a mut Vec<u8>,
            ) -> Result<Option<&'a [u8]>> {
                let $this = self;
                $inner.get(space, &own($number, space, key), buf)
            }

            fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
                let $this = self;
                $inner.cursor(space, start, end)
            }
        }
    };
}

read!(Node, node => node.inner.latest(), node.number);
read!(With<Arc<dyn Snapshot>>, with => with.0, with.1);
read!(With<Box<dyn Txn>>, with => with.0, with.1);

impl Snapshot for With<Arc<dyn Snapshot>> {
    fn stamp(&self) -> CommitStamp {
        self.0.stamp()
    }
}

impl Txn for With<Box<dyn Txn>> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(space, &own(self.1, space, key), value)
    }

    /// Counters are deleted by the keys that a cursor has found.
    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.0.delete(space, key)
    }

    fn lock_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.0.lock_while(space, key, go_on)
    }

    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()> {
        self.0.add(space, &own(self.1, space, key), deltas)
    }

    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()> {
        self.0.append(log, value, joined)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(With(self.0.snapshot()?, self.1)))
    }

    fn read_stamp(&self) -> Result<CommitStamp> {
        self.0.read_stamp()
    }

    fn staged_bytes(&self) -> usize {
        self.0.staged_bytes()
    }

    fn savepoint(&self) -> Savepoint {
        self.0.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.0.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>, durability: Durability) -> Result<CommitStamp> {
        self.0.commit(durability)
    }
}

impl Engine for Node {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(With(self.inner.snapshot()?, self.number)))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        Ok(Box::new(With(self.inner.begin(options)?, self.number)))
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    fn last_stamp(&self) -> CommitStamp {
        self.inner.last_stamp()
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        self.inner.advance(stamp)
    }

    fn sync(&self, stamp: CommitStamp) -> Result<()> {
        self.inner.sync(stamp)
    }
}

impl Maintenance for Node {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        self.inner.load(space, next)
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        self.inner.scratch()
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.inner.drop_range(space, start, end)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.inner.checkpoint(dir)
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        self.inner.approximate_size(space, start, end)
    }

    fn compact(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.inner.compact(space, start, end)
    }
}

impl Tuning for Node {
    fn compressor(&self, space: Space) -> Compressor {
        self.inner.compressor(space)
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        self.inner.stats(visit);
    }
}
