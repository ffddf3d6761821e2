//! Compaction returns free space to the file system: `compact` on request, `autoCompact` in the background.
//!
//! Each collection has at most one compaction at a time. A pass of the background job checks every collection and
//! rewrites those that would free at least the target. The pass is an operation of its own, so currentOp shows it and
//! killOp cancels it. A collection that failed is skipped for a day.

use std::sync::Arc;
use std::time::Duration;

use nagi_bson::DocBuf;
use nagi_error::{Code, Result};
use nagi_query::Interrupt as _;
use nagi_store::Collection;

use crate::clock;
use crate::compactions::Background;
use crate::core::command::Watch;
use crate::core::server::Server;
use crate::interruption::interruption;
use crate::op::Op;
use crate::upkeep::pace::Pace;

/// The default of the space that a compaction must be expected to free.
pub(crate) const TARGET_MB: i64 = 20;
/// The interval of background passes.
const PASS_EACH_MS: i64 = 60_000;
const RETRY_AFTER_MS: i64 = 24 * 60 * 60 * 1000;
const PROGRESS_EACH_MS: i64 = 3000;

/// Rewrites a collection and returns the freed bytes. `op` shows the progress.
pub(crate) fn compact(
    server: &Server,
    op: &Op,
    collection: &Collection,
    check: &dyn Fn() -> Result<()>,
) -> Result<i64> {
    let namespace = &collection.namespace;
    let _claim = server.upkeep.compactions.claim(namespace)?;
    log::info!(target: "COMMAND", id = 20284, namespace = namespace.as_str(); "Compact begin");
    let before = total_bytes(server, collection)?;
    let pace = Pace::new(&server.metrics);
    let mut told_ms = clock::wall_ms();
    let result = server.store.compact(collection, &mut |done, total| {
        op.set_progress("Compact", done as i64, total as i64);
        let now_ms = clock::wall_ms();
        if now_ms - told_ms >= PROGRESS_EACH_MS {
            told_ms = now_ms;
            log::info!(target: "COMMAND", id = 9_000_030, namespace = namespace.as_str(),
                bytesDone = done, bytesTotal = total; "Compact progress");
        }
        pace.rest();
        check()
    });
    let freed = (before - total_bytes(server, collection)?).max(0);
    match result {
        Ok(()) => {
            log::info!(target: "COMMAND", id = 20286, namespace = namespace.as_str(),
                freedBytes = freed; "Compact end");
            Ok(freed)
        }
        Err(error) => {
            log::info!(target: "COMMAND", id = 9_000_031, namespace = namespace.as_str(),
                freedBytes = freed, error = error.message(); "Compaction stopped early");
            Err(error)
        }
    }
}

fn total_bytes(server: &Server, collection: &Collection) -> Result<i64> {
    let stats = server.store.stats(collection)?;
    Ok(stats.storage_bytes + stats.indexes_bytes())
}

/// An estimate of the bytes that compacting would free.
pub(crate) fn free_bytes(server: &Server, collection: &Collection) -> Result<i64> {
    let stats = server.store.stats(collection)?;
    Ok(stats.free_bytes + stats.indexes_free_bytes())
}

/// The background job: runs a pass if one is due, and returns the pause until the next call.
pub(crate) fn pass(server: &Arc<Server>) -> Duration {
    let now_ms = clock::wall_ms();
    let (background, generation) = {
        let state = server.upkeep.compactions.0.lock();
        match state.background {
            Some(background) if now_ms >= state.next_pass_ms => (background, state.generation),
            _ => return Duration::from_secs(1),
        }
    };
    let op = server.new_op("autoCompact".to_owned(), 0, String::new());
    let command = DocBuf::build(|w| {
        w.put("autoCompact", true);
        w.put("freeSpaceTargetMB", background.target_mb);
    });
    op.begin(server.clients.ops.next_id(), clock::now(), "command", command.as_doc());
    let freed = compact_all(server, &op, background, generation);
    op.end();
    server.clients.ops.forget(&op);
    if freed > 0 {
        log::info!(target: "COMMAND", id = 9_000_032, freedBytes = freed;
            "Background compaction pass finished");
    }
    let mut state = server.upkeep.compactions.0.lock();
    if state.generation == generation {
        state.next_pass_ms = clock::wall_ms() + PASS_EACH_MS;
        if background.once {
            state.background = None;
        }
    }
    Duration::from_secs(1)
}

fn compact_all(server: &Arc<Server>, op: &Arc<Op>, background: Background, generation: u64) -> i64 {
    let mut freed = 0;
    let check = || {
        if server.upkeep.compactions.generation() != generation {
            return Err(interruption(Code::INTERRUPTED));
        }
        Watch::new(op, None).check()
    };
    for collection in server.store.catalog().iter().filter(|one| !one.is_view()) {
        if check().is_err() {
            break;
        }
        let key = collection.uuid.0;
        let retry_ms = server.upkeep.compactions.0.lock().failed.get(&key).copied().unwrap_or(0);
        let target_bytes = background.target_mb.saturating_mul(1 << 20);
        let worth_it = |bytes: i64| bytes >= target_bytes;
        if clock::wall_ms() < retry_ms || !free_bytes(server, collection).is_ok_and(worth_it) {
            continue;
        }
        op.set_namespace(collection.namespace.database(), collection.namespace.collection());
        match compact(server, op, collection, &check) {
            Ok(bytes) => freed += bytes,
            Err(_) if check().is_err() => break,
            Err(error) => {
                log::warn!(target: "COMMAND", id = 9_000_033, error = error.message(),
                    namespace = collection.namespace.as_str();
                    "Background compaction skips a collection for a day");
                let until_ms = clock::wall_ms() + RETRY_AFTER_MS;
                server.upkeep.compactions.0.lock().failed.insert(key, until_ms);
            }
        }
    }
    freed
}
