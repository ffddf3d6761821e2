//! Handshakes between the server's side and a client of rustls, in memory, with certificates made by the tests.
#![allow(clippy::unwrap_used)] // test helpers may unwrap

mod authorities;
mod connector;
mod handshakes;
mod hostile;
mod pki;
