//! Tests of the store on the memory engine.

mod build;
mod ddl;
mod keys;
mod model;
mod random;
mod support;
