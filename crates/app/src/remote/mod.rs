//! The client that the commands of this program have for a server: the syntax of addresses, a connection with TLS and
//! login, and the sources of a password.
//!
//! `nagi backup`, `nagi advise`, `nagi ping` and `nagi copy` use it. It has one connection to one server, and blocks.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod password;
