//! Errors as clients see them: code, name, message, extra fields, labels.
//!
//! The error side of `Result<T>` is one pointer, which keeps results small on hot paths. [`bail!`] and [`err!`] create
//! errors; the dispatcher turns an `Error` into a reply. [`nearest`] finds the name that an unknown one may stand for.

mod codes;
mod error;
mod nearest;

pub use codes::{Code, TABLE};
pub use error::{Error, Result};
pub use nearest::nearest;
