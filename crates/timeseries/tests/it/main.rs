//! Tests of the crate from the outside.
//!   column     columns that MongoDB wrote, and columns of any values
//!   hostile    bytes that are no column
mod column;
mod hostile;
