//! Stores what a bucket that is written says about its collection: see `catalog/bucket_facts.rs`.

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_kv::Space;

use super::WriteTxn;
use crate::{catalog::Collection, engine_error::engine, ident::CatalogKey};

impl WriteTxn<'_> {
    pub(super) fn note_facts(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<()> {
        let key = collection.ident.catalog_key(CatalogKey::BucketFacts);
        let txn = self.txn();
        let stored = || {
            let mut buf = Vec::new();
            let stored = txn.get(Space::Catalog, &key, &mut buf).map_err(engine)?;
            Ok(stored.and_then(|stored| stored.first()).copied())
        };
        if collection.note_bucket(doc, &stored)?.is_none() {
            return Ok(());
        }
        if let Some(of) = self.shared_collection(&|of| of.ident == collection.ident) {
            return self.store.publish_facts(of, collection.bucket_bits());
        }
        // Locked before the bits are read, so that newer bits are not overwritten.
        self.lock_key(Space::Catalog, &key)?;
        self.txn().put(Space::Catalog, &key, &[collection.bucket_bits()]).map_err(engine)
    }
}
