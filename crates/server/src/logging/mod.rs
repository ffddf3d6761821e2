//! The log: MongoDB's JSON lines (4.4 and later), one object per line.
//!
//! ```text
//!   {"t":{"$date":"..."},"s":"I",  "c":"NETWORK",  "id":22943,   "ctx":"listener","msg":"...","attr":{...}}
//! ```
//!
//! All crates of the workspace log through crate `log`: the target is the component, the key `id` is the log id, and
//! all other keys are attributes. Code that logs a document as attributes (the log of slow operations) calls
//! [`Log::write`]. The newest lines are kept in memory for `getLog`.
//!
//! Invariants
//! - A line is written with one call, so lines of several threads never mix.
//! - A failing sink (disk full) never fails the request that logs.

mod line;
mod ram;
mod redact;
mod sink;
mod syslog;
mod truncate;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use nagi_bson::Doc;
use nagi_lang::time::Zone;
use parking_lot::Mutex;

pub use line::Severity;
use ram::RamLog;
use sink::Sink;
pub use sink::{LogDestination, LogRotate, check_log_path};
pub(crate) use sink::{open_append, set_aside};
pub use syslog::FACILITIES as SYSLOG_FACILITIES;
pub(crate) use syslog::Syslog;
use truncate::{Attributes, Limits};

/// The maximum length of an attribute's text, unless the parameter `maxLogSizeKB` sets another one.
const ATTRIBUTE_BYTES_MAX: usize = 10 << 10;

/// The components that have their own verbosity: target, and path in `logComponentVerbosity`. A component within
/// another one has its verbosity unless it has one of its own; it follows the outer one here.
pub(crate) static COMPONENTS: &[(&str, &str)] = &[
    ("ACCESS", "accessControl"),
    ("COMMAND", "command"),
    ("CONTROL", "control"),
    ("FTDC", "ftdc"),
    ("GEO", "geo"),
    ("INDEX", "index"),
    ("NETWORK", "network"),
    ("QUERY", "query"),
    ("REPL", "replication"),
    ("ROLLBACK", "replication.rollback"),
    ("SHARDING", "sharding"),
    ("STORAGE", "storage"),
    ("JOURNAL", "storage.journal"),
    ("RECOVERY", "storage.recovery"),
    ("TXN", "transaction"),
    ("WRITE", "write"),
];

