//! BSON for a server: borrowed bytes instead of owned trees.
//!
//! A document is validated once ([`Doc::parse`]), where it enters the server: at the network or at an insert. From
//! there on it is a [`Doc`], a slice that is passed from the storage engine to the socket without conversion. A
//! [`Value`] is the value of one element: `Copy`, 24 bytes, pointing into those bytes. New documents are written by
//! [`DocWriter`] into a buffer that the caller owns and reuses.
//!
//! ```text
//!   socket --Doc::parse--> Doc ----> engine (stores the bytes)
//!                                      |
//!   socket <--bytes-- DocWriter <---- Doc::trusted (no second validation)
//! ```
//!
//! Invariants
//! - The bytes behind a `Doc` or an `Array` have passed validation or were written by `DocWriter`. Unsafe code
//!   (`view::raw`) relies on this.
//! - The order of values ([`compare`]) is MongoDB's order across all types. Numbers are compared without rounding.
//!
//! ```
//! use nagi_bson::{Value, doc};
//! let d = doc! { "a": 1, "b": { "c": [1, "x"] } };
//! assert_eq!(d.get("a"), Value::Int32(1));
//! ```
//!
//! This crate does not know commands, MongoDB's error codes (see `nagi-error`), files or sockets.

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
