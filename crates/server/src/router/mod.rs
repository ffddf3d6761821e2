//! A node over a store that other nodes share: to its clients it is a router of a sharded cluster (mongos).
//!
//! ```text
//!   drivers: a list of nodes --> hello: msg "isdbgrid" --> any node is as good as another
//!        sessions, retryable writes, transactions, cluster times: as of a member of a replica set
//!        no set, no roles, no oplog: what needs them is refused as a mongos refuses it
//!        shards, chunks, the balancer: of one shard, which stands for the store
//! ```
//!
//! The store places, splits and replicates the data. A transaction is open at one node; its commit stores a record of
//! the session, so any node can tell what became of it ([`crate::core::txn_number`]).
//!
//! Stored are the id of the cluster (`config.version`), the keys with which collections were sharded ([`sharded`]) and
//! the mode of the balancer (`config.settings`). What else tools read in `config` is made when it is read
//! ([`crate::core::config_views`]).

pub(crate) mod sharded;

use std::sync::Arc;

use nagi_bson::{Value, doc};
use nagi_error::{Code, Result, bail};
use nagi_store::{Durability, Namespace, Store, WriteOptions};
use parking_lot::Mutex;

use crate::replica::ClusterClock;

/// The name of the only shard, which stands for the store.
pub(crate) const SHARD: &str = "store";

/// What a server has that is a router.
pub(crate) struct Router {
    pub(crate) clock: ClusterClock,
    /// The id of the cluster, an ObjectId.
    pub(crate) cluster_id: [u8; 12],
    /// A store in memory, where the collections of `config` that no store has are shown.
    pub(crate) views: Arc<Store>,
    /// Held while one of them is replaced.
    pub(crate) refreshing: Mutex<()>,
}

impl Router {
    /// Reads the id of the cluster. The first router stores one.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn open(store: &Arc<Store>, views: Arc<Store>) -> Result<Router> {
        Ok(Router {
            clock: ClusterClock::of_oracle(store.clone()),
            cluster_id: cluster_id(store)?,
            views,
            refreshing: Mutex::new(()),
        })
    }

    /// When the cluster was made, as a cluster time.
    pub(crate) fn since(&self) -> u64 {
        let seconds: [u8; 4] = [0, 1, 2, 3].map(|at| self.cluster_id[at]);
        u64::from(u32::from_be_bytes(seconds)) << 32 | 1
    }
}

/// The id in `config.version`, where MongoDB has it.
fn cluster_id(store: &Store) -> Result<[u8; 12]> {
    let version = Namespace::new("config", "version")?;
    let collection = store.collection_or_create(&version)?;
    let id = doc! { "_id": 1 };
    let options = WriteOptions { durability: Durability::Synced, ..WriteOptions::default() };
    store.write(options, &mut |txn| match txn.reader().find_id(&collection, id.get("_id"))? {
        Some(_) => Ok(()),
        None => {
            let new = store.new_object_id();
            let version = doc! { "_id": 1, "clusterId": (Value::ObjectId(&new)) };
            txn.insert(&collection, version.as_doc()).map(drop)
        }
    })?;
    let mut buffer = Vec::new();
    let found = store.find_by_id(&collection, id.get("_id"), &mut buffer)?;
    match found.map(|version| version.get("clusterId")) {
        Some(Value::ObjectId(id)) => Ok(*id),
        _ => bail!(Code::OPERATION_FAILED, "config.version has no id of the cluster (clusterId)"),
    }
}
