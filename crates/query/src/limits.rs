//! Every limit of this crate and where it comes from.

/// `internalQueryMaxBlockingSortMemoryUsageBytes`, and the limit of blocking pipeline stages.
pub const SORT_MEMORY_BYTES_MAX: usize = 100 << 20;

/// `internalPipelineLengthLimit`.
pub const PIPELINE_STAGES_MAX: usize = 1000;

/// Pipelines within pipelines: `$lookup`, `$unionWith`, `$facet` (232 beyond).
pub const PIPELINE_DEPTH_MAX: u32 = 20;

/// Largest document that leaves the server: 16 MiB.
pub const DOC_BYTES_MAX: usize = 16 << 20;

/// Largest result of `distinct` (17217 beyond).
pub const DISTINCT_BYTES_MAX: usize = 16 << 20;

/// Results a candidate plan shows in its trial.
pub const TRIAL_RESULTS: u64 = 101;

/// Documents that one `$densify` makes at most.
pub const DENSIFY_DOCS_MAX: u64 = 500_000;
