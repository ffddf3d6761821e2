//! `fsync` and `fsyncUnlock`: make all data durable; with `lock`, block writes until they are unlocked.

use std::time::Duration;

use crate::core::command::prelude::*;
use crate::metrics::locks::LockMode;

/// How long `fsync` waits for the lock by default.
const WAIT_MS: i64 = 90_000;

pub(in crate::commands) static FSYNC: Command = Command {
    facts: Facts {
        name: "fsync",
        help: "Writes all data to disk; with lock, blocks writes until fsyncUnlock.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::Fsync]),
    run,
    ..Command::ROW
};

pub(in crate::commands) static FSYNC_UNLOCK: Command = Command {
    facts: Facts {
        name: "fsyncUnlock",
        help: "Allows writes again after fsync with lock.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::Unlock]),
    run: unlock,
    ..Command::ROW
};

args! { "fsync" => Args {
    one:        Value<'a>   = "fsync",
    lock:       Option<bool> = "lock",
    timeout_ms: Option<NonNegative> = "fsyncLockAcquisitionTimeoutMillis",
    no_async:   Option<bool> = "async",
    for_backup: Option<bool> = "forBackup",
    allow_failure: Option<bool> = "allowFsyncFailure",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.lock != Some(true) {
        cx.store().flush()?;
        out.put("numFiles", 1);
        return Ok(());
    }
    let wait = Duration::from_millis(args.timeout_ms.map_or(WAIT_MS, |ms| ms.0) as u64);
    let until = crate::clock::now() + wait;
    let mut watch = || match crate::clock::now() > until {
        true => bail!(
            Code::LOCK_TIMEOUT,
            "Fsync lock timed out after {} milliseconds",
            wait.as_millis()
        ),
        false => cx.check(),
    };
    // Writes are stopped before the engine holds its files, so that the log contains the newest writes.
    cx.op.set_waiting_for_lock(Some((LockMode::Exclusive, crate::clock::now())));
    let locked = cx.server.upkeep.fsync.lock(&mut watch);
    cx.op.set_waiting_for_lock(None);
    let count = locked?;
    cx.server.metrics.locks.exclusive_count.increment();
    let held = settle_files(cx, &mut watch).and_then(|()| {
        cx.store().flush().or_else(|error| match args.allow_failure {
            Some(true) => Ok(()),
            _ => Err(error),
        })
    });
    if let Err(error) = held {
        // This error is more informative than one of the release.
        let _ = unlock_once(cx);
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
    let count = unlock_once(cx)?;
    out.put("info", "fsyncUnlock completed");
    out.put("lockCount", count);
    Ok(())
}

fn unlock_once(cx: &Context<'_>) -> Result<i64> {
    let Some(count) = cx.server.upkeep.fsync.unlock() else {
        bail!(Code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked");
    };
    log::info!(target: "COMMAND", id = 8_200_400, lockCount = count;
        "fsyncUnlock completed: the server accepts writes again once lockCount is 0");
    settle_files(cx, &mut || Ok(()))?;
    Ok(count)
}

/// Holds the engine's files while there is a lock, and releases them with the last one.
fn settle_files(cx: &Context<'_>, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let store = cx.store();
    cx.server.upkeep.fsync.settle_files(check, &mut |held, check| match held {
        true => store.hold_files(check),
        false => store.release_files(),
    })
}
