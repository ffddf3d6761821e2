//! Deletion of expired documents: one pass over the TTL indexes, and over the ids of clustered collections with an
//! expiry time.
//!
//! A TTL index is scanned from the earliest date to the latest expired one. The found documents are deleted in
//! small transactions; each document is read and checked again before its deletion. For an array of dates the
//! earliest date counts. Values other than dates do not expire. The cost is proportional to the number of deleted
//! documents.
//!
//! Buckets of a time series expire as a whole, when their last measurement has: by the begin in their ids, and then by
//! `control.max`. Ids have 32 bits of seconds. The upper half of them is searched too, for buckets before 1970, and
//! times before 1901 or after 2106 are found only if their bits happen to be in the range. An index on the time with
//! metadata as its condition is scanned by the begins, for the buckets that it has.

use std::sync::Arc;

use nagi_bson::{Doc, Value};
use nagi_error::Result;

use crate::{
    Collection, Index, RecordBuf, RecordKey, Store, WriteOptions, WriteTxn, index::keygen::KeySink,
    keystring, store::txn::fill_sink,
};

/// Documents deleted per transaction.
const BATCH_COUNT: usize = 128;

impl Store {
    /// Deletes the documents that have expired by `now_ms` (milliseconds since 1970) and returns their number.
    /// `interrupt` is checked before each batch; an error from it ends the pass. Of several nodes that share the data,
    /// one deletes them; the others return at once.
    pub fn expire(&self, now_ms: i64, interrupt: &dyn Fn() -> Result<()>) -> Result<u64> {
        let mut deleted = 0;
        // Of several nodes, one does it.
        if self.members.as_ref().is_some_and(|members| !members.is_steward()) {
            return Ok(deleted);
        }
        for collection in self.catalog().iter() {
            let clustered = collection.options.expire_after_seconds;
            if let Some(series) = &collection.options.timeseries {
                let cutoff_ms = clustered.map(|after| now_ms.saturating_sub(after * 1000));
                let time_field = &*series.time_field;
                if let (Some(cutoff_ms), Some(index)) = (cutoff_ms, collection.id_index()) {
                    let buckets = Buckets { collection, index, time_field };
                    deleted += self.expire_buckets(&buckets, cutoff_ms, interrupt)?;
                }
                for index in collection.ready_indexes() {
                    let Some(seconds) = index.spec.expire_after_seconds else { continue };
                    let buckets = Buckets { collection, index, time_field };
                    let cutoff_ms = now_ms.saturating_sub(seconds.saturating_mul(1000));
                    deleted += self.expire_buckets_in(&buckets, cutoff_ms, interrupt)?;
                }
                continue;
            }
            for index in collection.ready_indexes() {
                let of_collection = clustered.filter(|_| index.spec.is_id());
                if let Some(seconds) = index.spec.expire_after_seconds.or(of_collection) {
                    let cutoff_ms = now_ms.saturating_sub(seconds.saturating_mul(1000));
                    deleted += self.expire_index(collection, index, cutoff_ms, interrupt)?;
                }
            }
        }
        Ok(deleted)
    }

    fn expire_index(
        &self,
        collection: &Arc<Collection>,
        index: &Index,
        cutoff_ms: i64,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let (start, end) = dates_up_to(index, cutoff_ms);
        let mut deleted = 0;
        let mut ids = Vec::new();
        loop {
            interrupt()?;
            ids.clear();
            let mut cursor = self.latest().index_cursor(index, true, &start, &end)?;
            while ids.len() < BATCH_COUNT && cursor.advance()? {
                ids.push(cursor.record_id().to_id());
            }
            drop(cursor);
            if ids.is_empty() || !self.is_alive(collection, index) {
                return Ok(deleted);
            }
            let options = WriteOptions { interrupt: Some(interrupt), ..WriteOptions::default() };
            let count = self.write_value(options, &mut |txn| {
                let mut count = 0;
                for id in &ids {
                    txn.lock(collection, id.key())?;
                    let mut buf = RecordBuf::default();
                    let found = txn.reader().record(collection, id.key(), &mut buf)?;
                    let Some(doc) = found.map(|doc| doc.to_buf()) else { continue };
                    if has_key_within(index, doc.as_doc(), &start, &end)? {
                        txn.delete(collection, id.key(), doc.as_doc())?;
                        count += 1;
                    }
                }
                Ok(count)
            })?;
            deleted += count;
            if count == 0 {
                // Another thread deleted or changed them first; the next pass handles the rest.
                return Ok(deleted);
            }
        }
    }

