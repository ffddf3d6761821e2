//! Tests of the store on the memory engine.

mod keys;
mod random;
