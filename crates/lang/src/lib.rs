//! The document language: expressions, filters, updates, projections, accumulators, window functions, sorts, dates.
//!
//! This crate defines the meaning of `{$add: ["$a", 1]}`, `{a: {$gt: 5}}` or `{$set: {"a.b": 1}}` for one document.
//! Stages and commands, which apply them to many documents, are in `nagi-query` and `nagi-server`.
//!
//! Invariants
//! - All functions are pure functions over BSON: no I/O, no clock, no threads. The caller passes the current time,
//!   random seeds, a JavaScript engine and interrupt checks (see [`expr::Vars`]).
//! - Parsing happens once per request, evaluation once per document. Parsed forms are immutable and `Send + Sync`.
//! - Memory is bounded on both sides: [`memory`] covers parsing, [`expr::memory`] covers evaluation.

pub mod accum;
pub mod apart;
pub mod collation;
mod compare_op;
pub mod encrypted;
pub mod expr;
pub mod filter;
pub mod geo;
pub mod hash;
pub mod memory;
pub mod ordered;
pub mod path;
pub mod project;
pub mod regex;
pub mod script;
pub mod sort;
pub mod text;
pub mod time;
pub mod update;
pub mod window;
