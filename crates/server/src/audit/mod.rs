//! The audit log: messages about logins, changes of users, roles and collections, and refused commands.
//!
//! ```text
//!   request --> message --> filter --> queue (bounded) --> thread "audit" --> file, system's log or standard output
//! ```
//!
//! The messages are made by `core::audited` and `observe::audited`, which know connections and requests. This module
//! filters, queues and writes them.
//!
//! Invariants
//! - A request waits at most for a bounded time for room in the queue, and holds no ticket while it waits.
//! - A message that is not written is counted, and the server's log tells so.
//! - A message in the queue survives an error of the disk: the thread repeats the write until it succeeds.

mod ocsf;
mod options;
mod queue;
mod sink;
mod text;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, DocWriter};
use nagi_budget::{Budget, Charge, Pool};
use nagi_error::Result;
use nagi_lang::expr::{ParseCx, Vars};
use nagi_lang::filter::{Allowed, Filter, MatchCx};
use parking_lot::{Mutex, RwLock};

pub use options::{AuditDestination, AuditFormat, AuditOptions, check_audit_filter};

use self::queue::{Pushed, Queue};
use self::sink::Sink;
use crate::clock;
use crate::limits::AUDIT_QUEUE_BYTES_MAX;

/// The minimum time between two lines of the log about lost messages.
const TOLD_EVERY_MS: i64 = 10_000;

/// How long a rotation waits for the messages before it. A file that cannot be written must not prevent its rotation.
const ROTATION_WAIT_MAX: Duration = Duration::from_secs(1);

/// What is recorded: changed by `setAuditConfig`.
struct Rules {
    /// `None` if every message is recorded.
    filter: Option<Filter>,
    /// The filter as it was given.
    source: DocBuf,
    /// Also commands that were allowed, where the configuration at run time decides this.
    successes: bool,
}

/// The counters of `serverStatus`.
#[derive(Default)]
pub(crate) struct Counts {
    written: AtomicU64,
    written_bytes: AtomicU64,
    filtered: AtomicU64,
    /// Messages that were not recorded because the queue was full.
    dropped: AtomicU64,
    /// Messages that the destination cannot take, and those that were left in the queue at the end.
    failed: AtomicU64,
    write_errors: AtomicU64,
    waits: AtomicU64,
    wait_micros: AtomicU64,
}

/// The audit log of a server.
pub(crate) struct AuditLog {
    queue: Arc<Queue>,
    sink: Arc<Mutex<Sink>>,
    rules: RwLock<Arc<Rules>>,
    counts: Arc<Counts>,
    /// `setAuditConfig` may change what is recorded.
    runtime: bool,
    shutdown_told: AtomicBool,
    /// When the log told last that messages are lost.
    dropped_told_ms: AtomicI64,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The memory of the queue.
    _memory: Charge,
}

impl AuditLog {
    /// Opens the destination and starts the thread that writes.
    ///
    /// # Errors
    /// If the file or the socket cannot be opened, or no thread can be started.
    pub(crate) fn open(options: &AuditOptions, budget: &Arc<Budget>) -> io::Result<AuditLog> {
        AuditLog::with_sink(options, Sink::open(&options.destination)?, budget)
    }

    fn with_sink(options: &AuditOptions, sink: Sink, budget: &Arc<Budget>) -> io::Result<AuditLog> {
        // The whole queue at once: when it fills, the disk is slow, and nothing may then fail for want of memory.
        let mut memory = Charge::empty(budget, Pool::Audit);
        memory.force(AUDIT_QUEUE_BYTES_MAX as u64);
        let rules = rules(options.filter.as_doc(), false).map_err(io::Error::other)?;
        let log = AuditLog {
            queue: Arc::default(),
            sink: Arc::new(Mutex::new(sink)),
            rules: RwLock::new(Arc::new(rules)),
            counts: Arc::default(),
            runtime: options.runtime,
            shutdown_told: AtomicBool::new(false),
            dropped_told_ms: AtomicI64::new(0),
            thread: Mutex::default(),
            _memory: memory,
        };
        let writer = writer::Writer {
            queue: log.queue.clone(),
            sink: log.sink.clone(),
            counts: log.counts.clone(),
            encoding: text::Encoding::of(options),
        };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(|| writer.run())?;
        *log.thread.lock() = Some(thread);
        Ok(log)
    }

    /// True if `setAuditConfig` may change what is recorded.
    pub(crate) fn is_runtime(&self) -> bool {
        self.runtime
    }

    /// True if allowed commands are recorded too, where the configuration at run time decides this.
    pub(crate) fn wants_successes(&self) -> bool {
        self.rules.read().successes
    }

