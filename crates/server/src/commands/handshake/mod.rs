//! How clients and the server get to know each other.

mod client;
mod hello;

pub(super) use hello::{HELLO, IS_MASTER};
