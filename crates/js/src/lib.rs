//! JavaScript functions: `$where`, `$function`, `$accumulator`, `mapReduce`.
//!
//! ```text
//!   request --call(function, documents)--> engine of this thread
//!                                            |  BSON -> objects      into_js
//!                                            |  QuickJS runs it      engine, prelude.js, natives
//!                                            |  objects -> BSON      from_js
//!   result, or 139 with the exception    <---+                       failure
//! ```
//!
//! An engine is created for one request, at its first call, and dropped with the request: scripts of different requests
//! share no state.
//!
//! - Memory is counted at every allocation, limited, and charged to the process's budget (`heap`, `raw`).
//! - Time is limited by the interrupt check of the request. The engine runs it at every 10,000th step, and sooner if
//!   steps take long (`pace`). Built-in functions without an interrupt check of their own are wrapped (`bounds.js`).
//! - A script sees only its documents: no files, no network, no modules.
//!
//! This crate knows neither commands nor stages nor users.

mod engine;
mod engines;
mod failure;
mod from_js;
mod heap;
mod host;
mod into_js;
mod kinds;
mod natives;
mod pace;
mod raw;
mod session;
mod source;
mod stored;
mod text;

use std::sync::Arc;

pub use engines::{Engines, release};
pub use natives::slept;
pub use session::Session;
pub use stored::{Stored, nothing_stored};

/// The interrupt check of a request; an error stops the running script.
pub type Interrupt = Arc<dyn Fn() -> nagi_error::Result<()> + Send + Sync>;
