//! `$limit`: passes on the first n documents.

use std::sync::Arc;

use nagi_bson::number;
use nagi_lang::expr::Deps;

use super::prelude::*;
use crate::source;

pub(super) static LIMIT: StageSpec =
    StageSpec { name: "$limit", shape: How::Literal, parse, ..StageSpec::ROW };

/// A parsed `$limit`.
pub(super) struct Limit {
    count: u64,
}

impl Limit {
    pub(super) fn boxed(count: u64) -> Arc<dyn Stage> {
        Arc::new(Limit { count })
    }
}

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let count = number::non_negative_integer(spec).map_err(|reason| {
        let reason = reason.describe("$limit", spec);
        err!(Code::Location(5_107_201), "invalid argument to $limit stage: {reason}")
    })?;
    if count == 0 {
        bail!(Code::Location(15958), "the limit must be positive");
    }
    Ok(Box::new(Limit { count: count as u64 }))
}

impl Stage for Limit {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(source::Limit::new(input, self.count))
    }

    fn hands_on(&self, _: &mut Deps) -> bool {
        true
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.put("$limit", self.count as i64);
    }

    fn step(&self) -> Step<'_> {
        Step::Limit(self.count)
    }
}
