//! Inserts into capped collections: the oldest documents are deleted as new ones arrive.
//!
//! The writers of a capped collection are serialized: each one locks a key that represents the collection before it
//! takes a record id, and holds the lock until its commit. So record ids become visible in ascending order, and a
//! tailable cursor that has read up to an id misses no record.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};
use nagi_kv::Space;

use crate::{Collection, RecordKey, WriteTxn, engine_error::engine, record};

/// Upper limit of records deleted per transaction, when many must be deleted.
pub(crate) const CAPPED_BATCH_COUNT: usize = 1000;

/// Writing.
impl WriteTxn<'_> {
    /// Before an insert: locks the collection for this writer, and refuses a document larger than the limit (2).
    pub(crate) fn enter_capped(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<()> {
        if doc.len() as i64 > collection.options.capped_bytes_max() {
            bail!(Code::BAD_VALUE, "object to insert exceeds cappedMaxSize");
        }
        self.lock_capped(collection)
    }

    pub(crate) fn lock_capped(&mut self, collection: &Collection) -> Result<()> {
        let guard = collection.ident.record_key(i64::MIN);
        self.lock_key(collection.space, &guard)
    }

    /// Deletes the oldest documents until the collection is within its limits.
    pub(crate) fn trim_capped(&mut self, collection: &Arc<Collection>, at: usize) -> Result<()> {
        let options = &collection.options;
        let count_max = options.count_max.unwrap_or(i64::MAX);
        let bytes_max = options.capped_bytes_max();
        let committed = self.committed_counters(collection)?;
        for _ in 0..CAPPED_BATCH_COUNT {
            let touched = &self.touched[at];
            let count = committed.0 + touched.count;
            let bytes = committed.1 + touched.bytes;
            if (count <= count_max && bytes <= bytes_max) || count <= 1 {
                return Ok(());
            }
            if !self.remove_first(collection, at)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Deletes the oldest document; returns false if there is none.
    fn remove_first(&mut self, collection: &Arc<Collection>, at: usize) -> Result<bool> {
        // All earlier records have been deleted: the cursor skips their tombstones.
        let known = collection.state.first_record.load(Relaxed);
        let first = self.touched[at].first_record.max(known);
        let (start, end) = (collection.ident.record_key(first), collection.ident.end());
        let mut walk = self.txn().cursor(collection.space, &start, &end).map_err(engine)?;
        if !walk.seek(&start).map_err(engine)? {
            return Ok(false);
        }
        let number = collection.layout.of_stored(walk.key()).number().unwrap_or(0);
        let old = record::decode(walk.value(), &mut Vec::new())?.to_buf();
        drop(walk);
        self.delete(collection, RecordKey::Id(number), old.as_doc())?;
        self.touched[at].first_record = number + 1;
        Ok(true)
    }

    /// Count and bytes as of this transaction's snapshot.
    fn committed_counters(&mut self, collection: &Collection) -> Result<(i64, i64)> {
        let mut buf = Vec::new();
        let key = collection.ident.bytes();
        let stored = self.txn().get(Space::Counters, &key, &mut buf).map_err(engine)?;
        let counters = stored.unwrap_or(&[]).as_chunks().0;
        let at = |at: usize| counters.get(at).map_or(0, |bytes| i64::from_le_bytes(*bytes));
        Ok((at(0), at(1)))
    }
}
