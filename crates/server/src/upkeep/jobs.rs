//! Background jobs: close unused cursors, end sessions, abort old transactions, delete expired documents, compact.
//!
//! Each job has its own thread. The thread holds a strong reference to the server only while it works, so the threads
//! do not keep a dropped server alive.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nagi_bson::DocBuf;
use nagi_error::Code;

use crate::clock;
use crate::core::server::Server;
use crate::fsync::Writer;
use crate::interruption::interruption;
use crate::logging::set_log_context;
use crate::replica::ReplicaSet;
use crate::upkeep::pace::Pace;

/// The work of a job; returns the pause until the next call.
pub(crate) type Work = fn(&Arc<Server>) -> Duration;

/// Starts the background threads of a server.
pub(crate) fn spawn(server: &Arc<Server>) {
    start(server, "clientcursormon", reap);
    start(server, "TTLMonitor", expire);
    start(server, "autoCompact", crate::upkeep::compaction::pass);
    if server.auth.directory.directory().is_some() {
        start(server, "LDAPCachePoller", refresh_directory);
    }
    if server.is_replicated() {
        start(server, "transactionReaper", reap_transactions);
    }
    if server.replica.is_some() {
        start(server, "OplogTruncaterThread", trim_oplog);
        start(server, "changeStreamFeed", refresh_feed);
    }
}

impl Server {
    /// Waits for the threads of the background jobs after [`Server::stop`], and ends idle threads of parallel scans.
    pub fn join_jobs(&self) {
        let threads = std::mem::take(&mut *self.upkeep.threads.lock());
        for thread in threads {
            // A panic of a job was already reported.
            let _ = thread.join();
        }
        nagi_query::end_idle_workers();
    }
}

/// Starts a thread that works until the server stops.
pub(crate) fn start(server: &Arc<Server>, name: &'static str, work: Work) {
    let weak: Weak<Server> = Arc::downgrade(server);
    let signal = server.upkeep.signal.clone();
    let body = move || {
        set_log_context(name);
        let mut pause = Duration::from_secs(1);
        while !signal.wait(pause) {
            let Some(server) = weak.upgrade() else { return };
            pause = work(&server);
        }
    };
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
    match builder.spawn(body) {
        Ok(thread) => server.upkeep.threads.lock().push(thread),
        Err(error) => log::warn!(target: "CONTROL", id = 9_000_010, thread = name,
            error = error.to_string(); "Cannot start a background thread"),
    }
}

/// Closes cursors and ends sessions that have been unused for too long.
fn reap(server: &Arc<Server>) -> Duration {
    let now = clock::wall_ms();
    let timeout = server.settings.params.int("cursorTimeoutMillis");
    let ended = server.clients.cursors.expire(now - timeout);
    if ended > 0 {
        server.metrics.cursors_timed_out.add(ended as u64);
        log::info!(target: "QUERY", id = 20529, cursorCount = ended; "Cursors timed out");
    }
    server.upkeep.backups.expire(now);
    server.upkeep.memory_line.lock().log_if_due(&server.store, now);
    let session_ms = server.settings.params.int("localLogicalSessionTimeoutMinutes") * 60_000;
    let (began, mut sessions, mut cursors) = (clock::now(), 0, 0);
    for session in server.clients.sessions.expire(now - session_ms) {
        server.clients.txn_sessions.end(&session);
        cursors += server.clients.cursors.end_session(&session);
        sessions += 1;
    }
    server.metrics.session_jobs.ends.note(began, sessions, cursors);
    Duration::from_secs(server.settings.params.int("clientCursorMonitorFrequencySecs").max(1) as u64)
}

/// Aborts transactions and drops snapshots that have lived too long, deletes the records of sessions that no longer
/// exist, and makes a member primary again whose step-down time has passed.
fn reap_transactions(server: &Arc<Server>) -> Duration {
    let limit = server.settings.params.int("transactionLifetimeLimitSeconds").max(1) as u64;
    if let Some(begun_before) = clock::now().checked_sub(Duration::from_secs(limit)) {
        let ended = server.clients.txn_sessions.expire(begun_before);
        if ended > 0 {
            log::info!(target: "TXN", id = 22778, count = ended;
                "Aborting expired transactions");
        }
    }
    let window = server.settings.params.int("minSnapshotHistoryWindowInSeconds").max(1) as u64;
    server.clients.snapshots.expire(Duration::from_secs(window));
    // What writes comes after the lock of `fsync`.
    let writes = !server.upkeep.fsync.is_stopped(Writer::New);
    let due = |replica: &&ReplicaSet| writes && replica.is_to_step_up();
    if let Some(replica) = server.replica.as_ref().filter(due) {
        match replica.step_up_if_due() {
            Ok(true) => server.identity.topology.advance(),
            Ok(false) => {}
            Err(error) => log::warn!(target: "REPL", id = 21_333, error = error.message();
                "Cannot become primary again"),
        }
    }
    let now = clock::wall_ms();
    let every = server.settings.params.int("logicalSessionRefreshMillis");
    let last = server.upkeep.records_swept_ms.load(std::sync::atomic::Ordering::Relaxed);
    // The records of sessions are those of all nodes.
    if writes && now - last >= every && server.store.does_work_for_all() {
        server.upkeep.records_swept_ms.store(now, std::sync::atomic::Ordering::Relaxed);
        let before = now - server.settings.params.int("localLogicalSessionTimeoutMinutes") * 60_000;
        let is_live = |id: &crate::session::SessionId| server.clients.sessions.is_known(id);
        let began = clock::now();
        match crate::core::txn_number::sweep_records(&server.store, before, &is_live) {
            Ok(removed) => server.metrics.session_jobs.reaps.note(began, removed, 0),
            Err(error) => log::warn!(target: "CONTROL", id = 20711, error = error.message();
                "Failed to reap transaction table"),
        }
    }
    Duration::from_secs(1)
}

