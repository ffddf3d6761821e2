//! BSON as the server uses it: bytes that are borrowed, never trees that are owned.
//!
//! A document is validated once ([`Doc::parse`]), where it enters: at the wire or at an insert. From
//! there on it travels as [`Doc`], a slice, from the engine to the socket. [`Value`] is one element's
//! value: `Copy`, 24 bytes, pointing into those bytes. New documents are written by [`DocWriter`] into
//! a buffer that the caller owns and reuses.
//!
//! Invariants
//! - The bytes behind a `Doc` or an `Array` have passed validation or were written by `DocWriter`.
//! - Order of values ([`compare`]) is MongoDB's, across types, without loss between numbers.
//!
//! ```
//! use nagi_bson::{Value, doc};
//! let d = doc! { "a": 1, "b": { "c": [1, "x"] } };
//! assert_eq!(d.get("a"), Value::Int32(1));
//! ```
//!
//! Does not know about: commands, error codes of MongoDB (see `nagi-error`), files, sockets.

mod buf;
pub mod calendar;
pub mod compare;
mod depth;
mod hex;
pub mod json;
mod kept;
mod macros;
pub mod number;
pub mod oid;
pub mod text;
mod view;
mod writer;

pub use buf::{ArrayBuf, DocBuf, ValueBuf};
pub use kept::{KeptValue, append_payload, payload_value};
pub use view::array::Array;
pub use view::decimal::Decimal128;
pub use view::doc::{Doc, Element, Elements};
pub use view::error::{ParseError, Result};
pub use view::tag::NameTag;
pub use view::validate::{DEPTH_MAX, DOC_BYTES_MAX};
pub use view::value::{Binary, CodeWithScope, DbPointer, Regex, Type, Value};
pub use writer::{ArrayWriter, DocWriter, Mark, ValueSlot};
