//! The console over HTTP: who is answered, and what.
#![allow(clippy::unwrap_used)] // test helpers may unwrap

mod harness;
mod hostile;
mod logins;
mod requests;
mod slow;
mod stalls;
mod watched;
