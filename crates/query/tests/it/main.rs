//! Integration tests of the query crate, on the memory engine.

#![allow(clippy::unwrap_used, reason = "tests")]

mod ahead;
mod ahead_by_two;
mod any_plan;
mod any_plan_kinds;
mod any_plan_writes;
mod bounded;
mod clustered;
mod encrypted;
mod facets;
mod fills;
mod finds;
mod fixture;
mod geo;
mod golden;
mod groups;
mod interrupted;
mod intersect;
mod long;
mod lookup_tables;
mod lookups;
mod multikey;
mod parallel_batch;
mod parallel_index_scan;
mod parallel_scan;
mod plan_cache;
mod recorded;
mod rewrites;
mod spill;
mod text;
mod time_series;
mod windows;
mod writes;

/// The engine of most tests. `tests/minimal` has another one.
fn engine() -> std::sync::Arc<dyn nagi_kv::Engine> {
    std::sync::Arc::new(nagi_kv::Memory::new())
}

/// The options of the store of the tests.
fn options() -> nagi_store::StoreOptions {
    nagi_store::StoreOptions::default()
}