    /// Replaces the filter and the choice of [`AuditLog::wants_successes`].
    ///
    /// # Errors
    /// Those of the filter.
    pub(crate) fn configure(&self, filter: Doc<'_>, successes: bool) -> Result<()> {
        let rules = rules(filter, successes)?;
        *self.rules.write() = Arc::new(rules);
        Ok(())
    }

    /// The filter and the choice, as they are now.
    pub(crate) fn configuration(&self) -> (DocBuf, bool) {
        let rules = self.rules.read().clone();
        (rules.source.clone(), rules.successes)
    }

    /// Records a message, unless the filter excludes it. Waits up to `wait` for room in the queue; afterwards the
    /// message is counted as lost.
    pub(crate) fn record(&self, message: DocBuf, wait: Duration) {
        let rules = self.rules.read().clone();
        if !rules.includes(message.as_doc()) {
            self.counts.filtered.fetch_add(1, Relaxed);
            return;
        }
        let started = clock::now();
        let pushed = self.queue.push(message, wait);
        if pushed != Pushed::AtOnce && !wait.is_zero() {
            self.counts.waits.fetch_add(1, Relaxed);
            self.counts.wait_micros.fetch_add(clock::micros_since(started), Relaxed);
        }
        if matches!(pushed, Pushed::Refused | Pushed::Closed) {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
        if pushed == Pushed::Refused {
            self.tell_dropped();
        }
    }

    /// Logs that messages are lost, at most once in [`TOLD_EVERY_MS`].
    fn tell_dropped(&self) {
        let (now, told) = (clock::wall_ms(), self.dropped_told_ms.load(Relaxed));
        if (0..TOLD_EVERY_MS).contains(&(now - told))
            || self.dropped_told_ms.compare_exchange(told, now, Relaxed, Relaxed).is_err()
        {
            return;
        }
        log::error!(target: "ACCESS", id = 9_000_170, dropped = self.counts.dropped.load(Relaxed);
            "The queue of the audit log is full: messages are lost");
    }

    /// Returns true the first time: the shutdown is recorded once, whoever requests it.
    pub(crate) fn begin_shutdown(&self) -> bool {
        !self.shutdown_told.swap(true, Relaxed)
    }

    /// Renames or reopens the file, after the messages before have been written. Returns its new name, if there is one.
    ///
    /// # Errors
    /// Those of the file system; the old file is then still written.
    pub(crate) fn rotate(&self) -> io::Result<Option<String>> {
        self.queue.wait_empty(ROTATION_WAIT_MAX);
        self.sink.lock().rotate()
    }

    /// Writes what is queued and ends the thread. If the destination does not take the messages, they are counted as
    /// failed. Later messages are refused.
    pub(crate) fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread has been logged.
            let _ = thread.join();
        }
        self.sink.lock().flush();
    }

    /// Writes the section `audit` of `serverStatus`.
    pub(crate) fn write_status(&self, out: &mut DocWriter<'_>) {
        let (messages, bytes) = self.queue.len();
        let counts = &self.counts;
        for (name, count) in [
            ("written", &counts.written),
            ("writtenBytes", &counts.written_bytes),
            ("filtered", &counts.filtered),
            ("dropped", &counts.dropped),
            ("failed", &counts.failed),
            ("writeErrors", &counts.write_errors),
            ("waits", &counts.waits),
            ("waitMicros", &counts.wait_micros),
        ] {
            out.put(name, i64::try_from(count.load(Relaxed)).unwrap_or(i64::MAX));
        }
        out.put("queued", messages as i64);
        out.put("queuedBytes", bytes as i64);
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// # Errors
/// Those of the filter.
fn rules(filter: Doc<'_>, successes: bool) -> Result<Rules> {
    let source = filter.to_buf();
    let filter = match filter.is_empty() {
        true => None,
        false => Some(parse(filter)?),
    };
    Ok(Rules { filter, source, successes })
}

/// The filter of an audit log: conditions on fields and `$expr`. What needs an index or a script cannot be evaluated.
pub(crate) fn parse(filter: Doc<'_>) -> Result<Filter> {
    let allowed = Allowed { expr: true, ..Allowed::PLAIN };
    Filter::parse_with(filter, &mut ParseCx::new(), allowed).map(Filter::normalize)
}

impl Rules {
    /// A filter that fails for a message includes it: no message is lost by an error.
    fn includes(&self, message: Doc<'_>) -> bool {
        let Some(filter) = &self.filter else { return true };
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        filter.matches(message, &MatchCx::new(&vars, &arena, clock::wall_ms())).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests;
