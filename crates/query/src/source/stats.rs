//! Statistics of a tree of sources.

use super::Source;

/// Statistics of an execution, for the slow query log and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecutionStats {
    pub keys_examined: u64,
    pub docs_examined: u64,
    pub has_sort_stage: bool,
    /// True if a blocking stage spilled to disk.
    pub used_disk: bool,
    /// True if several plans were tried.
    pub from_multi_planner: bool,
    /// True if the plan was chosen by the plan cache.
    pub from_plan_cache: bool,
    /// If a cached plan was abandoned: the number of entries it was expected to examine, and the number it did.
    pub replanned: Option<(u64, u64)>,
    /// Hash of the query's shape; 0 if it had no plan.
    pub query_hash: u32,
    /// Hash of the plan cache key; 0 if it had no plan.
    pub plan_cache_key: u32,
}

impl ExecutionStats {
    /// Adds another run: counters are summed, the hashes are those of the last.
    pub(crate) fn add(&mut self, other: &ExecutionStats) {
        *self = ExecutionStats {
            keys_examined: self.keys_examined + other.keys_examined,
            docs_examined: self.docs_examined + other.docs_examined,
            has_sort_stage: self.has_sort_stage | other.has_sort_stage,
            used_disk: self.used_disk | other.used_disk,
            from_multi_planner: self.from_multi_planner | other.from_multi_planner,
            from_plan_cache: self.from_plan_cache | other.from_plan_cache,
            replanned: other.replanned.or(self.replanned),
            ..*other
        };
    }
}

/// Adds the counters of a tree of sources.
pub(crate) fn sum_stats(source: &mut dyn Source, stats: &mut ExecutionStats) {
    let mut open = vec![source];
    while let Some(source) = open.pop() {
        let own = source.stats();
        stats.keys_examined += own.keys_examined;
        stats.docs_examined += own.docs_examined;
        stats.used_disk |= own.bytes_spilled > 0;
        open.extend(source.inputs().iter_mut().map(|input| &mut **input as &mut dyn Source));
    }
}
