//! Shared state of the server and of a request: the server and its parts, connections, command-table types, access
//! checks, cursors.

pub(crate) mod access;
pub(crate) mod audited;
pub(crate) mod batch;
pub(crate) mod command;
pub(crate) mod config_views;
pub(crate) mod connection;
pub(crate) mod cursors;
pub(crate) mod login;
pub(crate) mod login_by_certificate;
pub(crate) mod needs;
pub(crate) mod nodes;
pub(crate) mod parameters;
pub(crate) mod peers;
pub(crate) mod producer;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod server_state;
pub(crate) mod snapshots;
pub(crate) mod txn_number;
