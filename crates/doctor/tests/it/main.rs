//! Tests of the doctor on recorded machines, and once on this one.
#![allow(clippy::unwrap_used)] // helpers of tests may

mod golden;
mod machine;
