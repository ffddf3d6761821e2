//! Shared test code: golden text cases, a counting allocator, and tidy rules over the repository.
//!
//! This crate is a dev-dependency only. It uses no other crate of the workspace, so every crate can use it,
//! even the lowest, without a cycle and without a second copy of that crate's types.
//!
//!   golden     `tests/golden/<registry>/<name>.txt`: verb and input, `---`, output
//!   alloc      counts allocations of the current thread; pins "0 per point read"
//!   rows       checks that every row of a registry has golden cases
//!   scratch    folders that are removed afterwards; flipped and torn files
//!   tidy       project rules that rustc and clippy cannot check, run by this crate's tests
//!
//! It does not know BSON, servers or engines. Callers convert text to the values they test, and back.
pub mod golden;
mod raw;
pub mod rows;
mod scratch;
pub mod tidy;

pub use raw::{Allocations, CountingAllocator, count_allocations, held_bytes, peak_bytes};
pub use scratch::{Scratch, copy_folder, flip, torn_at};
