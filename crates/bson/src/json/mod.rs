//! Extended JSON v2, both ways, and a relaxed reader of the shell's notation.
//!
//! Writing: [`to_canonical`] keeps every type, [`to_relaxed`] is for people and logs. Reading takes
//! both forms and what people type into the shell: bare names, single quotes, `ObjectId("...")`,
//! `ISODate("...")`, `NumberLong(5)`, `/re/i`. An integer literal is an int32, an int64 if it is too
//! large for that; a literal with a point or an exponent is a double.

mod base64;
mod date;
mod parse;
mod print;

pub use base64::{decode as base64_decode, encode as base64_encode};
pub use date::{format_utc, parse_iso};
pub use parse::{code_with_scope, parse, parse_value, pointer, regex};
pub use print::{
    double_text, double_text_of, shortest_double, to_canonical, to_relaxed, write_relaxed,
};
