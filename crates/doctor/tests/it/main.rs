//! Tests of the doctor on recorded machines, and once on the current machine.
#![allow(clippy::unwrap_used)] // helper functions of tests may unwrap

mod golden;
mod machine;
