//! `commitTransaction` and `abortTransaction`: a standalone has no transactions over several commands.

use crate::command::prelude::*;

pub(in crate::commands) static COMMIT_TRANSACTION: Command = Command {
    name: "commitTransaction",
    help: "Commits a transaction of a session.",
    admin_only: true,
    write: true,
    api_v1: true,
    run: refuse,
    ..Command::ROW
};

pub(in crate::commands) static ABORT_TRANSACTION: Command = Command {
    name: "abortTransaction",
    help: "Aborts a transaction of a session.",
    admin_only: true,
    write: true,
    api_v1: true,
    run: refuse,
    ..Command::ROW
};

/// A transaction number never comes this far: dispatch refuses it on a standalone.
fn refuse(_: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    bail!(Code::COMMAND_FAILED, "{} must be run within a transaction", req.command.name)
}
