//! A transaction of a node: it reads at one snapshot from its first operation on, adds to the parts of counters, and
//! writes a fence at its commit.
//!
//! The snapshot of the first operation is what makes locks safe over an engine that finds conflicts at the commit: what
//! is read of a locked key, also outside the transaction, was not changed between the lock and the commit.

use std::{collections::BTreeSet, sync::Arc};

use nagi_kv::{
    CommitStamp, Cursor, Durability, Error, Read, Result, Savepoint, Snapshot, Space, Txn,
    overlay::add_counters,
};

use super::{
    counters,
    engine::Summed,
    fence::{Mark, Outcome},
    lease::Lease,
    listing::InFlight,
    log_keys::{self, Horizon},
    slots::Slot,
    stripes,
};

/// Bits of a savepoint for the writes of the engine's transaction; those above count what is staged here.
const WRITE_BITS: u32 = 32;

/// An addition to a counter, staged until the commit has a fence.
struct Add {
    key: Vec<u8>,
    deltas: Vec<i64>,
}

/// What is staged until the commit.
enum Late {
    Add(Add),
    /// An entry of the change log.
    Entry(Vec<u8>),
}

/// See the module's header.
pub(super) struct NodeTxn {
    inner: Box<dyn Txn>,
    lease: Arc<Lease>,
    is_placed: bool,
    late: Vec<Late>,
    late_bytes: usize,
    /// It has written counters otherwise than by additions.
    has_deleted: bool,
}

impl Late {
    fn bytes(&self) -> usize {
        match self {
            Late::Add(add) => add.key.len() + 8 * add.deltas.len(),
            Late::Entry(entry) => entry.len(),
        }
    }
}

fn adds(late: &[Late]) -> impl Iterator<Item = &Add> {
    late.iter().filter_map(|late| if let Late::Add(add) = late { Some(add) } else { None })
}

fn entries(late: &[Late]) -> impl Iterator<Item = &[u8]> {
    late.iter().filter_map(|late| if let Late::Entry(entry) = late { Some(&**entry) } else { None })
}

impl NodeTxn {
    fn stage(&mut self, late: Late) {
        self.late_bytes += late.bytes();
        self.late.push(late);
    }

    pub(super) fn new(inner: Box<dyn Txn>, lease: &Arc<Lease>) -> NodeTxn {
        NodeTxn {
            inner,
            lease: Arc::clone(lease),
            is_placed: false,
            late: Vec::new(),
            late_bytes: 0,
            has_deleted: false,
        }
    }

    /// Takes the snapshot, if this is the first operation.
    fn place(&mut self) -> Result<()> {
        if !self.is_placed {
            self.inner.read_stamp()?;
            self.is_placed = true;
        }
        Ok(())
    }

    /// Stages the horizon of this node. It is no counter, although it is stored beside them: values there are small.
    pub(super) fn put_horizon(&mut self, seat: u16, horizon: Horizon) -> Result<()> {
        self.inner.put(Space::Counters, &log_keys::horizon_key(seat), &horizon.value())
    }

