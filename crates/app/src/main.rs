//! The binary `nagi`.
fn main() {}
