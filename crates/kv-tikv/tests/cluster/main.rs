//! The contract over TiKV, and what only a cluster has: several processes, regions, round trips, failures.
//!
//! `make tikv` starts a cluster for them (tests/tikv/run.py); `cargo test` alone leaves them out. They run one after
//! the other, because they count the requests that arrive at the store.

mod cluster;
mod contract;
mod costs;
mod crash;
mod failures;
mod garbage;
mod killed;
mod limits;
mod long_keys;
mod members;
mod nodes;
mod opening;
mod regions;
mod requests;
mod spread;
mod store_trips;
mod streams;
mod trips;
mod unanswered;
