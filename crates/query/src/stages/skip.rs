//! `$skip`: leaves out the first n documents.

use std::sync::Arc;

use nagi_bson::number;
use nagi_lang::expr::Deps;

use super::prelude::*;
use crate::source;

pub(super) static SKIP: StageSpec =
    StageSpec { name: "$skip", shape: How::Literal, parse, ..StageSpec::ROW };

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
    let count = number::non_negative_integer(spec).map_err(|reason| {
        let reason = reason.describe("$skip", spec);
        err!(Code::Location(5_107_200), "invalid argument to $skip stage: {reason}")
    })?;
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
