//! `fsync` and `fsyncUnlock`: make all data durable; with `lock`, block writes until they are unlocked.
//!
//! What waits for the disk runs on other threads (`rounds`), so that a command can be interrupted in every wait.

use std::sync::Arc;
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
        sync(cx, &mut || cx.check())?;
        out.put("numFiles", 1);
        return Ok(());
    }
    // Without its client it would stay locked.
    cx.end_with_client();
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
    let fsync = &cx.server.upkeep.fsync;
    cx.op.set_waiting_for_lock(Some((LockMode::Exclusive, crate::clock::now())));
    let stopped = fsync.stop_writes(&mut watch);
    cx.op.set_waiting_for_lock(None);
    let pending = stopped?;
    cx.server.metrics.locks.exclusive_count.increment();
    let secured = secure(cx, &mut watch, args.allow_failure == Some(true));
    // A failed one is dropped before the files are released.
    let count = match secured.and_then(|()| pending.lock()) {
        Ok(count) => count,
        Err(error) => {
            release_files_later(cx);
            return Err(error);
        }
    };
    log::warn!(target: "COMMAND", id = 20_469, lockCount = count;
        "Server is now locked for writes; use db.fsyncUnlock() to unlock");
    out.put("info", "now locked against writes, use db.fsyncUnlock() to unlock");
    out.put("lockCount", count);
    out.put("seeAlso", "http://dochub.mongodb.org/core/fsynccommand");
    Ok(())
}

fn unlock(cx: &mut Context<'_>, _: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    // A lock that its command still waits for is not counted, as in MongoDB's manual, so it is not unlocked either:
    // its command would be answered as locked. `killOp` ends it.
    let fsync = &cx.server.upkeep.fsync;
    let Some(count) = fsync.unlock() else {
        bail!(Code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked");
    };
    log::info!(target: "COMMAND", id = 8_200_400, lockCount = count;
        "fsyncUnlock completed: the server accepts writes again once lockCount is 0");
    match settle_files(cx, &mut || cx.check()) {
        // When it is interrupted, the files follow once the disk lets them: an error would say that there still is a
        // lock.
        Err(error) if cx.check().is_ok() && fsync.holds_files_in_vain() => return Err(error),
        _ => {}
    }
    out.put("info", "fsyncUnlock completed");
    out.put("lockCount", count);
    Ok(())
}

/// Waits until the disk has all that was written, and nothing in the engine's files changes.
fn secure(
    cx: &Context<'_>,
    watch: &mut dyn FnMut() -> Result<()>,
    allow_failure: bool,
) -> Result<()> {
    settle_files(cx, watch)?;
    match sync(cx, watch) {
        Err(error) if allow_failure && watch().is_ok() => {
            log::warn!(target: "COMMAND", id = 8_200_415, error = error.message();
                "The log could not be synced for the fsync lock, which allows that");
            Ok(())
        }
        done => done,
    }
}

/// Syncs the log; `check` is the interrupt check of the wait.
fn sync(cx: &Context<'_>, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let store = Arc::clone(&cx.server.store);
    cx.server.upkeep.sync_rounds.run(check, move || store.flush())
}

/// Holds the engine's files while there is a lock or one is pending, and releases them with the last one.
fn settle_files(cx: &Context<'_>, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let (store, lock) = (Arc::clone(&cx.server.store), Arc::clone(&cx.server.upkeep.fsync));
    cx.server.upkeep.file_rounds.run(check, move || {
        lock.settle_files(|held, check| match held {
            true => store.hold_files(check),
            false => store.release_files(),
        })
    })
}

/// Releases the files once the disk lets them, unless there is another lock by then.
fn release_files_later(cx: &Context<'_>) {
    let at_once = || bail!(Code::INTERRUPTED, "no command waits for it");
    // The caller's error is more informative than one of the release.
    let _ = settle_files(cx, &mut || at_once());
}
