//! Time series: how measurements are stored in buckets. No I/O: documents in, documents out.
//!
//! ```text
//!   measurements -> bucket::Bucket -> document (control, meta, data)    columns by `column`, words by `simple8b`
//!   measurements <- bucket::Unpacker <- document
//! ```
//!
//! Who calls it: the server's inserts collect measurements into buckets; the stage `$_internalUnpackBucket` returns
//! them. Buckets are documents of a collection of their own (`system.buckets.<name>`), in MongoDB's format, so dumps
//! of either server can be restored into the other.
//!
//! Buckets may come from clients, and are untrusted beyond being valid BSON.

pub mod bucket;
pub mod column;
mod index;
mod options;
mod simple8b;

pub use options::{Granularity, Options};
