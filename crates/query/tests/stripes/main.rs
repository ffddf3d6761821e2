//! The tests of reads and writes over collections that are spread over a cluster: all new ones have stripes.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "helpers of tests that are not here")]

#[path = "../it/any_plan.rs"]
mod any_plan;
#[path = "../it/any_plan_writes.rs"]
mod any_plan_writes;
#[path = "../it/finds.rs"]
mod finds;
#[path = "../it/fixture.rs"]
mod fixture;
#[path = "../it/groups.rs"]
mod groups;
#[path = "../it/interrupted.rs"]
mod interrupted;
#[path = "../it/lookups.rs"]
mod lookups;
#[path = "../it/multikey.rs"]
mod multikey;
#[path = "../it/writes.rs"]
mod writes;

/// The engine of the tests.
fn engine() -> std::sync::Arc<dyn nagi_kv::Engine> {
    std::sync::Arc::new(nagi_kv::Minimal::new())
}

/// The options of a store whose new collections have stripes.
fn options() -> nagi_store::StoreOptions {
    let node = nagi_store::NodeOptions { stripes_power: 2, ..nagi_store::NodeOptions::default() };
    nagi_store::StoreOptions { node, ..nagi_store::StoreOptions::default() }
}
