//! `$unset`: removes fields; an excluding `$project`.

use std::sync::Arc;

use nagi_bson::ValueBuf;
use nagi_lang::project::AggProjection;

use super::{
    prelude::*,
    project::{Project, Shape},
};

pub(super) static UNSET: StageSpec = StageSpec {
    name: "$unset",
    shape: How::Same,
    parse,
    facts: StageFacts::OF_CHANGE_STREAM,
    ..StageSpec::ROW
};

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let shape = AggProjection::parse_unset(spec)?;
    Ok(Box::new(Project {
        shape: Arc::new(Shape(shape)),
        name: "$unset",
        text: ValueBuf::new(spec),
        collation: None,
    }))
}