thread_local! {
    /// The `ctx` of lines that this thread writes; the thread's name if it is empty.
    static CONTEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Sets the name of the current thread in log lines: `conn12`, `listener`, `initandlisten`.
pub fn set_log_context(name: &str) {
    CONTEXT.with_borrow_mut(|context| {
        context.clear();
        context.push_str(name);
    });
}

/// The form of the time in log lines.
#[derive(Debug, Clone)]
pub enum Stamp {
    /// UTC, with a `Z`.
    Utc,
    /// Local time, with the offset.
    Local(Zone),
}

/// The server's log: one per process, shared by all threads.
pub struct Log {
    sink: Mutex<Sink>,
    global: Mutex<RamLog>,
    warnings: Mutex<RamLog>,
    /// It is the destination of crate `log`.
    installed: AtomicBool,
    /// Its destination is crate `log`.
    forwards: bool,
    /// Default verbosity (0-5).
    verbosity: AtomicI32,
    /// The maximum length of an attribute's text; 0 for no limit.
    attribute_bytes_max: AtomicUsize,
    /// Values of clients are replaced.
    redacts: AtomicBool,
    /// The form of the time in log lines.
    stamp: OnceLock<Stamp>,
    /// Verbosity by component, -1 for the default; indexed as [`COMPONENTS`].
    components: [AtomicI32; 16],
}

impl Log {
    /// Opens the destination. Fails if the file or the socket cannot be opened.
    pub fn open(destination: LogDestination) -> std::io::Result<Arc<Log>> {
        let sink = Sink::open(destination)?;
        Ok(Arc::new(Log {
            forwards: sink.is_application(),
            sink: Mutex::new(sink),
            global: Mutex::new(RamLog::default()),
            warnings: Mutex::new(RamLog::default()),
            installed: AtomicBool::new(false),
            verbosity: AtomicI32::new(0),
            attribute_bytes_max: AtomicUsize::new(ATTRIBUTE_BYTES_MAX),
            redacts: AtomicBool::new(false),
            stamp: OnceLock::new(),
            components: [const { AtomicI32::new(-1) }; 16],
        }))
    }

    /// Makes it the destination of crate `log`. A second call in a process does nothing.
    pub fn install(self: &Arc<Log>) {
        if log::set_boxed_logger(Box::new(Installed(self.clone()))).is_ok() {
            self.installed.store(true, Ordering::Relaxed);
            self.apply_max_level();
        }
    }

    /// Sets the form of the time; must be called before the first line. Without it, times are in UTC with an offset of
    /// zero.
    pub fn set_stamp(&self, stamp: Stamp) {
        // Set once, at the start.
        let _ = self.stamp.set(stamp);
    }

    /// Sets the verbosity of a component by its path in configurations, such as `storage.journal`. Returns false if
    /// there is no such component.
    pub fn set_verbosity_of(&self, component: &str, level: i32) -> bool {
        let index = COMPONENTS.iter().position(|row| row.1 == component);
        if let Some(index) = index {
            self.set_component_verbosity(index, level);
        }
        index.is_some()
    }

    /// Writes one line. `attr` becomes relaxed Extended JSON.
    pub fn write(
        &self,
        severity: Severity,
        component: &str,
        id: i64,
        message: &str,
        attr: Doc<'_>,
    ) {
        let attributes = Attributes::of(attr, self.limits(component, id));
        self.emit(severity, component, id, message, &attributes, false);
    }

    /// Writes a line that `getLog startupWarnings` returns, which shells show when they connect.
    pub fn startup_warning(&self, component: &str, id: i64, message: &str, attr: Doc<'_>) {
        // About the configuration and the stored data as a whole: never redacted.
        let limits = Limits { redacted: false, ..self.limits(component, id) };
        self.emit(Severity::Warning, component, id, message, &Attributes::of(attr, limits), true);
    }

    fn limits(&self, component: &str, id: i64) -> Limits {
        Limits {
            bytes_max: self.attribute_bytes_max.load(Ordering::Relaxed),
            redacted: self.redacts.load(Ordering::Relaxed) && !redact::keeps(component, id),
        }
    }

    fn emit(
        &self,
        severity: Severity,
        component: &str,
        id: i64,
        message: &str,
        attributes: &Attributes,
        startup_warning: bool,
    ) {
        let tags: &[&str] = if startup_warning { &["startupWarnings"] } else { &[] };
        let mut text = String::with_capacity(160 + attributes.text.len());
        CONTEXT.with_borrow(|context| {
            // Threads of the lower crates, such as engines, have only a name.
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("-");
            let context = if context.is_empty() { name } else { context.as_str() };
            let head = line::Head { severity, component, id, context, message };
            line::write(&mut text, self.stamp.get(), &head, attributes, tags);
        });
        self.global.lock().push(&text);
        if startup_warning {
            self.warnings.lock().push(&text);
        }
        if self.forwards {
            let level = severity.level();
            log::log!(target: component, level, id = id, attr = attributes.text; "{message}");
            return;
        }
        text.push('\n');
        self.sink.lock().write(text.as_bytes());
    }

    /// The names that `getLog: "*"` lists.
    pub(crate) fn ram_names() -> &'static [&'static str] {
        &["global", "startupWarnings"]
    }

    /// The lines kept in memory under `name`, oldest first, and the number of lines ever written.
    pub(crate) fn ram_lines(&self, name: &str) -> Option<(u64, Vec<String>)> {
        match name {
            "global" => Some(self.global.lock().lines()),
            "startupWarnings" => Some(self.warnings.lock().lines()),
            _ => None,
        }
    }

    /// Renames or reopens the file (SIGUSR1, `logRotate`).
    pub fn rotate(&self) -> std::io::Result<()> {
        self.sink.lock().rotate()
    }

    /// Syncs the file to disk, or flushes standard output.
    pub fn flush(&self) {
        self.sink.lock().flush();
    }

    /// Sets the maximum length of an attribute in KiB; 0 for no limit.
    pub(crate) fn set_attribute_kib_max(&self, kib: i64) {
        let bytes = usize::try_from(kib).unwrap_or(usize::MAX).saturating_mul(1024);
        self.attribute_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Replaces the values of clients in all further lines, or ceases to.
    pub fn set_redaction(&self, on: bool) {
        self.redacts.store(on, Ordering::Relaxed);
    }

    pub(crate) fn verbosity(&self) -> i32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_verbosity(&self, level: i32) {
        self.verbosity.store(level.clamp(0, 5), Ordering::Relaxed);
        self.apply_max_level();
    }

    /// The verbosity of the component at `index` of [`COMPONENTS`]; -1 means the default.
    pub(crate) fn component_verbosity(&self, index: usize) -> i32 {
        self.components.get(index).map_or(-1, |c| c.load(Ordering::Relaxed))
    }

    pub(crate) fn set_component_verbosity(&self, index: usize, level: i32) {
        if let Some(component) = self.components.get(index) {
            component.store(level.clamp(-1, 5), Ordering::Relaxed);
        }
        self.apply_max_level();
    }

    fn level_of(&self, target: &str) -> i32 {
        let at = |index: Option<usize>| index.map_or(-1, |index| self.component_verbosity(index));
        let own = COMPONENTS.iter().position(|row| row.0 == target);
        let outer = own.and_then(|index| COMPONENTS[index].1.split_once('.'));
        let outer = outer.and_then(|(outer, _)| COMPONENTS.iter().position(|row| row.1 == outer));
        [at(own), at(outer)].into_iter().find(|level| *level >= 0).unwrap_or(self.verbosity())
    }

    fn apply_max_level(&self) {
        // The level of crate `log` belongs to the application otherwise.
        if !self.installed.load(Ordering::Relaxed) {
            return;
        }
        let most = (0..COMPONENTS.len()).map(|i| self.component_verbosity(i)).max().unwrap_or(0);
        log::set_max_level(match most.max(self.verbosity()) {
            ..=0 => log::LevelFilter::Info,
            1 | 2 => log::LevelFilter::Debug,
            _ => log::LevelFilter::Trace,
        });
    }
}

/// The logger that is installed in crate `log`.
struct Installed(Arc<Log>);

impl log::Log for Installed {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        let wanted = match metadata.level() {
            log::Level::Error | log::Level::Warn | log::Level::Info => return true,
            log::Level::Debug => 1,
            log::Level::Trace => 3,
        };
        self.0.level_of(metadata.target()) >= wanted
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        // Dependencies log under their module path, which is no component of MongoDB's.
        let target = record.target();
        let foreign = target.contains("::") || target.is_empty();
        let component = if foreign { "-" } else { target };
        let id = record.key_values().get("id".into()).and_then(|id| id.to_i64()).unwrap_or(0);
        let limits = self.0.limits(component, id);
        let attributes = Attributes::default();
        let mut keys = line::Keys { id, startup_warning: false, attributes, limits };
        let _ = record.key_values().visit(&mut keys);
        keys.attributes.end();
        // What another crate writes is unknown.
        let message = match foreign && limits.redacted {
            true => redact::REDACTED.to_owned(),
            false => record.args().to_string(),
        };
        let severity = Severity::from_level(record.level());
        self.0.emit(severity, component, keys.id, &message, &keys.attributes, keys.startup_warning);
    }

    fn flush(&self) {
        self.0.sink.lock().flush();
    }
}
