//! Tests of the store on the memory engine.
#![allow(clippy::unwrap_used)] // helpers of tests may

mod build;
mod bulk;
mod capped;
mod clustered;
mod compressor;
mod cost;
mod ddl;
mod golden;
mod history;
mod keys;
mod middle;
mod model;
mod near;
mod oplog;
mod overlap;
mod random;
mod rename;
mod rising;
mod stamps;
mod support;
mod threads;
mod time_series;
mod transactions;

/// The engine of most tests. `tests/minimal` has another one.
fn engine() -> std::sync::Arc<dyn nagi_kv::Engine> {
    std::sync::Arc::new(nagi_kv::Memory::new())
}

/// The options of most tests. `tests/members` has others.
fn options() -> nagi_store::StoreOptions {
    nagi_store::StoreOptions::default()
}
