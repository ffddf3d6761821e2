//! Stages that a standalone server of this kind answers with an error of their own.

use super::prelude::*;

pub(super) static CHANGE_STREAM: StageSpec = StageSpec {
    name: "$changeStream",
    place: Place::First,
    parse: change_stream,
    facts: StageFacts { in_transaction: false, in_view: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};
pub(super) static CURRENT_OP: StageSpec = StageSpec {
    name: "$currentOp",
    place: Place::First,
    parse: current_op,
    facts: StageFacts {
        in_transaction: false,
        in_api: false,
        rejectable: false,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};
pub(super) static LIST_LOCAL_SESSIONS: StageSpec = StageSpec {
    name: "$listLocalSessions",
    place: Place::First,
    parse: list_local_sessions,
    facts: StageFacts {
        in_transaction: false,
        in_api: false,
        rejectable: false,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};
pub(super) static LIST_SEARCH_INDEXES: StageSpec = StageSpec {
    name: "$listSearchIndexes",
    place: Place::First,
    parse: list_search_indexes,
    facts: StageFacts { in_api: false, rejectable: false, ..StageFacts::ORDINARY },
    ..StageSpec::ROW
};
pub(super) static LIST_SESSIONS: StageSpec = StageSpec {
    name: "$listSessions",
    place: Place::First,
    parse: list_sessions,
    facts: StageFacts {
        in_transaction: false,
        in_api: false,
        rejectable: false,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};
pub(super) static QUERY_SETTINGS: StageSpec = StageSpec {
    name: "$querySettings",
    place: Place::First,
    parse: query_settings,
    facts: StageFacts {
        in_transaction: false,
        in_api: false,
        rejectable: false,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};
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

/// What the stage and the commands of search indexes answer without a search engine.
pub const SEARCH_INDEXES_NOT_ENABLED: &str = "Using Atlas Search Database Commands and the \
     $listSearchIndexes aggregation stage requires additional configuration. Please connect to \
     Atlas or an AtlasCLI local deployment to enable. For more information on how to connect, see \
     https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs.";

fn list_search_indexes(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::SEARCH_NOT_ENABLED, "{SEARCH_INDEXES_NOT_ENABLED}");
}

fn current_op(_: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    if cx.namespace.database() != "admin" {
        bail!(
            Code::INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {{aggregate: 1}}"
        );
    }
    bail!(
        Code::COMMAND_NOT_SUPPORTED,
        "$currentOp is not supported as a stage by this server; use the currentOp command"
    );
}

fn list_local_sessions(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(
        Code::INVALID_NAMESPACE,
        "$listLocalSessions must be run against the database with {{aggregate: 1}}, not a collection"
    );
}

fn query_settings(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::INVALID_NAMESPACE, "'$querySettings' can only be run with {{aggregate: 1}}");
}

fn list_sessions(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::INVALID_NAMESPACE, "$listSessions may only be run against config.system.sessions");
}
