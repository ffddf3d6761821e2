//! What a tree of sources looked at.

use super::Source;

/// What an execution looked at, for the slow log and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecutionStats {
    pub keys_examined: u64,
    pub docs_examined: u64,
    pub has_sort_stage: bool,
    /// A blocking stage wrote to disk.
    pub used_disk: bool,
    /// Several plans were tried.
    pub from_multi_planner: bool,
    /// The plan was chosen by the plan cache.
    pub from_plan_cache: bool,
    /// If a cached plan was given up: the entries it was expected to look at, and those it did.
    pub replanned: Option<(u64, u64)>,
    /// Hash of the query's shape; 0 if it had no plan.
    pub query_hash: u32,
    /// Hash of what the plan cache looks it up by; 0 likewise.
    pub plan_cache_key: u32,
}

impl ExecutionStats {
    /// Adds another run: counts are summed, the hashes are those of the last.
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

/// Adds what a tree of sources looked at.
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
