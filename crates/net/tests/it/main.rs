//! Sockets of correct and of hostile clients against a server on the memory engine.
#![allow(clippy::unwrap_used)] // test helpers may unwrap

mod crowded;
mod encrypted;
mod gone;
mod harness;
mod life;
mod strangers;
