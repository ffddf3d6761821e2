//! Commits go from memory to the data file.
//!
//!   freeze   a new active layer; the old one takes no more commits; the log is synced up to there
//!   write    ranges it dropped, then its keys, in steps: each one write transaction of LMDB, synced
//!   finish   the last step notes the stamp; the frozen layer goes; log segments are free
//!
//! Each step is followed by a new view whose base has it: the frozen layer above says the same, so readers
//! may get any of these views. A crash between steps is no harm either: the log still has all of it, and
//! to write it again gives the same.
//!
//! Back-pressure: while a layer is being written, the active one may reach its size; beyond that each
//! commit sleeps a little, longer the fuller it is, and waits at three times the size.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_kv::{
    Error, Result, Space,
    table::{Scan, Table},
};
use parking_lot::{Condvar, Mutex};

use crate::{
    core::Core,
    db::{self, Base, Db, ReadTxn, TreeCursor, WriteTxn},
    view::{Layer, View},
};

/// What one write transaction takes on: it holds the pages it changes in memory.
const STEP_BYTES: usize = 16 << 20;
const STEP_ENTRIES: usize = 16 << 10;
/// A commit's longest sleep while it is not refused.
const SLEEP_MAX: Duration = Duration::from_micros(2000);
/// How long a commit waits for room in memory when the file cannot be written.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK_EACH: Duration = Duration::from_millis(20);

/// Wakes the thread and tells of its progress.
#[derive(Default)]
pub(crate) struct Applier {
    state: Mutex<Wanted>,
    wake: Condvar,
}

#[derive(Default)]
struct Wanted {
    wanted: bool,
    stopped: bool,
    failed: bool,
}

impl Applier {
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        if !state.wanted {
            state.wanted = true;
            self.wake.notify_all();
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    fn run(&self, core: &Weak<Core>, period: Duration) {
        loop {
            {
                let mut state = self.state.lock();
                // After a failure only time helps.
                let wait = if state.failed { Duration::from_secs(1) } else { period };
                let deadline = Instant::now() + wait;
                while !state.stopped && (!state.wanted || state.failed) {
                    if self.wake.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
                if state.stopped {
                    return;
                }
                state.wanted = false;
            }
            let Some(core) = core.upgrade() else { return };
            let result = core.checkpoint();
            let mut state = self.state.lock();
            if let Err(error) = &result
                && !state.failed
            {
                log::error!(target: "STORAGE", id = 7_703_002, error:% = error;
                    "The data file cannot be written");
            }
            state.failed = result.is_err();
        }
    }
}

/// Starts the thread.
pub(crate) fn start(
    applier: &Arc<Applier>,
    core: Weak<Core>,
    period: Duration,
) -> Result<JoinHandle<()>> {
    let applier = Arc::clone(applier);
    let thread = std::thread::Builder::new().name("dataFileSync".to_owned());
    Ok(thread.spawn(move || applier.run(&core, period))?)
}

/// Changes of sizes within a write transaction, by space and ident.
#[derive(Default)]
struct Sizes(HashMap<Vec<u8>, i64>);

/// The key of a size: the space and the ident, the first four bytes of a key.
pub(crate) fn size_key(space: Space, key: &[u8]) -> Vec<u8> {
    let mut name = vec![space.table() as u8];
    name.extend_from_slice(&key[..key.len().min(4)]);
    name
}

impl Sizes {
    fn change(&mut self, space: Space, key: &[u8], new: Option<usize>, old: Option<usize>) {
        let bytes = |value: Option<usize>| value.map_or(0, |bytes| (bytes + key.len()) as i64);
        let change = bytes(new) - bytes(old);
        if change != 0 {
            *self.0.entry(size_key(space, key)).or_default() += change;
        }
    }

    fn write(&mut self, txn: &mut WriteTxn) -> Result<()> {
        for (name, change) in self.0.drain() {
            let old = txn.get(Db::Sizes, &name)?.and_then(|value| value.try_into().ok());
            match old.map_or(0, i64::from_le_bytes) + change {
                ..=0 => {
                    txn.delete(Db::Sizes, &name)?;
                }
                size => txn.put(Db::Sizes, &name, &size.to_le_bytes())?,
            }
        }
        Ok(())
    }
}

/// A write transaction that is being filled.
struct Step {
    txn: WriteTxn,
    sizes: Sizes,
    bytes: usize,
    entries: usize,
}

impl Step {
    fn begin(core: &Core, space: Space) -> Result<Step> {
        let env = if space == Space::Spill { &core.spill } else { &core.data };
        Ok(Step { txn: env.write()?, sizes: Sizes::default(), bytes: 0, entries: 0 })
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        let old = db::put(&mut self.txn, Db::Space(space), key, value)?;
        self.count(space, key, Some(value.len()), old);
        Ok(())
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        let old = db::delete(&mut self.txn, Db::Space(space), key)?;
        self.count(space, key, None, old);
        Ok(())
    }

    fn count(&mut self, space: Space, key: &[u8], new: Option<usize>, old: Option<usize>) {
        self.sizes.change(space, key, new, old);
        self.bytes += key.len() + new.unwrap_or(0);
        self.entries += 1;
    }

    fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES || self.entries >= STEP_ENTRIES
    }

    fn commit(mut self) -> Result<()> {
        self.sizes.write(&mut self.txn)?;
        self.txn.commit()
    }
}

impl Core {
    /// Everything committed before is in the data file, and that on disk, when this returns.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _files = self.files.lock();
        // What an earlier attempt left goes first.
        self.apply_frozen()?;
        self.freeze();
        self.apply_frozen()
    }

