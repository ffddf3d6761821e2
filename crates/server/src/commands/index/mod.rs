//! Indexes.

mod create_indexes;
mod drop_indexes;
mod list_indexes;

pub(super) use create_indexes::CREATE_INDEXES;
pub(super) use drop_indexes::DROP_INDEXES;
pub(super) use list_indexes::LIST_INDEXES;
