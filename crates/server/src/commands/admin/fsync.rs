//! `fsync` and `fsyncUnlock`: everything to disk, and no write until unlocked.

use crate::command::prelude::*;

pub(in crate::commands) static FSYNC: Command = Command {
    name: "fsync",
    help: "Writes everything to disk; with lock, holds writes until fsyncUnlock.",
    access: Access::Cluster(&[Action::Fsync]),
    admin_only: true,
    run,
    ..Command::ROW
};

pub(in crate::commands) static FSYNC_UNLOCK: Command = Command {
    name: "fsyncUnlock",
    help: "Lets writes go on after fsync with lock.",
    access: Access::Cluster(&[Action::Unlock]),
    admin_only: true,
    run: unlock,
    ..Command::ROW
};

args! { "fsync" => Args {
    one:        Value<'a>   = "fsync",
    lock:       Value<'a>   = "lock",
    timeout_ms: Option<i64> = "fsyncLockAcquisitionTimeoutMillis",
    no_async:   Value<'a>   = "async",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if !args.lock.is_truthy() {
        cx.store().flush()?;
        out.put("numFiles", 1);
        return Ok(());
    }
    let count = cx.server.fsync.lock();
    if let Err(error) = cx.store().flush() {
        cx.server.fsync.unlock();
        return Err(error);
    }
    log::warn!(target: "COMMAND", id = 20_469, lockCount = count;
        "Server is now locked for writes; use db.fsyncUnlock() to unlock");
    out.put("info", "now locked against writes, use db.fsyncUnlock() to unlock");
    out.put("lockCount", count);
    out.put("seeAlso", "http://dochub.mongodb.org/core/fsynccommand");
    Ok(())
}

fn unlock(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let Some(count) = cx.server.fsync.unlock() else {
        bail!(Code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked");
    };
    out.put("info", "fsyncUnlock completed");
    out.put("lockCount", count);
    Ok(())
}
