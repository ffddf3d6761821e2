//! Queries: plans over collections and their indexes, pipelines, write statements, explain.
//!
//!   request -> plan (access path, sort, projection) -> sources -> Execution -- batch --> documents
//!           -> pipeline stages above the plan
//!
//! find and aggregate share one implementation: plan nodes and stages are both sources of documents. Where to read:
//! `plan/mod.rs` (the planner, with an example), `source/mod.rs` (the iterators), `stages/mod.rs` (the stages),
//! `write/mod.rs` (write statements).
//!
//! # Invariants
//! - Any plan returns what a collection scan with filter and sort returns.
//! - This crate uses only cursors over records and index entries, never storage keys.
//! - Every leaf counts the entries it examines, so every operation can be cancelled.
//!
//! The crate does not know commands, sessions, cursor ids, the format of replies, or the wall clock.

mod access;
mod change_stream;
mod collating;
mod conditions;
mod encrypted;
mod explain;
mod figures;
mod hypothetical;
pub mod limits;
mod operators_used;
mod plan;
mod projection;
mod query_shape;
mod query_shape_names;
mod request;
mod source;
mod stages;
mod storage_stats;
mod write;

pub use access::QuerySettings;
pub use conditions::series_index::{bucket_index, series_index};
pub use encrypted::{
    Compacted, Compaction, Encryption, EncryptionOptions, FieldTokens, Rewritten, RunTransaction,
    Searched, compact,
};
pub use explain::check_query;
pub use explain::{Explained, Verbosity, explain};
pub use figures::{
    DeleteFigures, PlanCacheFigures, SortFigures, delete_figures, plan_cache_figures, sort_figures,
};
pub use hypothetical::{
    Estimate, Hypothesis, INDEXES_MAX as HYPOTHETICAL_INDEXES_MAX, Sample, SampleLimits, Side,
    TrialIndex, explain_hypothetical, sample_documents,
};
pub use operators_used::{
    Family, family_names, filter_operators, pipeline_operators, projection_operators,
};
pub use plan::find::{FindRequest, lone_id};
pub use plan::{
    Hint, ShapeRequest, clear_index_filters, clear_plans, index_filter_document, index_filter_ids,
    install_index_filters, is_index_filter_of_none, list_index_filters, set_index_filter,
};
pub use query_shape::{has_query_shape, query_shape, statistics_shape};
pub use query_shape_names::{Replace, replace_fields, replace_names};
pub use request::aggregate::{
    AggregateRequest, aggregate, check_view, pipeline_head, refused_in_transaction, touches, writes,
};
pub use request::count::{CountRequest, Counted, count};
pub use request::distinct::{DistinctRequest, DistinctStats, distinct};
pub use request::execution::{Execution, Take};
pub use request::find::find;
pub use request::map_reduce::{MapReduceOut, MapReduceRequest, map_reduce};
pub use source::ExecutionStats;
pub use source::work::Work;
pub use source::{CHANGE_COPIES, Cx, Env, Interrupt, Room, end_idle_workers, on_worker_start};
pub use stages::{
    COLLECTIONLESS, Given, InChangeStream, RunsOn, SEARCH_INDEXES_NOT_ENABLED, StageFacts, Touch,
    Use, feeds_pipelines, inner_pipelines, opens_change_stream, stage_facts, stage_names,
    write_coll_stats,
};
pub use storage_stats::{CollStatsSpec, write_no_storage_stats, write_storage_stats};
pub use write::{
    BY_IDS_MAX, ById, ByIdOutcome, ByIds, DeleteStatement, FindAndModifyRequest, FoundAndModified,
    InsertOutcome, InsertStatement, UpdateOutcome, UpdateStatement, change_by_ids, delete,
    ends_command, find_and_modify, insert, prepare_target, try_insert, update,
    write_bucket_catalog,
};
