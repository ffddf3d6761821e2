//! Statistics of a plan that has run.

use nagi_bson::DocBuf;

use super::{Plan, Planned, describe, short};
use crate::source::{Env, ExecutionStats, Source, sum_stats};

impl ExecutionStats {
    /// New statistics with the facts about the choice of the plan.
    pub(crate) fn of(planned: Planned) -> ExecutionStats {
        ExecutionStats {
            from_multi_planner: planned.several,
            from_plan_cache: planned.from_cache,
            replanned: planned.replanned,
            query_hash: short(planned.shape.shape),
            plan_cache_key: short(planned.shape.key),
            ..ExecutionStats::default()
        }
    }
}

impl Env<'_> {
    /// Adds the counters of a statement's plan to the statistics.
    pub(crate) fn note_run(&self, plan: &Plan, source: &mut dyn Source) {
        let mut stats = ExecutionStats {
            has_sort_stage: plan.root.has_blocking_sort(),
            ..ExecutionStats::of(plan.planned())
        };
        sum_stats(source, &mut stats);
        let scans = u64::from(plan.root.scans_collection());
        self.noted().change(|work| {
            work.stats.add(&stats);
            work.collection_scans += scans;
        });
        self.note_stages(plan, source);
    }

    /// Stores the stages of a plan that has run, if they are wanted.
    pub(crate) fn note_stages(&self, plan: &Plan, source: &mut dyn Source) {
        if self.interrupt().wants_stages() {
            let stages = DocBuf::build(|out| describe::write_node(&plan.root, Some(source), out));
            *self.noted().stages.borrow_mut() = Some(stages);
        }
    }
}
