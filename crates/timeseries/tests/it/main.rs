//! Tests of the crate from the outside.
//!   bucket     buckets that MongoDB wrote, limits, and buckets of any measurements
//!   column     columns that MongoDB wrote, and columns of any values
//!   hostile    bytes that are no column

#![allow(clippy::unwrap_used, reason = "tests")]

mod bucket;
mod column;
mod hostile;
