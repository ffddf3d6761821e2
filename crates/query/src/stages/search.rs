//! `$search`, `$searchMeta`, `$vectorSearch`: fail, because the server has no search engine.

use super::prelude::*;

pub(super) static SEARCH: StageSpec = StageSpec {
    name: "$search",
    place: Place::First,
    parse: search,
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

pub(super) static SEARCH_META: StageSpec = StageSpec {
    name: "$searchMeta",
    place: Place::First,
    parse: search,
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

pub(super) static VECTOR_SEARCH: StageSpec = StageSpec {
    name: "$vectorSearch",
    place: Place::First,
    parse: search,
    facts: StageFacts { in_api: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

fn search(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(
        Code::SEARCH_NOT_ENABLED,
        "Using $search and $vectorSearch aggregation stages requires additional configuration. \
         Please connect to Atlas or an AtlasCLI local deployment to enable."
    );
}
