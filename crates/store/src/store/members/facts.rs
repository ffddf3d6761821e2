//! What plans of all nodes rely on: it is stored, and every node knows it, before the write that makes it true.

use nagi_error::Result;
use nagi_kv::Durability;

use crate::{
    Index, Store,
    ident::{CatalogKey, Ident},
    store::ddl::Ddl,
};

impl Store {
    /// Publishes that documents of an index of the collection `of` have arrays on these paths. Waits for the other
    /// nodes; happens once for each path.
    pub(crate) fn publish_arrays(&self, of: Ident, index: &Index, bits: &[u64]) -> Result<()> {
        // Under its lock, all bits of other nodes are known.
        let mut ddl = Ddl::begin(self)?;
        index.multikey.see(bits);
        let key = index.ident.catalog_key(CatalogKey::Multikey);
        ddl.put_beside(of, &key, &index.multikey.to_bytes())?;
        ddl.finish_with(Durability::Synced)?;
        index.multikey.learn(bits);
        Ok(())
    }

    /// The same for what is known of the buckets of a time series.
    pub(crate) fn publish_facts(&self, of: Ident, bits: u8) -> Result<()> {
        let mut ddl = Ddl::begin(self)?;
        let known = ddl.catalog.names.by_ident(of).map_or(0, |buckets| buckets.bucket_bits());
        ddl.put_beside(of, &of.catalog_key(CatalogKey::BucketFacts), &[bits | known])?;
        ddl.finish_with(Durability::Synced)
    }
}
