//! The tests of the store on an engine that promises only the contract, as a distributed one does; and those of what
//! the store does only there.
#![allow(clippy::unwrap_used)] // helpers of tests may
#![allow(dead_code)] // of helpers of tests that are not here

#[path = "../it/build.rs"]
mod build;
#[path = "../it/bulk.rs"]
mod bulk;
#[path = "../it/capped.rs"]
mod capped;
#[path = "../it/clustered.rs"]
mod clustered;
#[path = "../it/ddl.rs"]
mod ddl;
mod faults;
#[path = "../it/keys.rs"]
mod keys;
#[path = "../it/middle.rs"]
mod middle;
#[path = "../it/model.rs"]
mod model;
#[path = "../it/near.rs"]
mod near;
mod node;
#[path = "../it/overlap.rs"]
mod overlap;
mod queue;
#[path = "../it/random.rs"]
mod random;
#[path = "../it/rename.rs"]
mod rename;
#[path = "../it/rising.rs"]
mod rising;
#[path = "../it/support.rs"]
mod support;
#[path = "../it/threads.rs"]
mod threads;
#[path = "../it/time_series.rs"]
mod time_series;
#[path = "../it/transactions.rs"]
mod transactions;

/// The engine of the tests that are those of `tests/it`.
fn engine() -> std::sync::Arc<dyn nagi_kv::Engine> {
    std::sync::Arc::new(nagi_kv::Minimal::new())
}

/// The options of most tests. `tests/members` has others.
fn options() -> nagi_store::StoreOptions {
    nagi_store::StoreOptions::default()
}
