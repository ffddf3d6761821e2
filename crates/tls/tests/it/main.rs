//! Handshakes between the server's side and a client of rustls, in memory, with certificates made by the tests.

mod handshakes;
mod hostile;
mod pki;
