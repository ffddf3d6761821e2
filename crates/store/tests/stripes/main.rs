//! The tests of the store over collections that are spread over a cluster: all new ones that are not capped have
//! stripes, of a node that shares the data; and those of spreading.
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
#[path = "../members/faults.rs"]
mod faults;
#[path = "../it/keys.rs"]
mod keys;
#[path = "../it/middle.rs"]
mod middle;
#[path = "../it/model.rs"]
mod model;
#[path = "../it/near.rs"]
mod near;
#[path = "../it/overlap.rs"]
mod overlap;
#[path = "../it/random.rs"]
mod random;
#[path = "../it/rename.rs"]
mod rename;
#[path = "../it/rising.rs"]
mod rising;
#[path = "../members/several.rs"]
mod several;
mod spread;
#[path = "../members/streams.rs"]
mod streams;
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

/// The options of a node that shares the data, and whose new collections have stripes.
fn options() -> nagi_store::StoreOptions {
    let mode = nagi_store::NodeMode::Member;
    let node =
        nagi_store::NodeOptions { mode, stripes_power: 3, ..nagi_store::NodeOptions::default() };
    nagi_store::StoreOptions { node, ..nagi_store::StoreOptions::default() }
}
