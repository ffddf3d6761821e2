//! `setIndexCommitQuorum`: the number of members that an index build in progress waits for. There is one
//! member.

use crate::commands::common::{namespace, refuse_view};
use crate::core::command::prelude::*;

pub(in crate::commands) static SET_INDEX_COMMIT_QUORUM: Command = Command {
    facts: Facts {
        name: "setIndexCommitQuorum",
        help: "Sets how many members a running index build waits for.",
        admin_only: false,
        write: true,
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::CreateIndex]),
    run,
    ..Command::ROW
};

args! { "setIndexCommitQuorum" => Args {
    collection: Name<'a>  = "setIndexCommitQuorum",
    names:      Array<'a> = "indexNames",
    quorum:     Value<'a> = "commitQuorum",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    check_quorum(args.quorum)?;
    refuse_view(cx, &ns)?;
    let Some(collection) = cx.store().collection(&ns) else {
        bail!(Code::NAMESPACE_NOT_FOUND, "A collection '{ns}' does not exist.");
    };
    let being_built = |name: Value<'_>| {
        let index = name.as_str().and_then(|name| collection.index(name));
        index.is_some_and(|index| !index.ready)
    };
    if args.names.is_empty() || !args.names.iter().all(being_built) {
        bail!(
            Code::INDEX_NOT_FOUND,
            "Cannot find an index build on collection '{ns}' with the provided index names"
        );
    }
    Ok(())
}

/// Refuses a quorum that one member cannot satisfy (100).
pub(super) fn check_quorum(quorum: Value<'_>) -> Result<()> {
    match quorum {
        Value::String("majority" | "votingMembers") => Ok(()),
        Value::String(tag) => bail!(
            Code::UNKNOWN_REPL_WRITE_CONCERN,
            "No write concern mode named '{tag}' found in replica set configuration"
        ),
        value => match crate::number::truncate(value) {
            Some(0 | 1) => Ok(()),
            Some(_) => bail!(
                Code::UNSATISFIABLE_COMMIT_QUORUM,
                "Commit quorum cannot be satisfied with the current replica set configuration"
            ),
            None => bail!(
                Code::IDL_FAILED_TO_PARSE,
                "BSON field 'setIndexCommitQuorum.commitQuorum' is missing but a required field"
            ),
        },
    }
}