/// Reads the groups of the directory's users again. The interval may change, so it is compared every second.
fn refresh_directory(server: &Arc<Server>) -> Duration {
    if let Some(directory) = server.auth.directory.directory() {
        directory.close_unused();
    }
    if server.auth.directory.pass(&|| server.is_stopping()) {
        server.auth.changed();
    }
    Duration::from_secs(1)
}

/// Removes the oldest entries of the oplog beyond its size. Returns soon if there are more.
fn trim_oplog(server: &Arc<Server>) -> Duration {
    let Some(replica) = &server.replica else { return Duration::from_secs(60) };
    let go_on = &mut || match server.is_stopping() {
        true => Err(interruption(Code::INTERRUPTED_AT_SHUTDOWN)),
        false => Ok(()),
    };
    let began = clock::now();
    match server.store.trim_change_log(replica.oplog.kept_since(), go_on) {
        Ok(None) => {}
        Ok(Some(trimmed)) => {
            server.metrics.oplog_truncations.increment();
            let removed_to = (trimmed.up_to.0 >> 32) as i64;
            server.metrics.oplog_removed_to_secs.fetch_max(removed_to, Relaxed);
            server.metrics.oplog_truncation_micros.add(clock::micros_since(began));
            log::debug!(target: "STORAGE", id = 7_421_700, documents = trimmed.documents,
                bytes = trimmed.bytes; "Truncated the oplog");
            return Duration::from_millis(100);
        }
        Err(error) => log::warn!(target: "STORAGE", id = 5_296_101, error = error.message();
            "Cannot truncate the oplog; the next pass tries it again"),
    }
    Duration::from_secs(1)
}

/// Reads the newest entries of the oplog for change streams that wait.
fn refresh_feed(server: &Arc<Server>) -> Duration {
    let check = &mut || match server.is_stopping() {
        true => Err(interruption(Code::INTERRUPTED_AT_SHUTDOWN)),
        false => Ok(()),
    };
    if let Err(error) = server.store.refresh_feed(check)
        && !server.is_stopping()
    {
        log::debug!(target: "QUERY", id = 8_200_055, error = error.message();
            "Change streams: cannot read ahead; they read the oplog themselves");
    }
    Duration::from_secs(1)
}

/// Deletes expired documents once `ttlMonitorSleepSecs` have passed since the last pass. It is called every second, so
/// a new value of the parameter takes effect immediately.
fn expire(server: &Arc<Server>) -> Duration {
    let every_ms = server.settings.params.int("ttlMonitorSleepSecs").max(1) * 1000;
    let now_ms = clock::wall_ms();
    let due =
        now_ms - server.upkeep.ttl_last_ms.load(std::sync::atomic::Ordering::Relaxed) >= every_ms;
    if due
        && server.settings.params.bool("ttlMonitorEnabled")
        && !server.settings.write_block.is_on()
        && !server.upkeep.fsync.is_stopped(Writer::New)
    {
        server.upkeep.ttl_last_ms.store(now_ms, std::sync::atomic::Ordering::Relaxed);
        delete_expired(server);
    }
    Duration::from_secs(1)
}

/// Runs one pass over the TTL indexes. It is an operation of its own, so currentOp shows it and killOp cancels it.
fn delete_expired(server: &Arc<Server>) {
    let signal = &server.upkeep.signal;
    let pace = Pace::new(&server.metrics);
    let op = server.new_op("TTLMonitor".to_owned(), 0, String::new());
    let command = DocBuf::build(|w| w.put("ttlPass", 1));
    op.begin(server.clients.ops.next_id(), clock::now(), "command", command.as_doc());
    let lock = &server.upkeep.fsync;
    let stop = || {
        pace.rest();
        match (signal.is_over(), lock.is_stopped(Writer::New)) {
            (true, _) => Err(interruption(Code::INTERRUPTED_AT_SHUTDOWN)),
            // The rest is deleted after it.
            (_, true) => Err(interruption(Code::INTERRUPTED)),
            _ => op.check(),
        }
    };
    server.metrics.ttl_passes.increment();
    let deleted = server.store.expire(clock::wall_ms(), &stop);
    op.end();
    server.clients.ops.forget(&op);
    match deleted {
        Ok(deleted) => server.metrics.ttl_deleted.add(deleted),
        Err(_) if lock.is_stopped(Writer::New) => {}
        Err(error) => {
            log::warn!(target: "INDEX", id = 22_540, error = error.message(); "Error in TTL pass");
        }
    }
}
