//! Marks the plan below the stages of a pipeline, so that it can be found again.

use super::{Pass, Source, Staged};

/// The position that marks the plan below a pipeline's stages.
pub(crate) const CURSOR: usize = usize::MAX;

/// Marks the source of a plan, so that [`plan_root`] finds it below the stages above it.
pub(crate) fn mark_plan(plan: Box<dyn Source>) -> Box<dyn Source> {
    Staged::boxed(Box::new(Pass::new(plan)), CURSOR)
}

/// The source of the marked plan below the stages; none if no plan is marked.
pub(crate) fn plan_root(source: &mut dyn Source) -> Option<&mut dyn Source> {
    let mut at = source;
    loop {
        let found = at.stage_at() == Some(CURSOR);
        // The plan is the input of the marked source.
        let input = at.inputs().first_mut()?;
        if found {
            return Some(&mut **input);
        }
        at = &mut **input;
    }
}
