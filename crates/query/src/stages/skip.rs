//! `$skip`: leaves out the first n documents.

use std::sync::Arc;

use nagi_lang::expr::Deps;

use super::{numbers, prelude::*};
use crate::source;

pub(super) static SKIP: StageSpec = StageSpec { name: "$skip", place: Place::Anywhere, parse };

/// A parsed `$skip`.
pub(super) struct Skip {
    count: u64,
}

impl Skip {
    pub(super) fn boxed(count: u64) -> Arc<dyn Stage> {
        Arc::new(Skip { count })
    }
}

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Some(count) = numbers::whole(spec) else {
        bail!(
            Code::Location(15972),
            "Argument to $skip must be a number not a {}",
            spec.kind().name()
        );
    };
    if count < 0 {
        bail!(Code::Location(15956), "Argument to $skip cannot be negative");
    }
    Ok(Box::new(Skip { count: count as u64 }))
}

impl Stage for Skip {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(source::Skip::new(input, self.count))
    }

    fn hands_on(&self, _: &mut Deps) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$skip", self.count as i64);
    }

    fn step(&self) -> Step<'_> {
        Step::Skip(self.count)
    }
}
