//! Buckets: the documents that store the measurements of a time series collection.
//!
//! ```text
//!   { _id:     ObjectId whose time is the begin of the bucket
//!     control: { version: 2, min: { t: begin, ... }, max: { t: last time, ... }, count: 3 }
//!     meta:    what all measurements have in common
//!     data:    { t: BSONColumn, a: BSONColumn, ... } }
//! ```
//!
//! Version 1 stores each field as a document of positions and values instead (`{ "0": ..., "1": ... }`). In version 2
//! the measurements are in the order of time; in version 3 they need not be. This crate reads all versions and writes
//! version 2: a bucket is written as a whole, so its measurements can be sorted.
//!
//! [`Bucket`] collects measurements, [`Unpacker`] returns them, [`Columns`] returns the values of single fields,
//! and [`check`] compares a stored bucket with what it says of itself.

mod build;
mod check;
mod columns;
mod fields;
mod meta;
mod ranges;
mod reopen;
mod unpack;

pub use build::{Bucket, Refused, time_of};
pub use check::{Fault, check};
pub use columns::Columns;
pub use meta::normalized;
pub use unpack::{Shape, Unpacked, Unpacker};

use crate::column::LEAVES_MAX;

/// The most measurements of a bucket (MongoDB's `timeseriesBucketMaxCount`).
pub const COUNT_MAX: usize = 1000;

/// The size of a bucket, before compression, from which it takes no more measurements (MongoDB's
/// `timeseriesBucketMaxSize`).
pub const BYTES_MAX: usize = 128_000;

/// A bucket takes this many measurements even if they are large (MongoDB's `timeseriesBucketMinCount`)...
pub const COUNT_MIN: usize = 10;

/// ... as long as all of them together are at most this large.
pub const LARGE_BYTES_MAX: usize = 12 << 20;

/// The size of measurements, ranges and metadata together with which a bucket takes no more measurements: well below
/// that of the largest document, because compression may also fail to make anything smaller.
pub const DOCUMENT_BYTES_MAX: usize = 14 << 20;

/// The most fields of a measurement, and of those of a bucket together: half of what readers accept, because the
/// documents in fields count as well.
pub const FIELDS_MAX: usize = LEAVES_MAX / 2;
