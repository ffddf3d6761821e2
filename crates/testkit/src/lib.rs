//! What tests share: golden text cases, a counting allocator, and tidy rules over the repository.
//!
//! A dev-dependency only. It uses no other crate of the workspace, so every crate can use it, even
//! the lowest, without a cycle and without a second copy of that crate's types.
//!
//!   golden     `tests/golden/<catalogue>/<name>.txt`: verb and input, `---`, output
//!   alloc      counts allocations of the current thread; pins "0 per point read"
//!   rows       every row of a catalogue has golden cases
//!   scratch    folders that are removed afterwards; flipped and torn files
//!   tidy       rules of the house that neither rustc nor clippy knows, run by this crate's tests
//!
//! Does not know about: BSON, servers, engines. Callers turn text into what they test and back.
pub mod golden;
mod raw;
pub mod rows;
mod scratch;
pub mod tidy;

pub use raw::{Allocations, CountingAllocator, count_allocations, held_bytes, peak_bytes};
pub use scratch::{Scratch, copy_folder, flip, torn_at};
