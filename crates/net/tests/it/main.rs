//! Sockets of friends and of strangers against a server on the memory engine.

mod harness;
mod life;
mod strangers;
