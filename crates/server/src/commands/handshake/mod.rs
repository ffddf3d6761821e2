//! The handshake: client and server describe themselves to each other.

mod client;
mod hello;

pub(super) use hello::{HELLO, IS_MASTER};
