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

use std::sync::Arc;

use nagi_store::Store;

use crate::replica::ClusterClock;

/// The name of the only shard, which stands for the store.
pub(crate) const SHARD: &str = "store";

/// What a server has that is a router.
pub(crate) struct Router {
    pub(crate) clock: ClusterClock,
}

impl Router {
    pub(crate) fn new(store: Arc<Store>) -> Router {
        Router { clock: ClusterClock::of_oracle(store) }
    }
}
