//! The server: from a frame to its reply.
//!
//!   net -- frame --> handle -- command --> dispatch -- row's function --> commands/*
//!                      |                     |                               |
//!                    wire, legacy       session, concern, op            query, store
//!
//! One call a frame ([`Server::handle`]); no sockets, no threads of connections, no async. Everything
//! a request needs is borrowed from its frame; replies are written straight into net's buffer.
//!
//! Invariants
//! - Commands are rows of one table; nothing else in the crate compares a command's name.
//! - Only this crate knows sessions, cursors' owners, parameters and the log's format.
//!
//! Does not know about: sockets, TLS, engines, configuration files.

mod access;
mod args;
mod auth;
mod backup;
mod batch;
mod clock;
mod cluster_params;
mod command;
mod commands;
mod compaction;
mod concern;
mod connection;
mod cursors;
mod dispatch;
mod ending;
mod fail_points;
mod filtering;
mod fsync;
mod handle;
mod helpers;
mod jobs;
mod legacy;
mod legacy_names;
mod limits;
mod locks;
mod logging;
mod metrics;
mod numbered;
mod op;
mod pace;
mod params;
mod persisted;
mod producer;
mod profile;
mod profile_entries;
mod query_settings;
mod replica;
mod request;
mod room;
mod rw_defaults;
mod scripting;
mod server;
mod session;
mod slow;
mod snapshots;
mod startup_log;
mod tickets;
mod timeslice;
mod top;
mod views_collection;
mod write_block;

pub use auth::LoginClient;
pub use clock::wall_ms;
pub use commands::COMPATIBLE_VERSION;
pub use connection::{Connection, Peer};
pub use handle::Outcome;
pub use limits::MESSAGE_BYTES_MAX;
pub use logging::{
    Log, LogDestination, LogRotate, SYSLOG_FACILITIES, Severity, Stamp, check_log_path,
    set_log_context,
};
pub use nagi_lang::time::Zone;
pub use room::{FREE_BYTES, message_cost, room_for_message};
pub use server::{Server, ServerConfig};
