//! Change streams: the events of `$changeStream`, made from the log of changes.
//!
//! ```text
//!   log --> Operation --> event --> conditions --> lookups --> stages of the client --> TokenKept --> Split
//!           operation.rs  event.rs  filter.rs      lookup.rs                            split.rs
//! ```
//!
//! Operations are classified and their events are made once for all streams (`nagi_store::LogDocument`); a stream adds
//! only what it looks up itself. Each event has a resume token (`token.rs`), whose order is the order of events.
//!
//! Invariants
//! - A stream delivers each event in its scope once, in the order of cluster times; those of a transaction together.
//! - The token of a batch stands for a place up to which all events were delivered or not wanted.

mod event;
mod filter;
mod lookup;
mod operation;
mod options;
mod split;
mod stream;
mod token;
mod update;

pub(crate) use filter::wanted_id;
pub(crate) use options::{Scope, StreamOptions};
pub(crate) use split::{Split, TokenKept};
pub(crate) use stream::{Stream, StreamState};
pub(crate) use token::Token;
