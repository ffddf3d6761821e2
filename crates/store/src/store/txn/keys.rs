//! Index keys of a write transaction: the keys that a document adds to each index, and those it removes.

use std::sync::{Arc, atomic::Ordering::Acquire};

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};
use nagi_kv::{Space, sync::atomic::AtomicU64};
use nagi_lang::collation;

use super::{PutBy, WriteTxn};
use crate::{
    Collection, Index, RecordId, RecordKey,
    engine_error::engine,
    ident::CatalogKey,
    index::{
        self, Ceiling,
        keygen::{self, KeySink},
    },
    keystring,
};

/// Largest key string of an `_id` in a clustered collection, as in MongoDB.
const RECORD_KEY_BYTES_MAX: usize = 8 << 20;

impl WriteTxn<'_> {
    /// The key of a new record in a collection clustered by `_id`; fails with 11000 if it is taken.
    pub(super) fn claim_id(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<RecordId> {
        let Some(index) = collection.id_index() else {
            return Err(Error::bug("a collection has no index on _id"));
        };
        let mut sink = std::mem::take(&mut self.scratch.new_keys);
        let mut found = std::mem::take(&mut self.scratch.value);
        let done = fill_sink(index, doc, &mut sink)
            .and_then(|()| self.claim_key(collection, index, sink.key(0), &mut found));
        self.scratch.new_keys = sink;
        self.scratch.value = found;
        done
    }

    fn claim_key(
        &mut self,
        collection: &Collection,
        index: &Index,
        (key, bits): (&[u8], &[u8]),
        found: &mut Vec<u8>,
    ) -> Result<RecordId> {
        if key.len() > RECORD_KEY_BYTES_MAX {
            bail!(
                Code::Location(5_894_900),
                "Size of RecordId is above limit of {RECORD_KEY_BYTES_MAX} bytes"
            );
        }
        let (space, stored) = (collection.space, RecordKey::Key(key).stored(collection.ident));
        // Same order as in `put_unique`: lock, raise the ceiling, put.
        self.lock_key(space, &stored)?;
        let is_new = match self.ceiling(index) {
            Some(ceiling) => ceiling.rise(key, || self.store.latest().last_key(index))?,
            None => false,
        };
        if !is_new && self.txn().get_locked(space, &stored, found).map_err(engine)?.is_some() {
            return Err(duplicate_key(collection, index, key, bits));
        }
        Ok(RecordId::Key(key.into()))
    }

    /// The ceiling of an index, if keys above it need not be looked up. It relies on claims before the commit: see
    /// `index/ceiling.rs`.
    fn ceiling<'i>(&self, index: &'i Index) -> Option<&'i Ceiling> {
        index.ceiling.as_deref().filter(|_| self.store.promises.conflicts_at_once)
    }

    pub(super) fn insert_keys(
        &mut self,
        collection: &Collection,
        index: &Arc<Index>,
        id: RecordKey<'_>,
        doc: Doc<'_>,
    ) -> Result<()> {
        let mut sink = std::mem::take(&mut self.scratch.new_keys);
        let done = self.fill(index, doc, &mut sink).and_then(|()| {
            sink.iter().try_for_each(|(key, bits)| {
                self.put_key(collection, index, key, bits, id, PutBy::Writer)
            })
        });
        self.scratch.new_keys = sink;
        done
    }

    pub(super) fn delete_keys(
        &mut self,
        index: &Arc<Index>,
        id: RecordKey<'_>,
        doc: Doc<'_>,
    ) -> Result<()> {
        let mut sink = std::mem::take(&mut self.scratch.old_keys);
        let done = fill_sink(index, doc, &mut sink)
            .and_then(|()| sink.iter().try_for_each(|(key, _)| self.delete_key(index, key, id)));
        self.scratch.old_keys = sink;
        done
    }

    pub(super) fn update_keys(
        &mut self,
        collection: &Collection,
        index: &Arc<Index>,
        id: RecordKey<'_>,
        old: Doc<'_>,
        new: Doc<'_>,
    ) -> Result<()> {
        let mut olds = std::mem::take(&mut self.scratch.old_keys);
        let mut news = std::mem::take(&mut self.scratch.new_keys);
        let done = fill_sink(index, old, &mut olds)
            .and_then(|()| self.fill(index, new, &mut news))
            .and_then(|()| self.change_keys(collection, index, id, &olds, &news));
        self.scratch.old_keys = olds;
        self.scratch.new_keys = news;
        done
    }

    /// Both sinks are sorted: removes keys that are only old, and puts keys that are only new or have other type
    /// bits.
    fn change_keys(
        &mut self,
        collection: &Collection,
        index: &Arc<Index>,
        id: RecordKey<'_>,
        olds: &KeySink,
        news: &KeySink,
    ) -> Result<()> {
        let mut at = 0;
        for (key, _) in olds.iter() {
            while at < news.len() && news.key(at).0 < key {
                at += 1;
            }
            if at == news.len() || news.key(at).0 != key {
                self.delete_key(index, key, id)?;
            }
        }
        at = 0;
        for (key, bits) in news.iter() {
            while at < olds.len() && olds.key(at).0 < key {
                at += 1;
            }
            // During the index build, an old key may not have been inserted yet.
            if !index.ready || at == olds.len() || olds.key(at) != (key, bits) {
                self.put_key(collection, index, key, bits, id, PutBy::Writer)?;
            }
        }
        Ok(())
    }

    /// Fills the sink with the index keys of a document that is to be stored, and records new multikey paths.
    pub(crate) fn fill(
        &mut self,
        index: &Arc<Index>,
        doc: Doc<'_>,
        sink: &mut KeySink,
    ) -> Result<()> {
        fill_sink(index, doc, sink)?;
        if sink.is_multikey() && sink.len() > 0 {
            self.note_multikey(index, &sink.multikey)?;
        }
        Ok(())
    }

    pub(crate) fn note_multikey(&mut self, index: &Arc<Index>, bits: &[u64]) -> Result<()> {
        let multikey = &index.multikey;
        let known = |(durable, bits): (&AtomicU64, &u64)| durable.load(Acquire) & bits == *bits;
        if multikey.durable.iter().zip(bits).all(known) {
            return Ok(());
        }
        if let Some(of) =
            self.shared_collection(&|of| of.indexes.iter().any(|i| i.ident == index.ident))
        {
            return self.store.publish_arrays(of, index, bits);
        }
        multikey.see(bits);
        let key = index.ident.catalog_key(CatalogKey::Multikey);
        // Locked before the bits are read, so that newer bits are not overwritten.
        self.lock_key(Space::Catalog, &key)?;
        self.txn().put(Space::Catalog, &key, &multikey.to_bytes()).map_err(engine)?;
        self.multikey.push((Arc::clone(index), bits.to_vec()));
        Ok(())
    }

    /// Adds one key. A unique index refuses a key of another record (11000). During the build of a unique index, a
    /// writer's duplicate is accepted: its entry is stored under a quarantine key, and the key is
    /// checked at the end of the build (deferred uniqueness check).
    pub(crate) fn put_key(
        &mut self,
        collection: &Collection,
        index: &Index,
        key: &[u8],
        bits: &[u8],
        id: RecordKey<'_>,
        by: PutBy,
    ) -> Result<()> {
        self.keys.inserted += 1;
        if index.logs && by == PutBy::Writer {
            return self.log_change(index, key, id);
        }
        let mut full = std::mem::take(&mut self.scratch.key);
        full.clear();
        full.extend_from_slice(&index.ident.bytes());
        full.extend_from_slice(key);
        let done = if index.keyed_alone {
            self.put_unique(collection, index, &full, bits, id, by)
        } else {
            let checks = index.spec.unique || index.spec.prepare_unique;
            let free = match checks && by != PutBy::Drain {
                true => self.check_free(collection, index, &full, bits, id),
                false => Ok(()),
            };
            id.append_tail(&mut full);
            // The entry belongs to the record, which this transaction has written or locked.
            free.and_then(|()| self.txn().put_exclusive(Space::Index, &full, bits).map_err(engine))
        };
        self.scratch.key = full;
        done
    }

    /// Refuses a key of another record, in an index that was built non-unique but must be unique now
    /// (`prepareUnique`, or converted).
    fn check_free(
        &mut self,
        collection: &Collection,
        index: &Index,
        full: &[u8],
        bits: &[u8],
        id: RecordKey<'_>,
    ) -> Result<()> {
        // Each writer of this key locks it first, because entries of different records have different storage keys
        // and would not conflict.
        self.lock_key(Space::Index, full)?;
        let end = [full, &[keystring::AFTER]].concat();
        let mut cursor = self.txn().cursor(Space::Index, full, &end).map_err(engine)?;
        let mut found = cursor.seek(full).map_err(engine)?;
        while found {
            let found_id = index.layout.split_tail(cursor.key()).map(|(_, id)| id);
            if found_id != Some(id) {
                return Err(duplicate_key(collection, index, &full[4..], bits));
            }
            found = cursor.next().map_err(engine)?;
        }
        Ok(())
    }

    fn put_unique(
        &mut self,
        collection: &Collection,
        index: &Index,
        full: &[u8],
        bits: &[u8],
        id: RecordKey<'_>,
        by: PutBy,
    ) -> Result<()> {
        let mut value = std::mem::take(&mut self.scratch.value);
        // Locked first: another transaction that has put this key, and has ended, raised the ceiling before it
        // released the key.
        self.lock_key(Space::Index, full)?;
        let is_new = match self.ceiling(index) {
            Some(ceiling) => ceiling.rise(&full[4..], || self.store.latest().last_key(index))?,
            None => false,
        };
        let taken = !is_new
            && match self.txn().get_locked(Space::Index, full, &mut value) {
                Ok(Some(entry)) => index.layout.split_head(entry).is_none_or(|(own, _)| own != id),
                Ok(None) => false,
                Err(error) => return Err(engine(error)),
            };
        value.clear();
        id.append_head(&mut value);
        value.extend_from_slice(bits);
        let deferred = index.deferred.as_ref().filter(|_| by != PutBy::Build);
        let is_deferred = |deferred: &Arc<index::DeferredChecks>| match by {
            PutBy::Drain => {
                deferred.add_any(&full[4..]);
                true
            }
            // The node that builds the index has to find it.
            _ if index.doubts.is_some() => true,
            _ => deferred.add(&full[4..]),
        };
        let done = match taken {
            true if deferred.is_some_and(is_deferred) => {
                if let Some(doubts) = index.doubts.filter(|_| by == PutBy::Writer) {
                    let doubt = [&doubts.bytes(), &full[4..]].concat();
                    self.txn().put(Space::Index, &doubt, &[]).map_err(engine)?;
                }
                let quarantined = quarantine_key(full, id);
                self.txn().put(Space::Index, &quarantined, bits).map_err(engine)
            }
            true => Err(duplicate_key(collection, index, &full[4..], bits)),
            false => self.txn().put_exclusive(Space::Index, full, &value).map_err(engine),
        };
        self.scratch.value = value;
        done
    }

    /// Logs for the index build that the record gains or loses the key.
    fn log_change(&mut self, index: &Index, key: &[u8], id: RecordKey<'_>) -> Result<()> {
        let Some(bulk) = &index.bulk else { return Ok(()) };
        let mut full = std::mem::take(&mut self.scratch.key);
        full.clear();
        full.extend_from_slice(&bulk.side.bytes());
        id.append_head(&mut full);
        full.extend_from_slice(key);
        let done = self.txn().put_exclusive(Space::Index, &full, &[]).map_err(engine);
        self.scratch.key = full;
        done
    }

    pub(crate) fn delete_key(
        &mut self,
        index: &Index,
        key: &[u8],
        id: RecordKey<'_>,
    ) -> Result<()> {
        self.keys.deleted += 1;
        if index.logs {
            return self.log_change(index, key, id);
        }
        let mut full = std::mem::take(&mut self.scratch.key);
        full.clear();
        full.extend_from_slice(&index.ident.bytes());
        full.extend_from_slice(key);
        if !index.keyed_alone {
            id.append_tail(&mut full);
        }
        let done = match (index.keyed_alone, index.ready) {
            (true, false) => self.delete_own(index, &full, id),
            (true, true) => {
                let done = self.txn().delete(Space::Index, &full);
                self.had_key(done, Space::Index, &full)
            }
            // As in `put_key`.
            (false, _) => self.txn().delete_exclusive(Space::Index, &full).map_err(engine),
        };
        self.scratch.key = full;
        done
    }

    /// During the build of a unique index, the entry may belong to another record, and this record's own entry may
    /// be quarantined, or may just be written by the build. That has locked the record, but not every store compares
    /// a transaction with the locks of those that have ended meanwhile; with what they have written each does.
    fn delete_own(&mut self, index: &Index, full: &[u8], id: RecordKey<'_>) -> Result<()> {
        self.lock_key(Space::Index, full)?;
        let mut value = std::mem::take(&mut self.scratch.value);
        let found = self.txn().get(Space::Index, full, &mut value).map_err(engine)?;
        let owner = found.and_then(|entry| index.layout.split_head(entry)).map(|(owner, _)| owner);
        let own = owner == Some(id);
        let quarantined = quarantine_key(full, id);
        let is_quarantined =
            self.txn().get(Space::Index, &quarantined, &mut value).map_err(engine)?.is_some();
        self.scratch.value = value;
        if own {
            self.txn().delete(Space::Index, full).map_err(engine)?;
        }
        match is_quarantined {
            true => self.txn().delete(Space::Index, &quarantined).map_err(engine),
            false => Ok(()),
        }
    }
}

