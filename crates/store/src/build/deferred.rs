//! Deferred uniqueness checks: the end of a unique index build.
//!
//! While a unique index is built, a writer may bring a key that the index has already for another record. The other
//! record may lose the key before the build ends, so the writer is not refused. Its entry is stored under the key
//! and its record key instead, and the key is remembered as doubtful.
//!
//! When the build ends and writers no longer store such entries, each doubtful key is checked: if one record has
//! the key, its entry moves to its usual place; if several have it, the build fails with a duplicate key error.

use nagi_error::Result;
use nagi_kv::Space;

use crate::{
    BuildOptions, Collection, Index, RecordId, Store, WriteOptions, WriteTxn, engine_error::engine,
    ident::Ident, index::DeferredChecks, keystring, store::txn::duplicate_key,
};

/// Limit of doubtful keys caused by writers; further writers are refused.
const DOUBT_COUNT_MAX: usize = 10_000;

impl DeferredChecks {
    /// Records a key. Returns false if there are too many.
    pub(crate) fn add(&self, key: &[u8]) -> bool {
        let mut keys = self.0.lock();
        let fits = keys.len() < DOUBT_COUNT_MAX;
        if fits {
            keys.push(key.into());
        }
        fits
    }

    /// Records a key regardless of the number; for the build itself.
    pub(crate) fn add_any(&self, key: &[u8]) {
        self.0.lock().push(key.into());
    }
}

impl Store {
    /// Checks the doubtful keys of an index; 11000 if several records have one of them.
    pub(crate) fn judge(
        &self,
        built: &Collection,
        index: &Index,
        options: BuildOptions<'_>,
    ) -> Result<()> {
        let Some(deferred) = &index.deferred else { return Ok(()) };
        let mut keys = std::mem::take(&mut *deferred.0.lock());
        let write = WriteOptions { interrupt: options.interrupt, ..WriteOptions::default() };
        loop {
            for key in keys {
                if let Some(interrupt) = options.interrupt {
                    interrupt()?;
                }
                self.write_value(write, &mut |txn| settle(txn, built, index, &key))?;
            }
            keys = match index.doubts {
                Some(doubts) => self.doubtful(doubts)?,
                None => Vec::new(),
            };
            if keys.is_empty() {
                return Ok(());
            }
        }
    }

    /// Keys that writers of all nodes have recorded; each is removed when it is settled.
    fn doubtful(&self, doubts: Ident) -> Result<Vec<Box<[u8]>>> {
        let (start, end) = (doubts.bytes(), doubts.end());
        let mut cursor = self.latest().read.cursor(Space::Index, &start, &end).map_err(engine)?;
        let (mut keys, mut found) = (Vec::new(), cursor.seek(&start).map_err(engine)?);
        while found && keys.len() < DOUBT_COUNT_MAX {
            keys.extend(cursor.key().get(4..).map(Box::from));
            found = cursor.next().map_err(engine)?;
        }
        Ok(keys)
    }
}

fn settle(
    txn: &mut WriteTxn<'_>,
    collection: &Collection,
    index: &Index,
    key: &[u8],
) -> Result<()> {
    let full = [&index.ident.bytes(), key].concat();
    txn.txn().lock(Space::Index, &full).map_err(engine)?;
    let end = [&full[..], &[keystring::AFTER]].concat();
    let mut cursor = txn.txn().cursor(Space::Index, &full, &end).map_err(engine)?;
    let mut usual: Option<RecordId> = None;
    let mut quarantined: Vec<(RecordId, Vec<u8>)> = Vec::new();
    let mut found = cursor.seek(&full).map_err(engine)?;
    while found {
        let layout = index.layout;
        match cursor.key().strip_prefix(&full[..]) {
            Some([]) => usual = layout.split_head(cursor.value()).map(|(id, _)| id.to_id()),
            Some(tail) => {
                if let Some(([], id)) = layout.split_tail(tail) {
                    quarantined.push((id.to_id(), cursor.value().to_vec()));
                }
            }
            None => {}
        }
        found = cursor.next().map_err(engine)?;
    }
    drop(cursor);
    // A record may have got the usual entry after its other entry was stored.
    let others: Vec<_> = quarantined.iter().filter(|(id, _)| Some(id) != usual.as_ref()).collect();
    if others.len() + usize::from(usual.is_some()) > 1 {
        let bits = others.first().map_or(&[][..], |(_, bits)| bits);
        return Err(duplicate_key(collection, index, key, bits));
    }
    if let [(id, bits)] = others[..] {
        let mut entry = Vec::new();
        id.key().append_head(&mut entry);
        entry.extend_from_slice(bits);
        txn.txn().put(Space::Index, &full, &entry).map_err(engine)?;
    }
    if let Some(doubts) = index.doubts {
        let doubt = [&doubts.bytes(), key].concat();
        txn.txn().delete(Space::Index, &doubt).map_err(engine)?;
    }
    for (id, _) in &quarantined {
        let mut key = full.clone();
        id.key().append_tail(&mut key);
        txn.txn().delete(Space::Index, &key).map_err(engine)?;
    }
    Ok(())
}
