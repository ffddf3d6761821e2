//! Queries: plans over collections and their indexes, pipelines, write statements, explain.
//!
//!   request -> plan (access path, sort, projection) -> sources -> Execution -- batch --> documents
//!           -> pipeline stages above the plan
//!
//! find and aggregate are the same machine: plan nodes and stages are both sources of documents.
//!
//! Invariants
//! - Any plan returns what a collection scan with filter and sort returns.
//! - Only cursors over records and index entries are seen here, never storage keys.
//! - Every leaf counts what it looks at, so every operation can be stopped.
//!
//! Does not know about: commands, sessions, cursor ids, batches' reply shape, the wall clock.

mod aggregate;
mod collating;
mod count;
mod distinct;
mod execution;
mod explain;
mod find;
pub mod limits;
mod map_reduce;
mod plan;
mod projection;
mod settings;
mod source;
mod stages;
mod storage_stats;
mod work;
mod write;

pub use aggregate::{
    AggregateRequest, aggregate, check_view, refused_in_transaction, touches, writes,
};
pub use count::{CountRequest, Counted, count};
pub use distinct::{DistinctRequest, DistinctStats, distinct};
pub use execution::{Execution, ExecutionStats, Take};
pub use explain::{Explained, Verbosity, explain};
pub use find::{FindRequest, find, point_read};
pub use map_reduce::{MapReduceOut, MapReduceRequest, map_reduce};
pub use plan::{
    Hint, PlanCacheFigures, ShapeRequest, clear_index_filters, clear_plans, list_index_filters,
    plan_cache_figures, set_index_filter,
};
pub use settings::{QuerySettings, check_query, query_shape};
pub use source::{Cx, Env, Interrupt};
pub use stages::{SEARCH_INDEXES_NOT_ENABLED, Touch, Use, stage_names, write_coll_stats};
pub use storage_stats::{CollStatsSpec, write_no_storage_stats, write_storage_stats};
pub use work::Work;
pub use write::{
    DeleteStatement, FindAndModifyRequest, FoundAndModified, InsertOutcome, InsertStatement,
    UpdateOutcome, UpdateStatement, delete, ends_command, find_and_modify, insert, prepare_target,
    try_insert, update,
};
