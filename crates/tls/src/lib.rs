//! TLS of the server's connections, by rustls: certificates and keys from files, handshakes, sessions.
//!
//! ```text
//!   options -- files --> Material: certificate chain, key, trusted authorities, revocation lists
//!                           |  checked as a whole; a broken file changes nothing
//!                           v
//!   Tls: the mode, and the current configuration --- rotate: the files are read again
//!                           |
//!   a connection --> Session: handshake, then reads and writes; keeps its configuration to its end
//!                           |
//!                        TlsPeer: protocol version, the client's certificate --> `nagi_server`, MONGODB-X509
//!
//!   Connector: the other side, for the connections that this program opens itself
//! ```
//!
//! Invariants
//! - Bytes of a peer are parsed by rustls and webpki alone, until the peer's certificate is verified; then its subject
//!   and roles are read from it, within bounds.
//! - Passwords and decrypted keys are zeroed when they are no longer needed.
//! - Connections to others are verified by name and authority, unless an option of their own says otherwise.
//! - This crate knows neither sockets nor commands.

mod authorities;
mod certificate;
mod ciphers;
mod client;
mod key;
mod material;
mod members;
mod name;
mod options;
mod pem;
mod reason;
mod session;
mod tls;
mod traditional;
mod verify;

pub use client::{ClientFiles, Connector, Secured};
pub use options::{LoggedVersions, TlsOptions};
pub use session::{Handshake, Session};
pub use tls::Tls;
