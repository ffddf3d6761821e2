//! `commitTransaction` and `abortTransaction`: finish the transaction of a session.

use nagi_store::Durability;

use crate::core::command::prelude::*;
use crate::core::txn_number;
use crate::fsync::Writer;

pub(in crate::commands) static COMMIT_TRANSACTION: Command = Command {
    facts: Facts {
        name: "commitTransaction",
        help: "Commits a transaction of a session.",
        admin_only: true,
        write: true,
        api_v1: true,
        in_transaction: true,
        ends_transaction: true,
        begins_no_transaction: "Cannot start a transaction with a commit",
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run: commit,
    ..Command::ROW
};

pub(in crate::commands) static ABORT_TRANSACTION: Command = Command {
    facts: Facts {
        name: "abortTransaction",
        help: "Aborts a transaction of a session.",
        admin_only: true,
        write: true,
        api_v1: true,
        in_transaction: true,
        ends_transaction: true,
        begins_no_transaction: "Cannot start a transaction with an abort",
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run: abort,
    ..Command::ROW
};

args! { "commitTransaction" => Args {
    commit:         Value<'a>       = "commitTransaction",
    abort:          Value<'a>       = "abortTransaction",
    recovery_token: Option<Doc<'a>> = "recoveryToken",
    timestamp:      Value<'a>       = "commitTimestamp",
}}

fn commit(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    check_within(req)?;
    cx.writer = Writer::OpenTransaction;
    let _writing = cx.begin_write("admin")?;
    let durability = match cx.write_concern(req).is_synced() {
        true => Durability::Synced,
        false => Durability::Buffered,
    };
    txn_number::commit(cx, durability, args.recovery_token)
}

fn abort(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    check_within(req)?;
    txn_number::abort(cx)
}

fn check_within(req: &Request<'_>) -> Result<()> {
    if req.generic.transaction().is_none() {
        bail!(Code::COMMAND_FAILED, "{} must be run within a transaction", req.command.name);
    }
    Ok(())
}
