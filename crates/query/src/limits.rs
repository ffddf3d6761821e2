//! Every limit of this crate and where it comes from.

/// `internalQueryMaxBlockingSortMemoryUsageBytes`, and the limit of blocking pipeline stages.
pub const SORT_MEMORY_BYTES_MAX: usize = 100 << 20;

/// Memory that one blocking stage of each kind may hold, bytes. Each has a parameter; all begin with 100 MB.
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
    /// What each stage has unless it is set.
    pub const DEFAULT: StageMemory = StageMemory::all(SORT_MEMORY_BYTES_MAX);

    /// The same for every stage.
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

/// What the parameters of the server allow a query; one value for all its stages and sub-pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryOptions {
    /// Whether blocking stages may write to disk.
    pub allow_disk_use: bool,
    /// Memory of each blocking stage.
    pub memory: StageMemory,
    /// Documents that one `$densify` makes at most.
    pub densify_docs_max: u64,
}

impl QueryOptions {
    /// What holds unless something is set.
    pub const DEFAULT: QueryOptions = QueryOptions {
        allow_disk_use: true,
        memory: StageMemory::DEFAULT,
        densify_docs_max: DENSIFY_DOCS_MAX,
    };
}

/// Bytes of the table by which one `$lookup` without an index joins: hashes and record ids, some 24 bytes
/// for a document of the other collection, or the documents that a view or its pipeline makes. With more it reads
/// them for each document.
pub const LOOKUP_TABLE_BYTES_MAX: usize = 64 << 20;

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

/// Documents that one `$densify` makes at most: `internalQueryMaxAllowedDensifyDocs` unless it is set.
pub const DENSIFY_DOCS_MAX: u64 = 500_000;

/// `internalQueryCacheMaxEntriesPerCollection`: cached choices of plans.
pub const CACHED_PLANS_MAX: usize = 5000;

/// `internalQueryCacheEvictionRatio`: so many times the works of its trial a cached plan may take.
pub const REPLAN_FACTOR: u64 = 10;

/// `internalQueryCacheWorksGrowthCoefficient`: how the works of an inactive entry grow.
pub const WORKS_GROWTH: u64 = 2;

/// Records that a plan reads at once at most, before they are requested.
pub const RECORDS_AHEAD_MAX: usize = 256;
