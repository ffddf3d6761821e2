//! Sockets: listeners, and one blocking thread for each connection.
//!
//! ```text
//!   accept thread per address --> Server::connect --> thread "connN": read frame, handle, write
//! ```
//! A request costs one read and one write of the socket; buffers are reused and given back when the
//! connection idles. Async machinery costs more than the request itself here, and a thread that
//! sleeps costs a few kilobytes.
//!
//! Invariants
//! - A frame takes memory as its bytes arrive, never as its header promises.
//! - A peer that stops in the middle of a frame, or does not take its reply, is dropped in bounded
//!   time; one that is silent between frames may stay (TCP keep-alive finds the dead ones).
//!
//! Does not know about: commands, documents, what a frame says beyond its length.

mod buffer;
mod config;
mod connection;
mod listen;
mod registry;
mod serve;
mod stranger;
mod stream;

pub use config::NetConfig;
pub use serve::{Listeners, serve};
