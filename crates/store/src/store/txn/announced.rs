//! Unique keys that a statement will look up, read at once.
//!
//! Each document of an insert looks up one key in each unique index. Where each look-up is a round trip, a statement
//! announces its documents first, and their keys are fetched in a batch.
//!
//! The keys are locked when they are used, not when they are fetched. That is as safe where conflicts are found by the
//! commit: it tests that no locked key has changed since the transaction's snapshot, from which they were fetched.

use std::{collections::BTreeMap, sync::Arc};

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_kv::Space;

use super::{WriteTxn, keys::fill_sink};
use crate::{Collection, Index, engine_error::engine, index::keygen::KeySink};

/// Bytes of keys that are fetched: those of later documents are looked up one by one.
const BYTES_MAX: usize = 1 << 20;
/// A key has about so many beside its own.
const ENTRY_BYTES: usize = 64;

impl WriteTxn<'_> {
    /// Announces documents that the caller is about to insert: their unique keys are fetched in one batch. Does nothing
    /// where a look-up is no round trip.
    ///
    /// # Errors
    /// Those of the engine, and those of [`WriteTxn::insert`] that do not depend on the document. What is wrong with a
    /// document is found by its insert.
    pub fn announce_inserts<'d>(
        &mut self,
        collection: &Collection,
        docs: impl Iterator<Item = Doc<'d>>,
    ) -> Result<()> {
        if self.store.promises.conflicts_at_once {
            return Ok(());
        }
        let at = self.touch(collection)?;
        let collection = Arc::clone(&self.touched[at].collection);
        let looked_up: Vec<_> = collection.indexes.iter().filter(|i| is_looked_up(i)).collect();
        let (mut keys, mut bytes) = (BTreeMap::<Space, Vec<Vec<u8>>>::new(), 0);
        let mut sink = KeySink::default();
        for doc in docs {
            for index in &looked_up {
                // A document without an `_id` gets a new one.
                let has_key = !index.spec.is_id() || doc.element("_id").is_some();
                if !has_key || fill_sink(index, doc, &mut sink).is_err() {
                    continue;
                }
                let (space, ident) = index.place();
                for (key, _) in sink.iter() {
                    bytes += key.len() + ENTRY_BYTES;
                    keys.entry(space).or_default().push([&ident.bytes(), key].concat());
                }
            }
            if bytes > BYTES_MAX {
                break;
            }
        }
        for (space, keys) in keys {
            // A single one is looked up as fast by its insert.
            if keys.len() > 1 {
                let lent: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                self.txn().fetch(space, &lent).map_err(engine)?;
            }
        }
        Ok(())
    }
}

/// True if an insert looks its keys up in this index.
fn is_looked_up(index: &Index) -> bool {
    index.is_of_records() || (index.keyed_alone && !index.logs)
}
