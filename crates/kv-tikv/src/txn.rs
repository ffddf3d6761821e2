//! A transaction: writes are staged, and the store finds conflicts at the commit.
//!
//! ```text
//!   first operation   takes a timestamp: reads see what was committed before it
//!   put, delete, add  are staged in the overlay; lock notes a key
//!   commit            every key that was written or locked must not have changed since the timestamp
//! ```
//!
//! Uniqueness and other decisions from what was read are safe if the key that was read is written or locked: a write or
//! lock of another transaction, in any process, is a conflict of one of them.
//!
//! A transaction that has read nothing, and may wait for keys, begins anew at a conflict: the other one was first, and
//! nothing that it has changed was seen.

use std::{
    cell::{Cell, OnceCell, RefCell},
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{
    CommitStamp, Cursor, Durability, Error, Read, Result, Savepoint, Snapshot, Space, Txn,
    TxnOptions,
    overlay::{Merged, Op, Overlay, SharedOverlay, add_counters},
};

use crate::{
    calls::Count,
    changes::{Keys, Known, changes},
    client::Begun,
    core::Core,
    cut,
    fetched::Fetched,
    layout::value_bytes_max,
    stamps::{stamp_of, version_of},
    view::{BATCH_KEYS, View},
};

/// Bytes of the writes of a transaction, with those of its locked keys.
pub(crate) const TXN_BYTES_MAX: usize = 64 << 20;

/// See the module's header.
pub(crate) struct Transaction {
    core: Arc<Core>,
    overlay: SharedOverlay,
    locked: Keys,
    locked_bytes: usize,
    wait: Duration,
    /// Taken by the commit.
    begun: RefCell<Option<Begun>>,
    view: OnceCell<Arc<View>>,
    has_read: Cell<bool>,
    known: RefCell<Known>,
    fetched: RefCell<Fetched>,
    /// The commit has to be after this stamp.
    after: CommitStamp,
}

impl Transaction {
    pub(crate) fn new(core: &Arc<Core>, options: TxnOptions) -> Transaction {
        Transaction {
            core: Arc::clone(core),
            overlay: SharedOverlay::default(),
            locked: Keys::new(),
            locked_bytes: 0,
            wait: Duration::from_millis(options.lock_wait_ms.into()),
            begun: RefCell::default(),
            view: OnceCell::new(),
            has_read: Cell::new(false),
            known: RefCell::default(),
            fetched: RefCell::default(),
            after: CommitStamp(0),
        }
    }

    /// One that reads at a time of the past, and cannot write.
    pub(crate) fn of_past(core: &Arc<Core>, view: View) -> Transaction {
        let own = Transaction::new(core, TxnOptions::default());
        Transaction { view: OnceCell::from(Arc::new(view)), ..own }
    }

    /// Takes the timestamp with the first operation.
    fn start(&self) -> Result<&Arc<View>> {
        if let Some(view) = self.view.get() {
            return Ok(view);
        }
        let asked = Instant::now();
        let begun = self.core.client.begin()?;
        let view = Arc::new(View::new(&self.core, begun.version(), asked));
        *self.begun.borrow_mut() = Some(begun);
        Ok(self.view.get_or_init(|| view))
    }

    fn read(&self) -> Result<&Arc<View>> {
        self.has_read.set(true);
        self.start()
    }

    /// Tests the limits before a write, and takes the timestamp.
    fn before_write(&self, space: Space, key: &[u8], value_bytes: usize) -> Result<()> {
        let most = value_bytes_max(space);
        if value_bytes > most {
            return Err(Error::other(format!("a value of more than {most} bytes")));
        }
        cut::check(space, key, value_bytes)?;
        if self.staged_bytes() + key.len() + value_bytes > TXN_BYTES_MAX {
            return Err(Error::MemoryFull);
        }
        self.start().map(|_| ())
    }

    /// Makes the commit one after `after`. That of two phases is, because its timestamp is taken then. For one phase
    /// the store takes the next timestamp after those of all that it has read, which may be older: so it is made to
    /// read one of the keys at a new one.
    fn raise(&self, begun: &Begun) -> Result<()> {
        let overlay = self.overlay.lock();
        let Some(first) =
            overlay.writes().next().filter(|_| version_of(self.after) >= begun.version())
        else {
            return Ok(());
        };
        let view = View::now(&self.core)?;
        view.get(first.space, first.key, &mut Vec::new()).map(drop)
    }

    /// Commits what is staged at the timestamp of `begun`.
    fn commit_at(&self, begun: Begun) -> Result<u64> {
        let overlay = self.overlay.lock();
        let known = self.known.borrow();
        let changes = changes(&self.core, begun.version(), (&overlay, &self.locked, &known))?;
        self.core.client.commit(begun, changes)
    }
}

/// Commits writes without reads; at a conflict anew, for so long. `known`: keys that have no value.
pub(crate) fn commit_blind(
    core: &Arc<Core>,
    (overlay, locked, known): (&Overlay, &Keys, &Known),
    first: Option<Begun>,
    wait: Duration,
) -> Result<u64> {
    let end = Instant::now() + wait;
    let mut begun = first;
    loop {
        let at = match begun.take() {
            Some(begun) => begun,
            None => core.client.begin()?,
        };
        let changes = changes(core, at.version(), (overlay, locked, known))?;
        match core.client.commit(at, changes) {
            Err(Error::Conflict) if Instant::now() < end => {
                core.client.calls().add(Count::RetryWrite, 1);
            }
            other => return other,
        }
    }
}

impl Read for Transaction {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let mut deltas = None;
        match self.overlay.lock().get(space, key) {
            None | Some(Op::Append { .. }) => {}
            Some(Op::Delete) => return Ok(None),
            Some(Op::Put(value)) => {
                buf.clear();
                buf.extend_from_slice(value);
                return Ok(Some(buf));
            }
            Some(Op::Add(staged)) => deltas = Some(staged.to_vec()),
        }
        if deltas.is_none()
            && let Some(found) = self.fetched.borrow().get(space, key)
        {
            buf.clear();
            buf.extend_from_slice(found.unwrap_or_default());
            return Ok(found.map(|_| buf.as_slice()));
        }
        let view = self.read()?;
        let Some(deltas) = deltas else {
            let found = view.get(space, key, buf)?;
            self.known.borrow_mut().note(space, key, found);
            return Ok(found);
        };
        let mut sum = view.get(space, key, buf)?.map(<[u8]>::to_vec).unwrap_or_default();
        add_counters(&mut sum, &deltas);
        *buf = sum;
        Ok(Some(buf))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let view = self.read()?;
        let overlay = self.overlay.lock();
        let mut known = self.known.borrow_mut();
        let mut sum = Vec::new();
        view.get_many(space, keys, &mut |index, value| match overlay.get(space, keys[index]) {
            None | Some(Op::Append { .. }) => {
                known.note(space, keys[index], value);
                visit(index, value);
            }
            Some(Op::Delete) => visit(index, None),
            Some(Op::Put(own)) => visit(index, Some(own)),
            Some(Op::Add(deltas)) => {
                sum.clear();
                sum.extend_from_slice(value.unwrap_or_default());
                add_counters(&mut sum, deltas);
                visit(index, Some(&sum));
            }
        })
    }

    fn keys_at_once(&self) -> usize {
        BATCH_KEYS
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        self.cursor_among(1, space, start, end)
    }

    fn cursor_among(
        &self,
        several: usize,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Result<Box<dyn Cursor>> {
        let base = self.read()?.cursor_among(several, space, start, end)?;
        Ok(Box::new(Merged::new(base, Arc::clone(&self.overlay), space, start, end)))
    }
}

impl Txn for Transaction {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.before_write(space, key, value.len())?;
        self.core.writes(space);
        self.overlay.lock().put(space, key, value);
        Ok(())
    }

    fn put_new(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        // Not if this transaction has deleted a value whose pieces it must remove.
        let is_unwritten = self.overlay.lock().get(space, key).is_none();
        if is_unwritten {
            self.known.borrow_mut().note(space, key, None);
        }
        self.put(space, key, value)
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.before_write(space, key, 0)?;
        self.overlay.lock().delete(space, key);
        Ok(())
    }

    fn lock_while(&mut self, space: Space, key: &[u8], _: &mut dyn FnMut() -> bool) -> Result<()> {
        self.before_write(space, key, 0)?;
        if self.locked.insert((space, key.to_vec())) {
            self.locked_bytes += key.len();
        }
        Ok(())
    }

    fn fetch(&mut self, space: Space, keys: &[&[u8]]) -> Result<()> {
        let view = self.read()?;
        let mut known = self.known.borrow_mut();
        let mut fetched = self.fetched.borrow_mut();
        view.get_many(space, keys, &mut |index, value| {
            known.note(space, keys[index], value);
            fetched.note(space, keys[index], value);
        })
    }

    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()> {
        self.before_write(space, key, 8 * deltas.len())?;
        self.overlay.lock().add(space, key, deltas);
        Ok(())
    }

    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()> {
        self.before_write(log, &[], value.len())?;
        self.overlay.lock().append(log, value, joined);
        Ok(())
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let view = Arc::clone(self.read()?);
        Ok(view)
    }

    fn read_stamp(&self) -> Result<CommitStamp> {
        Ok(self.read()?.stamp())
    }

    fn order_after(&mut self, stamp: CommitStamp) {
        self.after = self.after.max(stamp);
    }

    fn staged_bytes(&self) -> usize {
        self.overlay.lock().staged_bytes() + self.locked_bytes
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint::new(self.overlay.lock().write_count())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.overlay.lock().truncate(savepoint.write_index());
    }

    fn commit(self: Box<Self>, _: Durability) -> Result<CommitStamp> {
        // Locks of a transaction that has read nothing protect nothing.
        let has_locks = !self.locked.is_empty() && self.has_read.get();
        if self.overlay.lock().is_empty() && !has_locks {
            return Ok(self.core.newest());
        }
        // With older versions the store would not find all conflicts.
        self.start()?.check()?;
        let begun = self.begun.borrow_mut().take();
        let begun = begun.ok_or_else(|| Error::other("a transaction of the past cannot commit"))?;
        self.raise(&begun)?;
        let version = match self.has_read.get() || self.wait.is_zero() {
            true => self.commit_at(begun),
            false => {
                // It knows of keys that are new, which they stay.
                let (staged, known) = (self.overlay.lock(), self.known.borrow());
                commit_blind(&self.core, (&staged, &self.locked, &known), Some(begun), self.wait)
            }
        }?;
        self.core.saw(stamp_of(version));
        Ok(stamp_of(version))
    }
}