    /// Stages the entries of the change log.
    fn stage_entries<'l>(&mut self, lease: &'l Arc<Lease>) -> Result<Option<InFlight<'l>>> {
        if entries(&self.late).next().is_none() {
            return Ok(None);
        }
        let read_stamp = self.inner.read_stamp()?.0;
        let mut commit = lease.listing.begin(lease, read_stamp)?;
        let NodeTxn { inner, late, .. } = self;
        if commit.bound() > read_stamp {
            inner.order_after(CommitStamp(commit.bound()));
        }
        match commit.put(&mut **inner, entries(late)) {
            Ok(()) => Ok(Some(commit)),
            Err(error) => {
                commit.failed();
                Err(error)
            }
        }
    }

    /// Stages the additions as writes of the fence's parts. Reads those that the fence does not remember.
    fn stage_adds(&mut self, slot: &mut Slot) -> Result<()> {
        if self.has_deleted {
            slot.parts.clear();
        }
        let is_known = |add: &&Add| !slot.parts.contains_key(&add.key);
        let unknown: BTreeSet<&[u8]> = adds(&self.late).filter(is_known).map(|a| &*a.key).collect();
        let parts: Vec<_> = unknown.iter().map(|key| counters::part(key, slot.number)).collect();
        let lent: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        if !lent.is_empty() {
            let mut found = Vec::with_capacity(lent.len());
            self.inner.get_many(Space::Counters, &lent, &mut |_, value| {
                found.push(value.unwrap_or_default().to_vec());
            })?;
            slot.parts.extend(unknown.into_iter().map(<[u8]>::to_vec).zip(found));
        }
        let mut changed = BTreeSet::new();
        for add in adds(&self.late) {
            let deltas: Vec<u8> = add.deltas.iter().flat_map(|delta| delta.to_le_bytes()).collect();
            add_counters(slot.parts.entry(add.key.clone()).or_default(), &deltas);
            changed.insert(&*add.key);
        }
        for key in changed {
            let part = counters::part(key, slot.number);
            self.inner.put(Space::Counters, &part, &slot.parts[key])?;
        }
        Ok(())
    }

    fn read_counter(&self, key: &[u8], sum: &mut Vec<u8>) -> Result<bool> {
        let own = adds(&self.late).filter(|add| add.key == key).map(|add| &*add.deltas);
        counters::read(&*self.inner, key, own, sum)
    }

    fn delete_counter(&mut self, key: &[u8]) -> Result<()> {
        self.has_deleted = true;
        self.late.retain(|late| !matches!(late, Late::Add(add) if add.key == key));
        self.late_bytes = self.late.iter().map(Late::bytes).sum();
        for part in counters::parts(&*self.inner, key)? {
            self.inner.delete(Space::Counters, &part)?;
        }
        Ok(())
    }
}

impl Read for NodeTxn {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        if space != Space::Counters {
            return self.inner.get(space, &stripes::placed(space, key), buf);
        }
        Ok(self.read_counter(key, buf)?.then_some(buf.as_slice()))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if space != Space::Counters {
            let keys = stripes::placed_all(space, keys);
            let lent: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
            return self.inner.get_many(space, &lent, visit);
        }
        let mut sum = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let is_there = self.read_counter(key, &mut sum)?;
            visit(index, is_there.then_some(&sum));
        }
        Ok(())
    }

    fn keys_at_once(&self) -> usize {
        self.inner.keys_at_once()
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        stripes::cursor(&*self.inner, space, start, end)
    }
}

