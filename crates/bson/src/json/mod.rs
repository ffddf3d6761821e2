//! JSON, both ways: one writer of text (`writer.rs`) and one reader whose notation is a value (`dialect.rs`).
//!
//! Writing: [`to_canonical`] keeps every type, [`to_relaxed`] is for people and logs. Reading takes both forms and
//! what people type into the shell: bare names, single quotes, `ObjectId("...")`, `ISODate("...")`, `NumberLong(5)`,
//! `/re/i`; [`parse_plain`] takes RFC 8259 and nothing else. An integer literal is an int32, an int64 if it is too
//! large for that; a literal with a point or an exponent is a double.

mod base64;
mod date;
mod dialect;
mod made;
mod numbers;
mod parse;
mod print;
mod reader;
mod shell;
mod tags;
mod writer;

pub use base64::{decode as base64_decode, encode as base64_encode};
pub use date::{format_utc, parse_iso};
pub use made::{code_with_scope, pointer, regex};
pub use parse::{parse, parse_plain, parse_value};
pub use print::{
    double_text, double_text_of, shortest_double, to_canonical, to_relaxed, to_text_within,
    write_relaxed,
};
pub use writer::{JsonWriter, Spacing, write_string};
