//! Per-core state: every core has its own copy, so that requests on different cores write no common cache line.
//!
//! ```text
//!   request on core 0: counter.add(1)   ->  block of core 0   (its own cache lines)
//!   request on core 1: counter.add(1)   ->  block of core 1
//!   serverStatus:      counter.get()    ->  the sum of all blocks
//! ```
//!
//! When several cores write to one cache line, the line moves between them, which costs some hundred nanoseconds
//! and does not scale with cores. A thread that moves to another core between reading its core's number and writing
//! only writes another core's copy: all operations are atomic, so nothing is lost.
//!
//! Used by the server's counters, tickets and statistics, and by the store's gate. Reading sums all copies, so it
//! is meant for listings, not for requests.

mod counter;
mod ffi;
mod per_core;
mod shared;

pub use counter::Counter;
pub use ffi::{core, core_count};
pub use per_core::{Padded, PerCore};
pub use shared::{SharedWrites, note_shared, shared_writes};
