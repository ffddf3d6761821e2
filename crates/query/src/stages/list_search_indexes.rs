//! `$listSearchIndexes`: fails, because the server has no search engine.

use super::prelude::*;

pub(super) static LIST_SEARCH_INDEXES: StageSpec = StageSpec {
    name: "$listSearchIndexes",
    place: Place::First,
    parse: list_search_indexes,
    facts: StageFacts { in_api: false, rejectable: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};

/// The reply of the stage and of the commands for search indexes without a search engine.
pub const SEARCH_INDEXES_NOT_ENABLED: &str = "Using Atlas Search Database Commands and the \
     $listSearchIndexes aggregation stage requires additional configuration. Please connect to \
     Atlas or an AtlasCLI local deployment to enable. For more information on how to connect, see \
     https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs.";

fn list_search_indexes(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::SEARCH_NOT_ENABLED, "{SEARCH_INDEXES_NOT_ENABLED}");
}