    fn freeze(&self) {
        let _writer = self.commit.lock();
        let view = self.views.load();
        if view.active().is_empty() || view.frozen().is_some() {
            return;
        }
        view.active().freeze(self.newest());
        let layers = vec![Arc::new(Layer::new()), Arc::clone(view.active())];
        let base = Arc::clone(&view.base);
        self.views.store(Arc::new(View { layers, base }));
        self.applier.wake.notify_all();
    }

    fn apply_frozen(&self) -> Result<()> {
        let Some(layer) = self.views.load().frozen().cloned() else { return Ok(()) };
        let applied = layer.end();
        // Each step is whole, the layer only with its last one: if the power goes between two, the rest
        // must come from the log.
        self.sync_ahead()?;
        for (space, start, end) in layer.drops() {
            self.delete_range(space, &start, &end)?;
        }
        for space in Space::CORE {
            self.write_space(&layer, space)?;
        }
        let mut txn = self.data.write()?;
        db::set_applied(&mut txn, applied)?;
        txn.commit()?;
        self.finish(applied)
    }

    /// Writes the newest version of each key of a layer.
    fn write_space(&self, layer: &Arc<Layer>, space: Space) -> Result<()> {
        if layer.table.is_empty(space) {
            return Ok(());
        }
        let table: &Table = &layer.table;
        let mut scan = Scan::new(Borrowed(table), u64::MAX, space, &[], &[]);
        let mut more = scan.seek(&[]);
        while more {
            let mut step = Step::begin(self, space)?;
            while more && !step.is_full() {
                match scan.value() {
                    Some(value) => step.put(space, scan.key(), value)?,
                    None => step.delete(space, scan.key())?,
                }
                more = scan.next();
            }
            step.commit()?;
            self.refresh(space)?;
        }
        Ok(())
    }

