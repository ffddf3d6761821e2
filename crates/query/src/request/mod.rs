//! Requests for reading: from their arguments to an execution that hands out batches.

pub(crate) mod aggregate;
pub(crate) mod count;
pub(crate) mod distinct;
pub(crate) mod execution;
pub(crate) mod find;
pub(crate) mod map_reduce;
