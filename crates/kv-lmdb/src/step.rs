//! Writes a layer to the data file: the ranges it dropped, then its keys, and finally the applied stamp.
//!
//!   in steps   several write transactions of LMDB, each synced and followed by a new view whose base has it. After a
//!              power cut between two steps the log has the rest, because it was synced before
//!   whole      one write transaction, if the log could not be synced. Then missing steps could not be recovered from
//!              the log, and a log that ends early must not be replayed over newer data. So the file has either the
//!              whole layer and its stamp, or nothing of it
//!
//! Spill is scratch data in a file of its own that is created anew at each start: its steps need no log.

use std::{collections::HashMap, sync::Arc};

use nagi_kv::{
    Result, Space,
    table::{Scan, Table},
};

use crate::{
    core::Core,
    db::{self, Base, Db, ReadTxn, TreeCursor, WriteTxn},
    hook::Moment,
    view::{Layer, View},
};

/// Size limit of a write transaction, which holds the pages it changes in memory.
const STEP_BYTES: usize = 16 << 20;
const STEP_ENTRIES: usize = if cfg!(test) { 16 } else { 16 << 10 };

/// Changes of sizes within a write transaction, by space and ident.
#[derive(Default)]
struct Sizes(HashMap<Vec<u8>, i64>);

/// The key of a size: the space and the ident (the first four bytes of a key).
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

    /// Writes the newest versions of a layer's keys, at most a step of them if `bounded`. Returns true if there are
    /// more.
    fn take(&mut self, space: Space, scan: &mut Newest<'_>, bounded: bool) -> Result<bool> {
        let mut more = true;
        while more && !(bounded && self.is_full()) {
            match scan.value() {
                Some(value) => self.put(space, scan.key(), value)?,
                None => self.delete(space, scan.key())?,
            }
            more = scan.next();
        }
        Ok(more)
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

type Newest<'t> = Scan<Borrowed<'t>>;

fn newest(layer: &Layer, space: Space) -> Newest<'_> {
    Scan::new(Borrowed(&layer.table), u64::MAX, space, &[], &[])
}

impl Core {
    /// Writes a layer in steps. The log must be durable up to the layer's end.
    pub(crate) fn apply_in_steps(&self, layer: &Layer) -> Result<()> {
        debug_assert!(
            self.commit.lock().log.synced() >= layer.end(),
            "half of a transaction could be all that is left of it"
        );
        for (space, start, end) in layer.drops() {
            self.delete_range(space, &start, &end)?;
        }
        for space in Space::CORE {
            self.write_space(layer, space)?;
        }
        let mut txn = self.data.write()?;
        db::set_applied(&mut txn, layer.end())?;
        txn.commit()?;
        self.hook.at(Moment::Stepped)
    }

    /// Writes a layer in one transaction, independently of the log.
    pub(crate) fn apply_whole(&self, layer: &Layer) -> Result<()> {
        let mut step = Step::begin(self, Space::Records)?;
        // No other thread writes the file, so the base is what the transaction began with.
        let base = Arc::clone(&self.views.load().base);
        for (space, mut start, end) in layer.drops() {
            if space == Space::Spill {
                self.delete_range(space, &start, &end)?;
                continue;
            }
            loop {
                let keys = some_keys(base.of(space), space, &start, &end)?;
                let Some(last) = keys.last() else { break };
                keys.iter().try_for_each(|key| step.delete(space, key))?;
                start = [last.as_slice(), &[0]].concat();
            }
        }
        for space in Space::CORE.into_iter().filter(|space| !layer.table.is_empty(*space)) {
            if space == Space::Spill {
                self.write_space(layer, space)?;
                continue;
            }
            let mut scan = newest(layer, space);
            if scan.seek(&[]) {
                step.take(space, &mut scan, false)?;
            }
        }
        db::set_applied(&mut step.txn, layer.end())?;
        step.commit()?;
        self.refresh(Space::Records)?;
        self.hook.at(Moment::Stepped)
    }

    /// Writes the newest version of each key of a layer, step by step.
    fn write_space(&self, layer: &Layer, space: Space) -> Result<()> {
        if layer.table.is_empty(space) {
            return Ok(());
        }
        let mut scan = newest(layer, space);
        let mut more = scan.seek(&[]);
        while more {
            let mut step = Step::begin(self, space)?;
            more = step.take(space, &mut scan, true)?;
            step.commit()?;
            self.refresh(space)?;
            self.hook.at(Moment::Stepped)?;
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
            self.hook.at(Moment::Stepped)?;
        }
    }

    /// Puts entries into the file, bypassing log and layers; no layer may have any of the keys.
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

    /// Removes entries from the data file itself. No layer may have changes of them.
    pub(crate) fn delete_all(&self, keys: &mut dyn Iterator<Item = (Space, &[u8])>) -> Result<()> {
        let mut step = Step::begin(self, Space::Records)?;
        for (space, key) in keys {
            step.delete(space, key)?;
        }
        step.commit()?;
        self.refresh(Space::Records)
    }

    /// Publishes a view whose base has the last write.
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
}

struct Borrowed<'t>(&'t Table);

impl AsRef<Table> for Borrowed<'_> {
    fn as_ref(&self) -> &Table {
        self.0
    }
}

/// The first keys of a range, up to a step's limit.
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
