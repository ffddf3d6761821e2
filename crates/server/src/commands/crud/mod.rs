//! Documents: reading and writing them, and cursors.

mod aggregate;
mod bulk_write;
mod count;
mod delete;
mod distinct;
mod explain;
mod find;
mod find_and_modify;
mod get_more;
mod insert;
mod kill_cursors;
mod map_reduce;
mod outcome;
mod own_stages;
mod pipeline_access;
mod pipeline_rules;
mod representative;
mod update;

pub(super) use aggregate::AGGREGATE;
pub(super) use bulk_write::BULK_WRITE;
pub(super) use count::COUNT;
pub(super) use delete::DELETE;
pub(super) use distinct::DISTINCT;
pub(super) use explain::EXPLAIN;
pub(super) use find::FIND;
pub(super) use find_and_modify::FIND_AND_MODIFY;
pub(super) use get_more::GET_MORE;
pub(super) use insert::INSERT;
pub(super) use kill_cursors::KILL_CURSORS;
pub(crate) use kill_cursors::may_kill;
pub(super) use map_reduce::MAP_REDUCE;
pub(super) use outcome::check_batch;
pub(super) use pipeline_access::reads;
pub(in crate::commands) use pipeline_rules::check_stages_of_api;
pub(super) use representative::check_representative;
pub(super) use update::UPDATE;
