//! Capped collections: the oldest documents make room for the newest.
//!
//! Writers of one capped collection follow one another: each locks a key that stands for the
//! collection before it takes a record id, and holds it until its commit. So record ids become
//! visible in their own order, and a tailable cursor that has read up to one id misses nothing.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};
use nagi_kv::Space;
use nagi_kv::sync::{Condvar, Instant, Mutex};

use crate::{
    Collection, CollectionOptions, Namespace, RecordId, Store, WriteOptions, WriteTxn,
    catalog::{Ddl, Uuid, refuse_view},
    engine_error::engine,
    record,
};

/// Records a transaction takes out at most, where many must go at once.
const BATCH_COUNT: usize = 1000;

/// Tells those who wait at the end of a capped collection that it has changed, or is gone.
#[derive(Default)]
pub struct Arrivals {
    version: Mutex<u64>,
    changed: Condvar,
}

impl Arrivals {
    /// A number that grows with every change: take it before reading, then wait beyond it.
    pub fn version(&self) -> u64 {
        *self.version.lock()
    }

    pub(crate) fn announce(&self) {
        *self.version.lock() += 1;
        self.changed.notify_all();
    }

    /// Wakes everybody who waits, to look at its interrupt.
    pub fn wake(&self) {
        let _held = self.version.lock();
        self.changed.notify_all();
    }

    /// Waits until something has changed since `seen`, or until `until`. `interrupt` is asked first
    /// and at each waking; its error ends the wait. True if something has changed.
    pub fn wait_beyond(
        &self,
        seen: u64,
        until: Instant,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let mut version = self.version.lock();
        loop {
            interrupt()?;
            if *version != seen {
                return Ok(true);
            }
            if self.changed.wait_until(&mut version, until).timed_out() {
                return Ok(*version != seen);
            }
        }
    }
}

/// Writing.
impl WriteTxn<'_> {
    /// Before an insert: makes this writer the only one, and refuses what can never fit (2).
    pub(crate) fn enter_capped(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<()> {
        if doc.len() as i64 > collection.options.capped_bytes_max() {
            bail!(Code::BAD_VALUE, "object to insert exceeds cappedMaxSize");
        }
        self.lock_capped(collection)
    }

    fn lock_capped(&mut self, collection: &Collection) -> Result<()> {
        let guard = collection.ident.record_key(RecordId(i64::MIN));
        self.txn().lock(collection.space, &guard).map_err(engine)
    }

    /// Takes the oldest documents out until the collection is within its limits.
    pub(crate) fn trim_capped(&mut self, collection: &Arc<Collection>, at: usize) -> Result<()> {
        let options = &collection.options;
        let count_max = options.count_max.unwrap_or(i64::MAX);
        let bytes_max = options.capped_bytes_max();
        let committed = self.committed_counters(collection)?;
        for _ in 0..BATCH_COUNT {
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

    /// Takes the oldest document out; false if there is none.
    fn remove_first(&mut self, collection: &Arc<Collection>, at: usize) -> Result<bool> {
        // Everything before has been deleted: not to be walked over again.
        let known = collection.state.first_record.load(Relaxed);
        let first = RecordId(self.touched[at].first_record.max(known));
        let (start, end) = (collection.ident.record_key(first), collection.ident.end());
        let mut walk = self.txn().cursor(collection.space, &start, &end).map_err(engine)?;
        if !walk.seek(&start).map_err(engine)? {
            return Ok(false);
        }
        let id = walk.key().last_chunk().map_or(RecordId(0), |b| RecordId::from_bytes(*b));
        let old = record::decode(walk.value(), &mut Vec::new())?.to_buf();
        drop(walk);
        self.delete(collection, id, old.as_doc())?;
        self.touched[at].first_record = id.0 + 1;
        Ok(true)
    }

    /// Count and bytes as this transaction's state has them.
    fn committed_counters(&mut self, collection: &Collection) -> Result<(i64, i64)> {
        let mut buf = Vec::new();
        let key = collection.ident.bytes();
        let stored = self.txn().get(Space::Counters, &key, &mut buf).map_err(engine)?;
        let counters = stored.unwrap_or(&[]).as_chunks().0;
        let at = |at: usize| counters.get(at).map_or(0, |bytes| i64::from_le_bytes(*bytes));
        Ok((at(0), at(1)))
    }
}

impl Store {
    /// `convertToCapped`: in place, since records are kept in the order of insertion anyway. The
    /// other indexes go, the collection gets a new UUID, what does not fit is taken out. Code 26.
    pub fn convert_to_capped(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let capped = CollectionOptions::parse(options, namespace)?;
        // It becomes another one: its UUID changes.
        let (mut ddl, frozen) = Ddl::alone(self, &|catalog| {
            catalog.collection(namespace).cloned().into_iter().collect()
        })?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "source collection {namespace} does not exist");
        };
        refuse_view(&collection)?;
        collection.refuse_while_building()?;
        let is_id = |index: &Arc<crate::Index>| index.spec.is_id();
        for index in collection.indexes.iter().filter(|index| !is_id(index)) {
            ddl.remove_index(index)?;
        }
        let kept = collection.indexes.iter().filter(|index| is_id(index)).cloned().collect();
        let mut next = collection.with_indexes(kept);
        next.options = merged(&collection.options, &capped, namespace)?;
        next.uuid = Uuid::random();
        let next = ddl.put(next)?;
        ddl.finish()?;
        drop(frozen);
        self.trim_now(&next, interrupt)
    }

    /// Takes out what is beyond the limits, in transactions of bounded size.
    fn trim_now(
        &self,
        collection: &Arc<Collection>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let options = WriteOptions { interrupt: Some(interrupt), ..WriteOptions::default() };
        loop {
            interrupt()?;
            let removed = self.write_value(options, &mut |txn| {
                let at = txn.touch(collection)?;
                txn.lock_capped(collection)?;
                txn.trim_capped(collection, at)?;
                Ok(txn.touched[at].count)
            })?;
            if removed == 0 {
                return Ok(());
            }
        }
    }

    /// Deletes the records after `last` (all if none), for tests of capped collections.
    pub fn truncate_capped_after(
        &self,
        collection: &Arc<Collection>,
        last: Option<RecordId>,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let options = WriteOptions { interrupt: Some(interrupt), ..WriteOptions::default() };
        loop {
            interrupt()?;
            let count = self.write_value(options, &mut |txn| {
                txn.lock_capped(collection)?;
                let mut doomed = Vec::new();
                let mut scan = txn.reader().scan(collection, false)?;
                while doomed.len() < BATCH_COUNT
                    && scan.advance()?
                    && last.is_none_or(|last| scan.id() > last)
                {
                    doomed.push((scan.id(), scan.doc().to_buf()));
                }
                drop(scan);
                for (id, doc) in &doomed {
                    txn.delete(collection, *id, doc.as_doc())?;
                }
                Ok(doomed.len())
            })?;
            if count == 0 {
                return Ok(());
            }
        }
    }
}

/// The options of a collection that becomes capped.
fn merged(
    old: &CollectionOptions,
    capped: &CollectionOptions,
    namespace: &Namespace,
) -> Result<CollectionOptions> {
    let doc = nagi_bson::DocBuf::build(|w| {
        w.extend(capped.doc.as_doc());
        for element in old.doc.as_doc() {
            if capped.doc.as_doc().element(element.name()).is_none()
                && !matches!(element.name(), "max" | "temp")
            {
                w.put(element.name(), element.value());
            }
        }
    });
    CollectionOptions::parse(doc.as_doc(), namespace)
}
