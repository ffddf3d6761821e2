//! Tests of the server in process, on the memory engine: wire messages in, replies out.

#![allow(clippy::unwrap_used, reason = "a test fails when something is not as it must be")]

mod advise;
mod advise_ways;
mod allocations;
mod audit;
mod auth;
mod booleans;
mod change_streams;
mod client;
mod diagnostics;
mod directory;
mod encrypted;
mod fsync;
mod golden_access;
mod golden_commands;
mod golden_numbers;
mod help;
mod hypothetical;
mod idle_cursors;
mod interrupted;
mod legacy;
mod limits;
mod login;
mod node_operations;
mod nodes;
mod oplog;
mod persisted;
mod pre_images;
mod protocol;
mod query_settings;
mod query_stats;
mod quiesce;
mod router;
mod router_streams;
mod secrets;
mod sessions;
mod slow_rows;
mod startup_log;
mod stream_filters;
mod tailable;
mod tickets;
mod times;
mod tokens;
mod txn_fields;
mod txn_number;
mod views_collection;
mod visible;
mod waiting;

#[global_allocator]
static ALLOCATOR: nagi_testkit::CountingAllocator = nagi_testkit::CountingAllocator;