    fn expire_buckets(
        &self,
        buckets: &Buckets<'_>,
        cutoff_ms: i64,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let seconds = u32::try_from(cutoff_ms.div_euclid(1000)).unwrap_or(0);
        let before_1970 = 1 << 31;
        let mut deleted = 0;
        for (from, to) in [(0, seconds), (before_1970.max(seconds), u32::MAX)] {
            let range = (id_key(from, 0), id_key(to, 0xFF));
            deleted += self.expire_range(buckets, range, cutoff_ms, interrupt)?;
        }
        Ok(deleted)
    }

    /// The same for the buckets of an index on the time.
    fn expire_buckets_in(
        &self,
        buckets: &Buckets<'_>,
        cutoff_ms: i64,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        // Neither end of an expired bucket is later than the cutoff, and the index has both.
        self.expire_range(buckets, dates_up_to(buckets.index, cutoff_ms), cutoff_ms, interrupt)
    }

    /// Deletes the expired buckets among those with keys in a range.
    fn expire_range(
        &self,
        buckets: &Buckets<'_>,
        (mut start, end): (Vec<u8>, Vec<u8>),
        cutoff_ms: i64,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let mut deleted = 0;
        loop {
            interrupt()?;
            let mut ids = Vec::new();
            let mut cursor = self.latest().index_cursor(buckets.index, true, &start, &end)?;
            while ids.len() < BATCH_COUNT && cursor.advance()? {
                start.clear();
                start.extend_from_slice(cursor.key());
                ids.push(cursor.record_id().to_id());
            }
            drop(cursor);
            if ids.is_empty() || !self.is_alive(buckets.collection, buckets.index) {
                return Ok(deleted);
            }
            let options = WriteOptions { interrupt: Some(interrupt), ..WriteOptions::default() };
            let count = self.write_value(options, &mut |txn| {
                ids.iter()
                    .map(|id| buckets.delete_expired(txn, id.key(), cutoff_ms))
                    .sum::<Result<u64>>()
            })?;
            deleted += count;
            if count == 0 {
                // Those that stay are not met again. Buckets with equal keys stay together.
                start.push(keystring::AFTER);
            }
        }
    }

    fn is_alive(&self, collection: &Collection, index: &Index) -> bool {
        let newest = self.newest(collection);
        newest.is_some_and(|c| c.indexes.iter().any(|i| i.ident == index.ident && i.ready))
    }
}

/// The buckets of a time series that expire.
struct Buckets<'b> {
    collection: &'b Arc<Collection>,
    index: &'b Index,
    time_field: &'b str,
}

impl Buckets<'_> {
    /// Deletes a bucket if its last measurement has expired; returns the number of deleted buckets.
    fn delete_expired(
        &self,
        txn: &mut WriteTxn<'_>,
        id: RecordKey<'_>,
        cutoff_ms: i64,
    ) -> Result<u64> {
        txn.lock(self.collection, id)?;
        let mut buf = RecordBuf::default();
        let found = txn.reader().record(self.collection, id, &mut buf)?;
        let Some(bucket) = found.map(|doc| doc.to_buf()) else { return Ok(0) };
        // Its metadata may have been changed since it was found in a partial index.
        if !self.index.covers(bucket.as_doc())? {
            return Ok(0);
        }
        let control = bucket.get("control").as_doc().unwrap_or(Doc::EMPTY);
        let max = control.get("max").as_doc().unwrap_or(Doc::EMPTY);
        match max.get(self.time_field) {
            Value::DateTime(last) if last <= cutoff_ms => {
                txn.delete(self.collection, id, bucket.as_doc())?;
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

/// The key of an id with this time whose other bytes all are `rest`.
fn id_key(seconds: u32, rest: u8) -> Vec<u8> {
    let mut id = [rest; 12];
    id[..4].copy_from_slice(&seconds.to_be_bytes());
    let mut key = Vec::new();
    keystring::append(Value::ObjectId(&id), false, &mut key);
    key
}

/// Bounds of the keys that are dates up to the cutoff.
fn dates_up_to(index: &Index, cutoff_ms: i64) -> (Vec<u8>, Vec<u8>) {
    let descending = index.spec.key[0].descending;
    let encode = |ms| {
        let mut key = Vec::new();
        keystring::append(Value::DateTime(ms), descending, &mut key);
        key
    };
    let (mut start, mut end) = (encode(i64::MIN), encode(cutoff_ms));
    if descending {
        std::mem::swap(&mut start, &mut end);
    }
    end.push(keystring::AFTER);
    (start, end)
}

fn has_key_within(
    index: &Index,
    doc: nagi_bson::Doc<'_>,
    start: &[u8],
    end: &[u8],
) -> Result<bool> {
    let mut sink = KeySink::default();
    fill_sink(index, doc, &mut sink)?;
    Ok(sink.iter().any(|(key, _)| key >= start && key < end))
}
