//! Commands that read and write documents, and commands on cursors.
//!
//!   reads    find, aggregate, count, distinct, mapReduce  -->  nagi_query  -->  batch::reply_first
//!   writes   insert, update, delete, findAndModify, bulkWrite  -->  statement by statement (below)
//!   cursors  getMore, killCursors
//!   plans    explain, and setQuerySettings by `representative`
//!
//! A write command holds a list of statements, which run one after another. A statement on one document is one
//! transaction. A statement on many documents, or a list of documents to insert, is a series of transactions
//! (`nagi_query`, module `write`). In a transaction of the client all statements belong to that one instead.
//!
//!   for each statement
//!      Running::begin                      (statement)   its time and work are measured on their own
//!      txn_number::once                                    retryable write: an earlier attempt's record answers
//!         nagi_query::update / delete / ...
//!      Running::end                        (statement)   its entry in the profile and the slow-query log
//!      Outcome::fail, or add to the sums   (outcome)     an ordered batch stops at its first error
//!
//! Invariants
//! - An error of one statement becomes an element of `writeErrors`; the command still replies `ok: 1`. Errors
//!   for which `nagi_query::ends_command` is true (an interrupt, for example) fail the whole command instead.
//! - Only the last statement of an update or delete batch waits for the disk. The log keeps the order of the
//!   commits, so the earlier statements are durable with it.

mod aggregate;
mod bulk_write;
mod count;
mod delete;
mod distinct;
mod encryption;
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
mod statement;
mod together;
mod update;
mod writes;

pub(super) use aggregate::AGGREGATE;
pub(crate) use aggregate::opens_change_stream;
pub(super) use bulk_write::BULK_WRITE;
pub(super) use count::COUNT;
pub(super) use delete::DELETE;
pub(super) use distinct::DISTINCT;
pub(super) use explain::{EXPLAIN, try_on_sample};
pub(super) use find::FIND;
pub(super) use find_and_modify::FIND_AND_MODIFY;
pub(super) use get_more::GET_MORE;
pub(super) use insert::INSERT;
pub(super) use kill_cursors::KILL_CURSORS;
pub(crate) use kill_cursors::may_kill;
pub(super) use map_reduce::MAP_REDUCE;
pub(super) use outcome::check_batch;
pub(super) use pipeline_access::may_define_view;
pub(in crate::commands) use pipeline_rules::check_stages_of_api;
pub(super) use representative::check_representative;
pub(super) use update::UPDATE;
