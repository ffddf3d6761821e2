//! A stage that is an abbreviation of several others: `$setWindowFields` with its sort, `$fill`, `$densify`.

use std::sync::Arc;

use super::prelude::*;

/// The stages in their order; at least one.
pub(super) struct Several(Vec<Arc<dyn Stage>>);

impl Several {
    pub(super) fn boxed(stages: Vec<Arc<dyn Stage>>) -> Box<dyn Stage> {
        Box::new(Several(stages))
    }
}

impl Stage for Several {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        self.0.iter().fold(input, |input, stage| stage.open(input))
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        self.0.iter().for_each(|stage| stage.explain(out));
    }

    fn parts(&self) -> Option<Vec<Arc<dyn Stage>>> {
        Some(self.0.clone())
    }
}
