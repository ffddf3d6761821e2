//! How a database is opened.

use nagi_bson::DocBuf;
use nagi_host::EngineKind;

/// The smallest memory budget.
pub(crate) const CACHE_MB_MIN: u64 = 32;
/// The default memory budget.
const CACHE_MB: u64 = 128;

/// The storage engine of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// RocksDB: the default.
    Rocks,
    /// LMDB with a log of its own: the data is mapped into memory, and competes for the page cache. It installs
    /// handlers of `SIGBUS` and `SIGSEGV`, which pass on what is not theirs, because the disk may fail under mapped
    /// memory.
    Lmdb,
}

impl Engine {
    pub(crate) fn kind(self) -> EngineKind {
        match self {
            Engine::Rocks => EngineKind::Embedded,
            Engine::Lmdb => EngineKind::Mapped,
        }
    }
}

/// Options of [`crate::Database::open`].
///
/// ```
/// use nagi::{Database, Engine, Options};
/// # let folder = std::env::temp_dir().join(format!("nagi-doc-options-{}", std::process::id()));
/// let options = Options::new().cache_mb(64).engine(Engine::Rocks).replica_set("rs0");
/// let db = Database::open(&folder, options)?;
/// db.close()?;
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) engine: Option<Engine>,
    pub(crate) cache_mb: u64,
    pub(crate) in_memory_mb: Option<u64>,
    pub(crate) replica_set: Option<String>,
    pub(crate) create: bool,
    pub(crate) journaled: bool,
    pub(crate) commit_interval_ms: Option<u32>,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) javascript: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engine: None,
            cache_mb: CACHE_MB,
            in_memory_mb: None,
            replica_set: None,
            create: true,
            journaled: false,
            commit_interval_ms: None,
            parameters: Vec::new(),
            javascript: true,
        }
    }
}

impl Options {
    /// The defaults.
    ///
    /// ```
    /// let db = nagi::Database::in_memory_with(nagi::Options::new())?;
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn new() -> Options {
        Options::default()
    }

    /// The memory budget of this database in megabytes, 128 by default and at least 32: caches, memtables, sorts,
    /// cursors, transactions. See the section "Memory" of the crate.
    #[must_use]
    pub fn cache_mb(mut self, mb: u64) -> Options {
        self.cache_mb = mb;
        self
    }

    /// The largest size of the data of an in-memory database, in megabytes. The default is half of the machine's
    /// memory beyond one gigabyte.
    #[must_use]
    pub fn in_memory_mb(mut self, mb: u64) -> Options {
        self.in_memory_mb = Some(mb);
        self
    }

    /// The storage engine of a new folder. By default it is RocksDB, and for an existing folder the one whose data it
    /// holds.
    #[must_use]
    pub fn engine(mut self, engine: Engine) -> Options {
        self.engine = Some(engine);
        self
    }

    /// Makes the database the only member of a replica set of this name, which transactions, change streams and
    /// retryable writes need. Every write is then recorded in the oplog as well. A folder of a server that runs as a
    /// member must be opened with the same name.
    #[must_use]
    pub fn replica_set(mut self, name: impl Into<String>) -> Options {
        self.replica_set = Some(name.into());
        self
    }

    /// Creates the folder if it does not exist, readable for this user only. The default is true.
    #[must_use]
    pub fn create(mut self, create: bool) -> Options {
        self.create = create;
        self
    }

    /// Every write of a [`crate::Collection`] returns only when it is on disk, as with the write concern
    /// `{w: 1, j: true}`. The default is false: writes are synced in the background, each
    /// [`Options::commit_interval_ms`]. A crash of the process loses nothing in either case; a power cut loses what was
    /// not synced.
    #[must_use]
    pub fn journaled(mut self, journaled: bool) -> Options {
        self.journaled = journaled;
        self
    }

    /// The interval at which the log is synced, in milliseconds; 100 by default.
    #[must_use]
    pub fn commit_interval_ms(mut self, ms: u32) -> Options {
        self.commit_interval_ms = Some(ms);
        self
    }

    /// Sets a parameter of the server, as `--setParameter name=value` does. A name or value that is not valid makes
    /// [`crate::Database::open`] fail.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Options {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Allows `$where`, `$function` and `mapReduce`, which run JavaScript. The default is true.
    #[must_use]
    pub fn javascript(mut self, allowed: bool) -> Options {
        self.javascript = allowed;
        self
    }

    /// The options as `getCmdLineOpts` shows them.
    pub(crate) fn shown(&self) -> DocBuf {
        DocBuf::build(|out| {
            out.put("cacheMB", i64::try_from(self.cache_mb).unwrap_or(i64::MAX));
            if let Some(name) = &self.replica_set {
                out.put("replicaSet", name.as_str());
            }
        })
    }
}
