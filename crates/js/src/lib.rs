//! Functions in JavaScript: `$where`, `$function`, `$accumulator`, `mapReduce`.
//!
//! ```text
//!   request --call(function, documents)--> engine of this thread
//!                                            |  BSON -> objects      into_js
//!                                            |  QuickJS runs it      engine, prelude.js, natives
//!                                            |  objects -> BSON      from_js
//!   result, or 139 with what was thrown  <---+                       failure
//! ```
//! An engine is made for one request, at its first call, and dropped with it: scripts of different
//! requests share nothing. Its memory is counted as it is allocated, bounded by a limit and charged to
//! the process's budget; its time is bounded by the request's interrupt, which the engine asks at
//! every 10,000th step, and sooner when these take long (`pace`). Functions of the language that would not
//! ask are made to (`bounds.js`). A script sees documents and nothing else: no files, no network, no modules.
//!
//! Does not know about: commands, stages, users.

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
pub use session::Session;
pub use stored::{Stored, nothing_stored};

/// Says whether a request shall continue; an error ends the script that is running.
pub type Interrupt = Arc<dyn Fn() -> nagi_error::Result<()> + Send + Sync>;
