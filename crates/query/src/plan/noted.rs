//! What is noted of a plan that ran.

use nagi_bson::DocBuf;

use super::{Plan, Planned, describe, short};
use crate::source::{Env, ExecutionStats, Source, sum_stats};

impl ExecutionStats {
    /// With how the plan was chosen.
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
    /// Adds what the run of a statement's plan looked at.
    pub(crate) fn note_run(&self, plan: &Plan, source: &mut dyn Source) {
        let mut stats = ExecutionStats {
            has_sort_stage: plan.root.has_blocking_sort(),
            ..ExecutionStats::of(plan.planned())
        };
        sum_stats(source, &mut stats);
        self.noted().change(|work| work.stats.add(&stats));
        self.note_stages(plan, source);
    }

    /// Keeps the stages of a plan that ran, if they are wanted.
    pub(crate) fn note_stages(&self, plan: &Plan, source: &mut dyn Source) {
        if self.interrupt().wants_stages() {
            let stages = DocBuf::build(|out| describe::write_node(&plan.root, Some(source), out));
            *self.noted().stages.borrow_mut() = Some(stages);
        }
    }
}
