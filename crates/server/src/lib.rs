//! The server: turns a frame into its reply.
//!
//! ```text
//!   net -- frame --> transport::handle -- command --> transport::dispatch -- row's function --> commands/*
//!                      |                                |                                        |
//!                    wire, legacy opcodes             session, concerns, op                   query, store
//! ```
//!
//! `net` calls [`Server::handle`] once per frame, on the thread of the connection; there is no async. A request borrows
//! everything from its frame, and replies are written directly into net's buffer.
//!
//! Invariants
//! - Commands are rows of one table; no other code of the crate compares a command's name.
//! - Only this crate knows sessions, owners of cursors, parameters and the format of the log.
//! - It knows neither sockets nor TLS, engines or configuration files.

mod advice;
mod alert_silences;
mod args;
mod audit;
mod auth;
mod backup;
mod beginning;
mod builder;
mod cache_size;
mod clock;
mod commands;
mod compactions;
mod core;
mod diagnostic_data;
mod directory;
mod fail_points;
mod fsync;
mod interruption;
mod limits;
mod logging;
mod memory_line;
mod message_memory;
mod metrics;
mod names;
mod networks;
mod number;
mod observe;
mod op;
mod parallel_workers;
mod printable;
pub(crate) mod profile;
mod query_stats;
mod random;
mod replica;
mod request;
mod router;
mod session;
mod settings;
mod signal;
mod spans;
mod startup_log;
mod statement_text;
mod tickets;
mod timeslice;
mod token_trust;
mod top;
mod transport;
mod transport_security;
mod upkeep;

pub use audit::{AuditDestination, AuditFormat, AuditOptions, check_audit_filter};
pub use auth::LoginClient;
pub use builder::{ServerBuilder, ServerConfig};
pub use clock::wall_ms;
pub use core::connection::{Connection, Peer};
pub use core::server::Server;
pub use directory::{
    Directory, DirectoryError, DirectoryServer, DirectorySetting, DirectoryStatus,
};
pub use limits::{COMPATIBLE_VERSION, MESSAGE_BYTES_MAX};
pub use logging::{
    Log, LogDestination, LogRotate, SYSLOG_FACILITIES, Severity, Stamp, check_log_path,
    set_log_context,
};
pub use message_memory::{FREE_BYTES, MessageCost, message_cost};
pub use metrics::latency::BOUNDS as LATENCY_BOUNDS_US;
pub use metrics::long_operations::{Blocked, BlockedNow, LongOperation};
pub use nagi_lang::time::Zone;
pub use nagi_store::{DiskActivity, DiskSegment, EngineEvent};
pub use networks::Networks;
pub use observe::sizes::CollectionSize;
pub use replica::OplogLimits;
pub use settings::about::{ParameterAbout, about_parameters};
pub use settings::params::{
    check_parameters, other_parameter_name, parameter_names, parameter_values, similar_parameter,
};
pub use spans::{Span, SpanCounts};
pub use token_trust::{
    IdentityProvider, TokenCounts, TokenIdentity, TokenOrigin, TokenTrust, check_key_address,
};
pub use transport::handle::Outcome;
pub use transport_security::{
    ClientCertificate, OwnCertificate, TlsMode, TlsPeer, TransportSecurity,
};
