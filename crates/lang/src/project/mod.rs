//! Projections of the aggregation language: `$project`, `$addFields`, `$set`, `$unset`,
//! `$replaceRoot`, `$redact`.
//!
//! A specification is parsed into a tree of [`Node`]s over field names; applying it walks document
//! and tree together, once, and writes the output as it goes. Arrays are walked through: the node of
//! `a.b` applies to every document in the array `a`, at any depth of arrays.
//!
//! Invariants
//! - Fields keep the input's order; computed fields follow in the order of the specification, except
//!   that `$addFields` replaces an existing field where it stands.
//! - A computed value that is missing leaves the field out.
//!
//! `find`'s projections, with positional paths, `$slice` and `$elemMatch`, are in `find`. One parser
//! reads them and those of `$project` and `$unset`; `$addFields` has rules of its own (`parse`).
//!
//! Does not know about: which fields an index covers.

mod add_fields;
mod aggregate;
mod find;
mod find_only;
mod names;
mod node;
mod parse;
mod parser;
mod redact;
mod replace_root;

pub use add_fields::AddFields;
pub use aggregate::AggProjection;
pub use find::Projection;
pub use node::{Action, Mode, Node};
pub use redact::Redact;
pub use replace_root::ReplaceRoot;
