//! Read requests: from their arguments to an execution that delivers batches.

pub(crate) mod aggregate;
pub(crate) mod count;
pub(crate) mod distinct;
pub(crate) mod execution;
pub(crate) mod find;
pub(crate) mod map_reduce;
mod running_stream;