impl Txn for NodeTxn {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.place()?;
        if space == Space::Counters {
            self.delete_counter(key)?;
        }
        self.inner.put(space, &stripes::placed(space, key), value)
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.place()?;
        match space {
            Space::Counters => self.delete_counter(key),
            _ => self.inner.delete(space, &stripes::placed(space, key)),
        }
    }

    fn put_exclusive(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.place()?;
        self.inner.put_exclusive(space, &stripes::placed(space, key), value)
    }

    fn put_new(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.place()?;
        self.inner.put_new(space, &stripes::placed(space, key), value)
    }

    fn put_over(&mut self, space: Space, key: &[u8], old: &[u8], new: &[u8]) -> Result<()> {
        self.place()?;
        self.inner.put_over(space, &stripes::placed(space, key), old, new)
    }

    fn delete_exclusive(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.place()?;
        self.inner.delete_exclusive(space, &stripes::placed(space, key))
    }

    fn lock_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.place()?;
        self.inner.lock_while(space, &stripes::placed(space, key), go_on)
    }

    fn is_held_by_client(&self, space: Space, key: &[u8]) -> bool {
        self.inner.is_held_by_client(space, &stripes::placed(space, key))
    }

    fn get_locked<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        self.inner.get_locked(space, &stripes::placed(space, key), buf)
    }

    fn fetch(&mut self, space: Space, keys: &[&[u8]]) -> Result<()> {
        self.place()?;
        let keys = stripes::placed_all(space, keys);
        let lent: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        self.inner.fetch(space, &lent)
    }

    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()> {
        self.place()?;
        if space != Space::Counters {
            return self.inner.add(space, key, deltas);
        }
        self.stage(Late::Add(Add { key: key.to_vec(), deltas: deltas.to_vec() }));
        Ok(())
    }

    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()> {
        self.place()?;
        if self.lease.engine.capabilities().appends_by_stamp {
            return self.inner.append(log, value, joined);
        }
        if self.staged_bytes() + value.len() > self.lease.engine.limits().txn_bytes_max {
            return Err(Error::MemoryFull);
        }
        self.stage(Late::Entry(value.to_vec()));
        Ok(())
    }

    fn order_after(&mut self, stamp: CommitStamp) {
        self.inner.order_after(stamp);
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(Summed(self.inner.snapshot()?)))
    }

    fn read_stamp(&self) -> Result<CommitStamp> {
        self.inner.read_stamp()
    }

    fn staged_bytes(&self) -> usize {
        self.inner.staged_bytes() + self.late_bytes
    }

    fn savepoint(&self) -> Savepoint {
        let writes = self.inner.savepoint().write_index();
        Savepoint::new(writes | self.late.len() << WRITE_BITS)
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        let both = savepoint.write_index();
        self.late.truncate(both >> WRITE_BITS);
        self.late_bytes = self.late.iter().map(Late::bytes).sum();
        self.inner.rollback_to(Savepoint::new(both & ((1 << WRITE_BITS) - 1)));
    }

    fn commit(mut self: Box<Self>, durability: Durability) -> Result<CommitStamp> {
        if self.staged_bytes() == 0 {
            return self.inner.commit(durability);
        }
        let read_stamp = self.inner.read_stamp()?.0;
        self.lease.cover(read_stamp)?;
        let lease = Arc::clone(&self.lease);
        let logged = self.stage_entries(&lease)?;
        let done = self.commit_fenced(&lease, read_stamp, durability);
        match (&done, logged) {
            (Ok(done), Some(logged)) => {
                logged.committed(done.is_exact.then_some(done.stamp.0));
            }
            (Err(Error::Conflict), Some(logged)) => logged.failed(),
            // The outcome of its commit, if it has come to that, is found out.
            (Err(_), logged) => drop(logged),
            (Ok(_), None) => {}
        }
        done.map(|done| done.stamp)
    }
}

/// A commit that took effect.
struct Done {
    stamp: CommitStamp,
    /// False if the stamp is one that is known to be behind it.
    is_exact: bool,
}

impl NodeTxn {
    fn commit_fenced(
        mut self,
        lease: &Lease,
        read_stamp: u64,
        durability: Durability,
    ) -> Result<Done> {
        let slots = &lease.slots;
        let forgotten = self.has_deleted.then(|| slots.forget_parts());
        let mut slot = slots.take(read_stamp).ok_or(Error::Conflict)?;
        let mark = lease.mark();
        let staged = mark.put(&mut *self.inner, slot.number);
        if let Err(error) = staged.and_then(|()| self.stage_adds(&mut slot)) {
            slots.give_back(slot, None);
            return Err(error);
        }
        let done = self.inner.commit(durability);
        if let Some(forgotten) = forgotten
            && !matches!(done, Ok(_) | Err(Error::Conflict))
        {
            forgotten.last();
        }
        match done {
            Ok(stamp) => slots.give_back(slot, Some(stamp.0)),
            Err(Error::Conflict) => slots.give_back(slot, None),
            Err(Error::Undetermined) => {
                let stamp = decide(lease, slot, mark)?;
                return Ok(Done { stamp, is_exact: false });
            }
            Err(_) => slots.give_up(slot),
        }
        done.map(|stamp| Done { stamp, is_exact: true })
    }
}

/// Finds out what became of a commit. One that failed is a conflict for its caller, which repeats the transaction.
fn decide(lease: &Lease, mut slot: Slot, mark: Mark) -> Result<CommitStamp> {
    match mark.outcome(&*lease.engine, slot.number) {
        Ok(Outcome::Committed(stamp)) => {
            lease.slots.give_back(slot, Some(stamp.0));
            Ok(stamp)
        }
        Ok(Outcome::Failed(stamp)) => {
            slot.parts.clear();
            lease.slots.give_back(slot, Some(stamp.0));
            Err(Error::Conflict)
        }
        Ok(Outcome::Unknown) | Err(_) => {
            lease.slots.give_up(slot);
            Err(Error::Undetermined)
        }
    }
}