/// The quarantine key of a record's entry while another record has the key.
fn quarantine_key(full: &[u8], id: RecordKey<'_>) -> Vec<u8> {
    let mut quarantined = full.to_vec();
    id.append_tail(&mut quarantined);
    quarantined
}

/// The keys of a document in an index; none if a partial index excludes it. The `_id` index, which every write
/// updates, is as fast as any simple path.
pub(crate) fn fill_sink(index: &Index, doc: Doc<'_>, sink: &mut KeySink) -> Result<()> {
    if !index.covers(doc)? {
        sink.reset(0);
        return Ok(());
    }
    keygen::keys(&index.spec, doc, sink)
}

/// Code 11000 with the text, `keyPattern` and `keyValue` that clients read.
#[cold]
pub(crate) fn duplicate_key(
    collection: &Collection,
    index: &Index,
    key: &[u8],
    bits: &[u8],
) -> Error {
    let fields = index.spec.key_fields();
    let values = nagi_bson::DocBuf::build(|w| {
        // The key is well-formed: it was encoded just before.
        let _ = keystring::decode(key, bits, fields, w);
    });
    let values = nagi_bson::DocBuf::build(|w| {
        for part in &index.spec.key {
            match values.get(&part.path) {
                Value::Missing => w.put(&part.path, Value::Null),
                // The collation key of a string is not valid text.
                Value::String(key) if index.spec.collation.is_some() => {
                    let shown = format!("CollationKey(0x{})", collation::key_hex(key));
                    w.put(&part.path, shown.as_str());
                }
                value => w.put(&part.path, value),
            }
        }
    });
    let by = match index.spec.collation {
        Some(by) => format!(" collation: {}", nagi_bson::text::doc_text(by.as_doc())),
        None => String::new(),
    };
    let message = format!(
        "E11000 duplicate key error collection: {} index: {}{by} dup key: {}",
        collection.namespace,
        index.spec.name,
        nagi_bson::text::doc_text(values.as_doc())
    );
    let info = nagi_bson::doc! {
        "keyPattern": &index.spec.key_pattern,
        "keyValue": &values,
    };
    Error::new(Code::DUPLICATE_KEY, message).with_info(info)
}
