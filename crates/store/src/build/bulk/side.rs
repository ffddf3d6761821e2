//! Drains the log of changes that writers made while an index was built.
//!
//! An entry names a record and a key. The record is locked and read, and the index is made to have the key exactly
//! if the record has it. The log entry is removed in the same transaction as the correction. So a writer that
//! changes the record again comes either before it, and is read, or after it, and logs the change again.

use std::{cell::Cell, sync::Arc};

use nagi_error::Result;
use nagi_kv::Space;

use super::{Meter, dropped};
use crate::{
    BuildOptions, Collection, Index, RecordId, RecordKey, Store, WriteOptions, WriteTxn,
    engine_error::engine, ident::Ident, index::keygen::KeySink, record, store::txn::PutBy,
};

/// Entries per transaction; reduced after conflicts.
const BATCH_COUNT: usize = if cfg!(feature = "shuttle") { 2 } else { 256 };
/// Bytes of entries after which a transaction is full.
const BATCH_BYTES: usize = 1 << 20;

/// A record and one of its keys, present or removed.
type Change = (RecordId, Vec<u8>);

/// Drains the index's log once, up to its end at the start of the drain. Returns the number of entries.
pub(super) fn drain(
    store: &Store,
    built: &Collection,
    index: &Arc<Index>,
    options: BuildOptions<'_>,
    go_on: &dyn Fn() -> Result<()>,
    meter: &mut Meter,
) -> Result<u64> {
    let mut done = 0;
    // Removed keys are processed first: if many records exchange keys, fewer keys become doubtful.
    let rounds: &[bool] = if index.keyed_alone { &[true, false] } else { &[false] };
    for only_gone in rounds {
        let mut walk = Walk { store, built, index, options, only_gone: *only_gone };
        done += walk.run(go_on, meter)?;
    }
    Ok(done)
}

struct Walk<'b> {
    store: &'b Store,
    built: &'b Collection,
    index: &'b Arc<Index>,
    options: BuildOptions<'b>,
    only_gone: bool,
}

impl Walk<'_> {
    fn run(&mut self, go_on: &dyn Fn() -> Result<()>, meter: &mut Meter) -> Result<u64> {
        let Some(side) = self.index.bulk.as_ref().map(|bulk| bulk.side) else { return Ok(0) };
        let (mut from, mut done) = (side.bytes().to_vec(), 0);
        // Otherwise writers could append faster than the drain proceeds.
        let Some(end) = self.last(side)? else { return Ok(0) };
        let mut batch_count = BATCH_COUNT;
        let write = WriteOptions { interrupt: self.options.interrupt, ..WriteOptions::default() };
        loop {
            go_on()?;
            let changes = self.read(&from, &end, batch_count)?;
            if changes.is_empty() {
                return Ok(done);
            }
            let attempts = Cell::new(0);
            let (count, settled) = self.store.write_value(write, &mut |txn| {
                attempts.set(attempts.get() + 1);
                // Fewer records at a time after conflicts.
                let count = (changes.len() >> (attempts.get() - 1).min(16)).max(1);
                Ok((count, self.settle(txn, side, &changes[..count])?))
            })?;
            batch_count = match attempts.get() {
                1 => (batch_count * 2).min(BATCH_COUNT),
                _ => (batch_count / 2).max(1),
            };
            let (id, key) = &changes[count - 1];
            from = side_key(side, id.key(), key);
            // The least key after it.
            from.push(0);
            done += settled;
            meter.step(settled, self.options);
        }
    }

    /// The end of the log at this moment.
    fn last(&self, side: Ident) -> Result<Option<Vec<u8>>> {
        let (start, end) = (side.bytes(), side.end());
        let read = self.store.engine.latest();
        let mut cursor = read.cursor(Space::Index, &start, &end).map_err(engine)?;
        let found = cursor.seek_back(&end).map_err(engine)?;
        Ok(found.then(|| [cursor.key(), &[0]].concat()))
    }

    /// Reads the next entries before `end`.
    fn read(&self, from: &[u8], end: &[u8], count_max: usize) -> Result<Vec<Change>> {
        if from >= end {
            return Ok(Vec::new());
        }
        let read = self.store.engine.latest();
        let mut cursor = read.cursor(Space::Index, from, end).map_err(engine)?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut found = cursor.seek(from).map_err(engine)?;
        while found && changes.len() < count_max && bytes < BATCH_BYTES {
            let layout = self.index.layout;
            let rest = cursor.key().get(4..).and_then(|key| layout.split_head(key));
            if let Some((id, key)) = rest {
                bytes += key.len();
                changes.push((id.to_id(), key.to_vec()));
            }
            found = cursor.next().map_err(engine)?;
        }
        Ok(changes)
    }

    /// Applies the entries; returns the number of entries that are done.
    fn settle(&self, txn: &mut WriteTxn<'_>, side: Ident, changes: &[Change]) -> Result<u64> {
        let at = txn.touch(self.built)?;
        let collection = Arc::clone(&txn.touched[at].collection);
        if !collection.indexes.iter().any(|index| index.ident == self.index.ident) {
            return Err(dropped(self.index.name()));
        }
        let same_record = |a: &Change, b: &Change| a.0 == b.0;
        // Locked before the first read: then a lock waits for other transactions, and reads see the newest data.
        for group in changes.chunk_by(same_record) {
            txn.lock(&collection, group[0].0.key())?;
        }
        let (mut sink, mut buf, mut spare) = (KeySink::default(), Vec::new(), Vec::new());
        let mut settled = 0;
        for group in changes.chunk_by(same_record) {
            let id = group[0].0.key();
            let record_key = id.stored(collection.ident);
            let found = txn.txn().get(collection.space, &record_key, &mut buf).map_err(engine)?;
            match found {
                Some(value) => {
                    let doc = record::decode(value, &mut spare)?.to_buf();
                    txn.fill(self.index, doc.as_doc(), &mut sink)?;
                }
                None => sink.reset(0),
            }
            for (_, key) in group {
                match sink.find(key) {
                    Some(_) if self.only_gone => continue,
                    Some(bits) => {
                        let by = PutBy::Drain;
                        txn.put_key(&collection, self.index, key, bits, id, by)?;
                    }
                    None => txn.delete_key(self.index, key, id)?,
                }
                let side_key = side_key(side, id, key);
                txn.txn().delete(Space::Index, &side_key).map_err(engine)?;
                settled += 1;
            }
        }
        Ok(settled)
    }
}

/// The key of a change in the log.
pub(crate) fn side_key(side: Ident, id: RecordKey<'_>, key: &[u8]) -> Vec<u8> {
    let mut full = side.bytes().to_vec();
    id.append_head(&mut full);
    full.extend_from_slice(key);
    full
}