    /// Removes a range from the file, some thousand keys at a time.
    fn delete_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        loop {
            let base = Arc::clone(&self.views.load().base);
            let keys = some_keys(base.of(space), space, start, end)?;
            if keys.is_empty() {
                return Ok(());
            }
            let mut step = Step::begin(self, space)?;
            for key in &keys {
                step.delete(space, key)?;
            }
            step.commit()?;
            drop(base);
            self.refresh(space)?;
        }
    }

    /// Puts entries into the file, past log and layers; none of the layers has any of the keys.
    pub(crate) fn put_all<'e>(
        &self,
        space: Space,
        entries: &mut dyn Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Result<()> {
        let mut step = Step::begin(self, space)?;
        for (key, value) in entries {
            step.put(space, key, value)?;
        }
        step.commit()?;
        self.refresh(space)
    }

    /// Removes entries from the data file itself. Nobody may have changed them lately.
    pub(crate) fn delete_all<'k>(
        &self,
        keys: &mut dyn Iterator<Item = (Space, &'k [u8])>,
    ) -> Result<()> {
        let mut step = Step::begin(self, Space::Records)?;
        for (space, key) in keys {
            step.delete(space, key)?;
        }
        step.commit()?;
        self.refresh(Space::Records)
    }

    /// A view whose base has what was just written.
    fn refresh(&self, space: Space) -> Result<()> {
        let old = Arc::clone(&self.views.load().base);
        let base = match space {
            Space::Spill => {
                Base { spill: Arc::new(self.spill.read()?), data: Arc::clone(&old.data) }
            }
            _ => Base { data: Arc::new(self.data.read()?), spill: Arc::clone(&old.spill) },
        };
        let _writer = self.commit.lock();
        let layers = self.views.load().layers.clone();
        self.views.store(Arc::new(View { layers, base: Arc::new(base) }));
        self.allocator.look();
        Ok(())
    }

    /// The frozen layer is in the file.
    fn finish(&self, applied: u64) -> Result<()> {
        {
            let _writer = self.commit.lock();
            let view = self.views.load();
            let layers = vec![Arc::clone(view.active())];
            let base = Arc::clone(&view.base);
            self.views.store(Arc::new(View { layers, base }));
        }
        self.applier.wake.notify_all();
        self.give_back(applied)
    }

    /// Log segments of which everything is in the file may be used again.
    pub(crate) fn give_back(&self, applied: u64) -> Result<()> {
        let (free, spares) = {
            let mut writer = self.commit.lock();
            (writer.log.release(applied), Arc::clone(writer.log.spares()))
        };
        free.iter().try_for_each(|path| spares.add(path))
    }

    /// Early back-pressure; see the module's header.
    pub(crate) fn slow_down(&self, bytes: usize) -> Result<()> {
        let active = self.views.load().active().table.byte_count();
        if active <= self.layer_bytes {
            return Ok(());
        }
        self.applier.wake();
        let over = (active - self.layer_bytes) as f64 / self.layer_bytes as f64;
        if over < 2.0 {
            // By the bytes, so that small commits are not punished for large ones.
            let share = (bytes as f64 / 1024.0).max(1.0);
            let sleep = Duration::from_micros((over * over * 20.0 * share) as u64);
            std::thread::sleep(sleep.min(SLEEP_MAX));
            return Ok(());
        }
        let deadline = Instant::now() + WAIT_MAX;
        let mut state = self.applier.state.lock();
        while self.views.load().active().table.byte_count() > self.layer_bytes * 3 {
            if state.stopped || (state.failed && Instant::now() >= deadline) {
                return Err(Error::other("the data file cannot be written; the write was refused"));
            }
            self.applier.wake.wait_for(&mut state, LOOK_EACH);
        }
        Ok(())
    }
}

struct Borrowed<'t>(&'t Table);

impl AsRef<Table> for Borrowed<'_> {
    fn as_ref(&self) -> &Table {
        self.0
    }
}

/// Keys from the beginning of a range.
fn some_keys(txn: &Arc<ReadTxn>, space: Space, start: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut cursor = TreeCursor::open(txn, Db::Space(space), start, end)?;
    let mut keys = Vec::new();
    let mut more = cursor.seek(start)?;
    while more && keys.len() < STEP_ENTRIES {
        keys.push(cursor.key().to_vec());
        more = cursor.next()?;
    }
    Ok(keys)
}
