//! The log: MongoDB's JSON lines (4.4 and later), one object a line.
//!
//!   {"t":{"$date":"..."},"s":"I",  "c":"NETWORK",  "id":22943,   "ctx":"listener","msg":"...","attr":{...}}
//!
//! Everything else in the workspace writes through crate `log`: the target is the component, the key
//! `id` is the log id, all other keys are attributes. What needs a document as an attribute (the slow
//! operation line) calls [`Log::write`]. The newest lines are kept in memory for `getLog`.
//!
//! Invariants
//! - A line is written with one call, so lines of several threads never mix.
//! - A sink that fails (disk full) never fails the request that wanted to log.

mod line;
mod ram;
mod sink;
mod syslog;

use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use nagi_bson::Doc;
use nagi_lang::time::Zone;
use parking_lot::Mutex;

pub use line::Severity;
use ram::RamLog;
use sink::Sink;
pub use sink::{LogDestination, LogRotate, check_log_path};
pub use syslog::FACILITIES as SYSLOG_FACILITIES;

/// Components with a verbosity of their own, as `logComponentVerbosity` names them.
pub(crate) static COMPONENTS: &[(&str, &str)] = &[
    ("ACCESS", "accessControl"),
    ("COMMAND", "command"),
    ("CONTROL", "control"),
    ("FTDC", "ftdc"),
    ("GEO", "geo"),
    ("INDEX", "index"),
    ("JOURNAL", "journal"),
    ("NETWORK", "network"),
    ("QUERY", "query"),
    ("RECOVERY", "recovery"),
    ("REPL", "replication"),
    ("ROLLBACK", "rollback"),
    ("SHARDING", "sharding"),
    ("STORAGE", "storage"),
    ("TXN", "transaction"),
    ("WRITE", "write"),
];

/// A document as the attributes of a line: relaxed Extended JSON, or nothing at all.
fn attributes(attr: Doc<'_>) -> String {
    let mut text = String::new();
    if !attr.is_empty() {
        nagi_bson::json::write_relaxed(&mut text, nagi_bson::Value::Doc(attr));
    }
    text
}

thread_local! {
    /// The `ctx` of lines that this thread writes.
    static CONTEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Names the current thread in log lines: `conn12`, `listener`, `initandlisten`.
pub fn set_log_context(name: &str) {
    CONTEXT.with_borrow_mut(|context| {
        context.clear();
        context.push_str(name);
    });
}

/// How lines show the time.
#[derive(Debug, Clone)]
pub enum Stamp {
    /// With a `Z`.
    Utc,
    /// What clocks show, with the offset.
    Local(Zone),
}

/// The server's log. One a process, shared by everything.
pub struct Log {
    sink: Mutex<Sink>,
    global: Mutex<RamLog>,
    warnings: Mutex<RamLog>,
    /// Default verbosity (0-5).
    verbosity: AtomicI32,
    /// How lines show the time.
    stamp: OnceLock<Stamp>,
    /// Verbosity by component, -1 = default; index as in [`COMPONENTS`].
    components: [AtomicI32; 16],
}

impl Log {
    /// Opens the destination. Fails if the file cannot be opened.
    pub fn open(destination: LogDestination) -> std::io::Result<Arc<Log>> {
        Ok(Arc::new(Log {
            sink: Mutex::new(Sink::open(destination)?),
            global: Mutex::new(RamLog::default()),
            warnings: Mutex::new(RamLog::default()),
            verbosity: AtomicI32::new(0),
            stamp: OnceLock::new(),
            components: [const { AtomicI32::new(-1) }; 16],
        }))
    }

    /// Makes it the destination of crate `log`. The second call in a process does nothing.
    pub fn install(self: &Arc<Log>) {
        if log::set_boxed_logger(Box::new(Installed(self.clone()))).is_ok() {
            self.apply_max_level();
        }
    }

    /// Chooses how lines show the time, before the first line. Otherwise: in UTC, as an offset of zero.
    pub fn set_stamp(&self, stamp: Stamp) {
        // Chosen once, at the start.
        let _ = self.stamp.set(stamp);
    }

    /// Sets the verbosity of a component by its name in configurations; false if there is none.
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
        self.emit(severity, component, id, message, &attributes(attr), false);
    }

    /// Writes a line that `getLog startupWarnings` shows to every shell that connects.
    pub fn startup_warning(&self, component: &str, id: i64, message: &str, attr: Doc<'_>) {
        self.emit(Severity::Warning, component, id, message, &attributes(attr), true);
    }

    fn emit(
        &self,
        severity: Severity,
        component: &str,
        id: i64,
        message: &str,
        attributes: &str,
        startup_warning: bool,
    ) {
        let tags: &[&str] = if startup_warning { &["startupWarnings"] } else { &[] };
        let mut text = String::with_capacity(160 + attributes.len());
        CONTEXT.with_borrow(|context| {
            let context = if context.is_empty() { "-" } else { context.as_str() };
            let head = line::Head { severity, component, id, context, message };
            line::write(&mut text, self.stamp.get(), &head, attributes, tags);
        });
        self.global.lock().push(&text);
        if startup_warning {
            self.warnings.lock().push(&text);
        }
        text.push('\n');
        self.sink.lock().write(text.as_bytes());
    }

    /// The names `getLog: "*"` lists.
    pub(crate) fn ram_names() -> &'static [&'static str] {
        &["global", "startupWarnings"]
    }

    /// The lines kept in memory under `name`, oldest first, and how many were ever written.
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

    /// Forces what was written to the operating system's file.
    pub fn flush(&self) {
        self.sink.lock().flush();
    }

    pub(crate) fn verbosity(&self) -> i32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_verbosity(&self, level: i32) {
        self.verbosity.store(level.clamp(0, 5), Ordering::Relaxed);
        self.apply_max_level();
    }

    /// Verbosity of the component at `index` of [`COMPONENTS`]; -1 follows the default.
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
        let own = COMPONENTS.iter().position(|c| c.0 == target);
        match own.map(|index| self.component_verbosity(index)) {
            Some(level) if level >= 0 => level,
            _ => self.verbosity(),
        }
    }

    fn apply_max_level(&self) {
        let most = (0..COMPONENTS.len()).map(|i| self.component_verbosity(i)).max().unwrap_or(0);
        log::set_max_level(match most.max(self.verbosity()) {
            ..=0 => log::LevelFilter::Info,
            1 | 2 => log::LevelFilter::Debug,
            _ => log::LevelFilter::Trace,
        });
    }
}

/// What crate `log` holds.
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
        let mut attributes = line::Attributes::default();
        let _ = record.key_values().visit(&mut attributes);
        let message = record.args().to_string();
        let severity = Severity::from_level(record.level());
        // Dependencies that log under their module path are not components of MongoDB's.
        let target = record.target();
        let component = if target.contains("::") || target.is_empty() { "-" } else { target };
        let startup_warning = attributes.startup_warning;
        self.0.emit(
            severity,
            component,
            attributes.id,
            &message,
            attributes.text(),
            startup_warning,
        );
    }

    fn flush(&self) {
        self.0.sink.lock().flush();
    }
}
