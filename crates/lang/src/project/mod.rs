//! Projections: `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`, `$redact`, and the projection of `find`.
//!
//! A specification is parsed into a tree of [`Node`]s over field names. Applying it walks document and tree together,
//! once, and writes the output during the walk. Arrays are traversed: the node of `a.b` applies to every document in
//! the array `a`, at any depth of nested arrays.
//!
//! ```text
//!   {$project: {x: 1, "a.b": 1, n: {$add: ["$x", 1]}}}
//!   Node Include { x: Include,  a: Nested { b: Include },  n: Compute }
//! ```
//!
//! Invariants
//! - Fields keep the order of the input document. Computed fields follow in the order of the specification, except
//!   that `$addFields` replaces an existing field at its position.
//! - A computed field whose value is missing is left out.
//!
//! The projection of `find`, with positional paths, `$slice` and `$elemMatch`, is in `find`. It shares one parser
//! (`parser`) with `$project` and `$unset`; `$addFields` has different rules and its own parser (`parse`).
//!
//! This module does not know which fields an index covers.

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
