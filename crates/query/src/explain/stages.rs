//! Explains a pipeline: its plan as `$cursor`, then each stage with the counters of its run.

use std::sync::Arc;

use nagi_bson::{DocBuf, DocWriter};
use nagi_error::Result;

use super::{Ran, Run, Subject, Verbosity, drain, execution_stats, query_planner};
use crate::{
    plan::{self, Opener},
    source::{CURSOR, Source, SourceStats, mark_plan, plan_root},
    stages::{
        Pipeline, Stage,
        assemble::{Rest, begins},
    },
};

impl Run<'_> {
    /// Writes `stages`: the plan as `$cursor`, then each stage above it. Stages that write are shown but not run;
    /// their input is counted. A failed run fails the command, except for a plan without stages above it, which is
    /// shown with its error.
    pub(super) fn stages(
        &self,
        subject: &Subject<'_>,
        pipeline: &Pipeline,
        rest: Rest,
        out: &mut DocWriter<'_>,
    ) -> Result<()> {
        let stages = &pipeline.stages[rest.from..];
        let mut shown = match self.verbosity {
            Verbosity::QueryPlanner => Shown::planned(stages),
            _ => self.ran(subject, pipeline, rest)?,
        };
        out.array("stages", |out| {
            if !begins(pipeline) {
                out.doc(|out| {
                    out.doc("$cursor", |out| self.cursor(subject, &mut shown, out));
                    if let Some(stats) = shown.cursor {
                        write_run(&stats, out);
                    }
                });
            }
            for (at, stage) in stages.iter().enumerate() {
                out.doc(|out| {
                    stage.explain(out);
                    if let Some((stats, more)) = &shown.stages[at] {
                        out.extend(more.as_doc());
                        write_run(stats, out);
                    }
                });
            }
        });
        Ok(())
    }

    /// Writes the plan below the stages, with its part of the run.
    fn cursor(&self, subject: &Subject<'_>, shown: &mut Shown, out: &mut DocWriter<'_>) {
        query_planner(self, subject, out);
        if let (Some(source), Some(ran)) = (&mut shown.root, &shown.ran)
            && let Some(root) = plan_root(&mut **source)
        {
            let returned = shown.cursor.map_or(0, |stats| stats.advanced);
            execution_stats(subject, root, ran, (returned, 0), self.verbosity, out);
        }
    }

    fn ran(&self, subject: &Subject<'_>, pipeline: &Pipeline, rest: Rest) -> Result<Shown> {
        let stages = &pipeline.stages[rest.from..];
        let mut shown = Shown::planned(stages);
        let root = plan::open(&subject.plan.root, &Opener::SHOWN);
        let below = mark_plan(root);
        let mut source = rest.open_counted(pipeline, below);
        let begin = (self.clock_ms)();
        let read = self.plan_with(&subject.lets, |cx| drain(&mut *source, u64::MAX, cx))?;
        shown.ran = Some(Ran { outcome: Ok(read), time_ms: (self.clock_ms)() - begin });
        let mut at = Some(&mut *source);
        while let Some(source) = at {
            match source.stage_at() {
                Some(CURSOR) => shown.cursor = Some(source.stats()),
                Some(place) => {
                    let more = DocBuf::build(|out| source.show_run(out));
                    if let Some(slot) = shown.stages.get_mut(place.wrapping_sub(rest.from)) {
                        *slot = Some((source.stats(), more));
                    }
                }
                None => {}
            }
            at = source.inputs().first_mut().map(|input| &mut **input);
        }
        shown.root = Some(source);
        Ok(shown)
    }
}

/// The state after the run of a pipeline.
struct Shown {
    /// The opened stages, if it ran.
    root: Option<Box<dyn Source>>,
    ran: Option<Ran>,
    cursor: Option<SourceStats>,
    /// For each stage, its counters and its additional fields.
    stages: Vec<Option<(SourceStats, DocBuf)>>,
}

impl Shown {
    /// The state if nothing was run.
    fn planned(stages: &[Arc<dyn Stage>]) -> Shown {
        let stages = stages.iter().map(|_| None).collect();
        Shown { root: None, ran: None, cursor: None, stages }
    }
}

fn write_run(stats: &SourceStats, out: &mut DocWriter<'_>) {
    out.put("nReturned", stats.advanced as i64);
    out.put("executionTimeMillisEstimate", (stats.nanos / 1_000_000) as i64);
}
