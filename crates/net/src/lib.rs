//! Sockets: listeners, and one blocking thread for each connection that is not idle.
//!
//! ```text
//!   accept thread per address --> Server::connect --> thread "connN": read frame, handle, write
//!                                                         |  ^
//!                                          idle: parking -+  +- readable: a new thread
//! ```
//!
//! A request costs one read and one write of the socket. Buffers are reused, and freed when the connection is idle,
//! together with its thread. There is no async runtime: it would cost more than a request itself.
//!
//! Invariants
//! - Memory for a frame is allocated as its bytes arrive, never by the length that its header announces.
//! - A peer that stops in the middle of a frame, or does not accept its reply, is disconnected within a bounded time. A
//!   peer that is idle between frames may stay; TCP keep-alive detects dead ones.
//! - A peer whose large message or reply holds memory that other requests wait for transfers it at a least rate.
//! - TLS handshakes are bounded in time and count, and run on the thread of their connection.
//!
//! This crate knows neither commands nor documents, and of a frame only its length.

mod buffer;
mod config;
mod connection;
mod crowded;
mod demand;
mod end;
mod handshake;
mod listen;
mod parking;
mod raw;
mod registry;
mod serve;
mod stranger;
mod stream;

pub use config::NetConfig;
pub use serve::{Addresses, Listeners, bind, serve};
