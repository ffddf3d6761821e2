//! The contract of all engines.

use std::sync::Arc;

use nagi_kv::{Engine, conformance};

use crate::cluster::{engine, new_prefix};

#[test]
fn tikv_keeps_the_contract() {
    conformance::run(&|| -> Arc<dyn Engine> { engine(&new_prefix()) });
}
