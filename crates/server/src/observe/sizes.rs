//! The sizes of all collections, for the interfaces of this process that watch them.

use crate::core::server::Server;

/// The data of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionSize {
    /// Its namespace.
    pub namespace: String,
    /// The sum of its documents' sizes.
    pub bytes: u64,
}

impl Server {
    /// The sizes of the `most` largest collections. Reads counters in memory only.
    pub fn collection_sizes(&self, most: usize) -> Vec<CollectionSize> {
        let catalog = self.store.catalog();
        let collections = catalog.iter().filter(|collection| !collection.is_view());
        let sizes = collections.map(|collection| CollectionSize {
            namespace: collection.namespace.to_string(),
            bytes: u64::try_from(collection.data_bytes()).unwrap_or(0),
        });
        let mut sizes: Vec<CollectionSize> = sizes.collect();
        sizes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.namespace.cmp(&b.namespace)));
        sizes.truncate(most);
        sizes
    }
}
