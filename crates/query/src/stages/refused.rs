//! Stages that a standalone server of this kind answers with an error of their own.

use super::prelude::*;

pub(super) static CHANGE_STREAM: StageSpec =
    StageSpec { name: "$changeStream", place: Place::First, parse: change_stream };
pub(super) static SEARCH: StageSpec =
    StageSpec { name: "$search", place: Place::First, parse: search };
pub(super) static SEARCH_META: StageSpec =
    StageSpec { name: "$searchMeta", place: Place::First, parse: search };
pub(super) static VECTOR_SEARCH: StageSpec =
    StageSpec { name: "$vectorSearch", place: Place::First, parse: search };

fn change_stream(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::Location(40573), "The $changeStream stage is only supported on replica sets");
}

fn search(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(
        Code::SEARCH_NOT_ENABLED,
        "Using $search and $vectorSearch aggregation stages requires additional configuration. \
         Please connect to Atlas or an AtlasCLI local deployment to enable."
    );
}
