//! Background work: unused cursors and sessions, expired documents.
//!
//! One thread a kind of work. A thread holds the server only while it works, so a server that is
//! dropped ends it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nagi_bson::DocBuf;
use nagi_error::Code;
use parking_lot::{Condvar, Mutex};

use crate::clock;
use crate::logging::set_log_context;
use crate::op::interruption;
use crate::pace::Pace;
use crate::server::Server;

/// Tells background threads that the server is gone.
#[derive(Default)]
pub(crate) struct Signal {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Ends the background threads.
    pub(crate) fn end(&self) {
        *self.over.lock() = true;
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Waits; whether the threads shall end.
    fn wait(&self, time: Duration) -> bool {
        let mut over = self.over.lock();
        if !*over {
            self.changed.wait_for(&mut over, time);
        }
        *over
    }
}

/// One kind of work: does it, and says how long to pause.
type Work = fn(&Arc<Server>) -> Duration;

/// Starts the background threads of a server.
pub(crate) fn spawn(server: &Arc<Server>) {
    start(server, "clientcursormon", reap);
    start(server, "TTLMonitor", expire);
    start(server, "autoCompact", crate::compaction::pass);
    if server.replica.is_some() {
        start(server, "transactionReaper", reap_transactions);
    }
}

fn start(server: &Arc<Server>, name: &'static str, work: Work) {
    let weak: Weak<Server> = Arc::downgrade(server);
    let signal = server.signal.clone();
    let body = move || {
        set_log_context(name);
        let mut pause = Duration::from_secs(1);
        while !signal.wait(pause) {
            let Some(server) = weak.upgrade() else { return };
            pause = work(&server);
        }
    };
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
    if let Err(error) = builder.spawn(body) {
        log::warn!(target: "CONTROL", id = 9_000_010, thread = name, error = error.to_string();
            "Cannot start a background thread");
    }
}

/// Ends cursors and sessions that were not used for too long.
fn reap(server: &Arc<Server>) -> Duration {
    let now = clock::wall_ms();
    let timeout = server.params.int("cursorTimeoutMillis");
    let ended = server.cursors.expire(now - timeout);
    if ended > 0 {
        server.metrics.cursors_timed_out.add(ended as u64);
        log::info!(target: "QUERY", id = 20529, cursorCount = ended; "Cursors timed out");
    }
    server.backups.expire(now);
    let session_ms = server.params.int("localLogicalSessionTimeoutMinutes") * 60_000;
    for session in server.sessions.expire(now - session_ms) {
        server.numbered.end(&session);
        server.cursors.end_session(&session);
    }
    Duration::from_secs(server.params.int("clientCursorMonitorFrequencySecs").max(1) as u64)
}

/// Ends transactions and states of snapshot reads that live too long, and forgets the records of
/// sessions that are gone; ends the time of a member that has stepped down.
fn reap_transactions(server: &Arc<Server>) -> Duration {
    let limit = server.params.int("transactionLifetimeLimitSeconds").max(1) as u64;
    if let Some(begun_before) = clock::now().checked_sub(Duration::from_secs(limit)) {
        let ended = server.numbered.expire(begun_before);
        if ended > 0 {
            log::info!(target: "TXN", id = 22778, count = ended;
                "Aborting expired transactions");
        }
    }
    let window = server.params.int("minSnapshotHistoryWindowInSeconds").max(1) as u64;
    server.snapshots.expire(Duration::from_secs(window));
    if let Some(replica) = server.replica.as_ref().filter(|replica| replica.is_to_step_up()) {
        match replica.step_up() {
            Ok(()) => server.topology.advance(),
            Err(error) => log::warn!(target: "REPL", id = 21_333, error = error.message();
                "Cannot become primary again"),
        }
    }
    let now = clock::wall_ms();
    let every = server.params.int("logicalSessionRefreshMillis");
    let last = server.records_swept_ms.load(std::sync::atomic::Ordering::Relaxed);
    if now - last >= every {
        server.records_swept_ms.store(now, std::sync::atomic::Ordering::Relaxed);
        let before = now - server.params.int("localLogicalSessionTimeoutMinutes") * 60_000;
        let is_live = |id: &crate::session::SessionId| server.sessions.is_known(id);
        if let Err(error) = crate::numbered::sweep_records(&server.store, before, &is_live) {
            log::warn!(target: "CONTROL", id = 20711, error = error.message();
                "Failed to reap transaction table");
        }
    }
    Duration::from_secs(1)
}

/// Deletes expired documents once `ttlMonitorSleepSecs` have passed since the pass before. Looks every
/// second, so that a new value of the parameter counts at once.
fn expire(server: &Arc<Server>) -> Duration {
    let every_ms = server.params.int("ttlMonitorSleepSecs").max(1) * 1000;
    let now_ms = clock::wall_ms();
    let due = now_ms - server.ttl_last_ms.load(std::sync::atomic::Ordering::Relaxed) >= every_ms;
    if due && server.params.bool("ttlMonitorEnabled") && !server.write_block.is_on() {
        server.ttl_last_ms.store(now_ms, std::sync::atomic::Ordering::Relaxed);
        delete_expired(server);
    }
    Duration::from_secs(1)
}

/// One pass over the TTL indexes: an operation of its own, so that currentOp shows it and killOp ends it.
fn delete_expired(server: &Arc<Server>) {
    let signal = &server.signal;
    let pace = Pace::new(&server.metrics);
    let op = server.new_op("TTLMonitor".to_owned(), 0, String::new());
    let command = DocBuf::build(|w| w.put("ttlPass", 1));
    op.begin(server.ops.next_id(), clock::now(), "command", command.as_doc());
    let stop = || {
        pace.rest();
        match signal.is_over() {
            true => Err(interruption(Code::INTERRUPTED_AT_SHUTDOWN)),
            false => op.check(),
        }
    };
    server.metrics.ttl_passes.increment();
    let deleted = server.store.expire(clock::wall_ms(), &stop);
    op.end();
    server.ops.forget(&op);
    match deleted {
        Ok(deleted) => server.metrics.ttl_deleted.add(deleted),
        Err(error) => {
            log::warn!(target: "INDEX", id = 22_540, error = error.message(); "Error in TTL pass");
        }
    }
}
