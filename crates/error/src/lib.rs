//! Errors as clients see them: code, name, message, extra fields, labels.
//!
//! `Result<T>` is one pointer wide on the error side, so that hot paths do not carry it about.
//! Raise with [`bail!`] or [`err!`]; the dispatcher turns an `Error` into a reply.

mod codes;
mod error;

pub use codes::{Code, TABLE};
pub use error::{Error, Result};
