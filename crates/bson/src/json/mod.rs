//! Extended JSON v2: a printer and a parser. The parser also accepts the notation of the MongoDB shell.
//!
//! [`to_canonical`] keeps every type; [`to_relaxed`] is meant for people and logs. [`parse()`] accepts both, and what
//! users type into the shell: unquoted names, single quotes, `ObjectId("...")`, `ISODate("...")`, `NumberLong(5)`,
//! `/re/i`. An integer literal is an int32, or an int64 if it does not fit; a literal with a point or an exponent is
//! a double.

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
