//! The document language: expressions, filters, updates, projections, accumulators, dates.
//!
//! Pure functions over BSON: no I/O, no clock, no threads. What a stage or a command means lives in
//! `nagi-query` and `nagi-server`; here is what `{$add: ["$a", 1]}` or `{a: {$gt: 5}}` mean.

pub mod accum;
pub mod apart;
pub mod collation;
mod compare_op;
pub mod encrypted;
pub mod expr;
pub mod filter;
pub mod geo;
pub mod hash;
pub mod ordered;
pub mod path;
pub mod project;
pub mod regex;
pub mod room;
pub mod script;
pub mod sort;
pub mod text;
pub mod time;
pub mod update;
pub mod window;
