//! The commands on search indexes. They report that the server has no search engine (31082), as MongoDB's
//! Community edition does.

use crate::core::command::prelude::*;

const fn row(name: &'static str, help: &'static str, needs: &'static [Action]) -> Command {
    Command {
        facts: Facts { name, help, on_collection: true, ..Facts::ROW },
        access: Access::Collection(needs),
        run,
        ..Command::ROW
    }
}

pub(in crate::commands) static CREATE_SEARCH_INDEXES: Command = row(
    "createSearchIndexes",
    "Creates search indexes; an error on a server without a search engine.",
    &[Action::CreateSearchIndexes],
);
pub(in crate::commands) static DROP_SEARCH_INDEX: Command = row(
    "dropSearchIndex",
    "Drops a search index; an error on a server without a search engine.",
    &[Action::DropSearchIndex],
);
pub(in crate::commands) static LIST_SEARCH_INDEXES: Command = row(
    "listSearchIndexes",
    "Lists search indexes; an error on a server without a search engine.",
    &[Action::ListSearchIndexes],
);
pub(in crate::commands) static UPDATE_SEARCH_INDEX: Command = row(
    "updateSearchIndex",
    "Changes a search index; an error on a server without a search engine.",
    &[Action::UpdateSearchIndex],
);

fn run(_: &mut Context<'_>, _: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    bail!(Code::SEARCH_NOT_ENABLED, "{}", nagi_query::SEARCH_INDEXES_NOT_ENABLED)
}
