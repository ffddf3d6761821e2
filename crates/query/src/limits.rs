//! All limits of this crate and their origins.

/// `internalQueryMaxBlockingSortMemoryUsageBytes`, and the limit of blocking pipeline stages.
pub const SORT_MEMORY_BYTES_MAX: usize = 100 << 20;

/// Memory limits of blocking stages, in bytes. Each has a parameter of the server; the defaults are 100 MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageMemory {
    /// `internalDocumentSourceBucketAutoMaxMemoryBytes`
    pub bucket_auto: usize,
    /// `internalDocumentSourceDensifyMaxMemoryBytes`
    pub densify: usize,
    /// `internalQueryFacetBufferSizeBytes`
    pub facet: usize,
    /// `internalDocumentSourceGraphLookupMaxMemoryBytes`
    pub graph_lookup: usize,
    /// `internalDocumentSourceGroupMaxMemoryBytes`
    pub group: usize,
    /// `internalLookupStageIntermediateDocumentMaxSizeBytes`
    pub lookup: usize,
    /// `internalDocumentSourceSetWindowFieldsMaxMemoryBytes`
    pub set_window_fields: usize,
    /// `internalQueryMaxBlockingSortMemoryUsageBytes`
    pub sort: usize,
    /// `internalTextOrStageMaxMemoryBytes`
    pub text_or: usize,
}

impl StageMemory {
    /// The defaults.
    pub const DEFAULT: StageMemory = StageMemory::all(SORT_MEMORY_BYTES_MAX);

    /// The same limit for every stage.
    pub const fn all(bytes: usize) -> StageMemory {
        StageMemory {
            bucket_auto: bytes,
            densify: bytes,
            facet: bytes,
            graph_lookup: bytes,
            group: bytes,
            lookup: bytes,
            set_window_fields: bytes,
            sort: bytes,
            text_or: bytes,
        }
    }
}

/// Options from the server's parameters, the same for all stages and sub-pipelines of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryOptions {
    /// True if blocking stages may spill to disk.
    pub allow_disk_use: bool,
    /// Memory limits of blocking stages.
    pub memory: StageMemory,
    /// Limit of documents that one `$densify` builds.
    pub densify_docs_max: u64,
}

impl QueryOptions {
    /// The defaults.
    pub const DEFAULT: QueryOptions = QueryOptions {
        allow_disk_use: true,
        memory: StageMemory::DEFAULT,
        densify_docs_max: DENSIFY_DOCS_MAX,
    };
}

/// Limit of the hash table of a `$lookup` without an index, in bytes: hashes and record ids, some 24 bytes for each
/// document of the other collection, or the documents that a view or a pipeline yields. Beyond the limit the stage
/// reads the other collection for each document.
pub const LOOKUP_TABLE_BYTES_MAX: usize = 64 << 20;

/// `internalPipelineLengthLimit`.
pub const PIPELINE_STAGES_MAX: usize = 1000;

/// Limit of pipelines within pipelines: `$lookup`, `$unionWith`, `$facet` (232 beyond).
pub const PIPELINE_DEPTH_MAX: u32 = 20;

/// Limit of a document that leaves the server: 16 MiB.
pub const DOC_BYTES_MAX: usize = 16 << 20;

/// Limit of the result of `distinct` (17217 beyond).
pub const DISTINCT_BYTES_MAX: usize = 16 << 20;

/// Results that a candidate plan has to deliver in its trial.
pub const TRIAL_RESULTS: u64 = 101;

/// Limit of documents that one `$densify` builds: the default of `internalQueryMaxAllowedDensifyDocs`.
pub const DENSIFY_DOCS_MAX: u64 = 500_000;

/// `internalQueryCacheMaxEntriesPerCollection`: limit of cached choices.
pub const CACHED_PLANS_MAX: usize = 5000;

/// `internalQueryCacheEvictionRatio`: a cached plan may take this many times the works of its trial.
pub const REPLAN_FACTOR: u64 = 10;

/// `internalQueryCacheWorksGrowthCoefficient`: growth of the works of an inactive entry.
pub const WORKS_GROWTH: u64 = 2;

/// Limit of records that a plan reads ahead at once.
pub const RECORDS_AHEAD_MAX: usize = 256;

/// Limit of records that are read ahead at once by two threads.
pub const RECORDS_HELPED_MAX: usize = 512;
