//! Marks the plan below the stages of a pipeline, so that it can be found again.

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_store::RecordKey;

use super::{Cx, Pass, Source, Staged};

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

/// A plan of which it is known that it yields its documents in the order that the stage above wants.
pub(crate) struct InOrder {
    input: Box<dyn Source>,
}

impl InOrder {
    pub(crate) fn boxed(input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(InOrder { input })
    }
}

impl Source for InOrder {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        self.input.advance(cx)
    }

    fn doc(&self) -> Doc<'_> {
        self.input.doc()
    }

    fn is_in_wanted_order(&mut self) -> bool {
        true
    }

    over_input!();
}
