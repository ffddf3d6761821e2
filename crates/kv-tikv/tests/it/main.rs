//! The contract over TiKV, and what only a cluster has: several processes, regions, round trips, failures.
//!
//! All tests but those of the crate itself need a cluster, which `make tikv` starts (tests/tikv/run.py). They run one
//! after the other, because they count the requests that arrive at the store.

mod cluster;
mod contract;
mod crash;
mod failures;
mod limits;
mod nodes;
mod opening;
mod regions;
mod trips;
