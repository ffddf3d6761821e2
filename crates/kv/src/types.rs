//! Basic types of the contract: spaces, stamps, durability, limits.

use std::fmt;

/// A key space. Keys of different spaces are separate, except for spaces of records (see [`Space::table`]). Each
/// collection and index is a key prefix in a space of records or in `Index`, so ten thousand collections need only
/// a handful of spaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Space {
    /// Collections, indexes, users: small, read at start.
    Catalog = 0,
    /// Documents, with the compressor that was given to the engine at open.
    Records = 1,
    /// Index keys. An engine may refuse values of more than 64 KiB.
    Index = 2,
    /// The change log; keys are commit stamps (`Txn::append`) where an engine appends.
    Changes = 3,
    /// Commutative counters (`Txn::add`). An engine may refuse values of more than 64 KiB.
    Counters = 4,
    /// Scratch data of sorts and groups: not logged, empty after every open.
    Spill = 5,
    /// Documents of collections with a compressor of their own: none.
    RecordsNone = 6,
    /// The same, compressed with snappy.
    RecordsSnappy = 7,
    /// The same, compressed with zlib.
    RecordsZlib = 8,
    /// The same, compressed with zstd.
    RecordsZstd = 9,
    /// The same, compressed with lz4.
    RecordsLz4 = 10,
}

impl Space {
    /// Every space, in the order of its number.
    pub const ALL: [Space; 11] = [
        Space::Catalog,
        Space::Records,
        Space::Index,
        Space::Changes,
        Space::Counters,
        Space::Spill,
        Space::RecordsNone,
        Space::RecordsSnappy,
        Space::RecordsZlib,
        Space::RecordsZstd,
        Space::RecordsLz4,
    ];

    /// The spaces that every store has; the others are created with their first key.
    pub const CORE: [Space; 6] = [
        Space::Catalog,
        Space::Records,
        Space::Index,
        Space::Changes,
        Space::Counters,
        Space::Spill,
    ];

    /// The spaces of records with a compressor of their own.
    pub const BY_COMPRESSOR: [Space; 5] = [
        Space::RecordsNone,
        Space::RecordsSnappy,
        Space::RecordsZlib,
        Space::RecordsZstd,
        Space::RecordsLz4,
    ];

    /// The name in statistics and file listings.
    pub fn name(self) -> &'static str {
        match self {
            Space::Catalog => "catalog",
            Space::Records => "records",
            Space::Index => "index",
            Space::Changes => "changes",
            Space::Counters => "counters",
            Space::Spill => "spill",
            Space::RecordsNone => "records_none",
            Space::RecordsSnappy => "records_snappy",
            Space::RecordsZlib => "records_zlib",
            Space::RecordsZstd => "records_zstd",
            Space::RecordsLz4 => "records_lz4",
        }
    }

    /// The space with this stored number.
    pub fn by_number(number: u8) -> Option<Space> {
        Space::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if the space contains documents.
    pub fn is_records(self) -> bool {
        self.table() == Space::Records
    }

    /// The space whose table an engine without block compression uses for this one: all spaces of records may share
    /// a table. So a key is used in only one space of records at a time, and each space is queried only for its own
    /// key ranges.
    pub fn table(self) -> Space {
        match self {
            Space::RecordsNone
            | Space::RecordsSnappy
            | Space::RecordsZlib
            | Space::RecordsZstd
            | Space::RecordsLz4 => Space::Records,
            other => other,
        }
    }
}

/// When `commit` may return. In both cases a commit is atomic, and survives a crash of the process or machine
/// either whole or not at all. They differ in how many of the newest commits a crash may lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Written to the log; on disk within the engine's commit interval. Survives the process, but not the machine.
    #[default]
    Buffered,
    /// On disk. Many waiting commits share one sync.
    Synced,
}

/// The position of a commit in the order of all commits, and its cluster time (see `Clock`): a later commit has a
/// greater stamp, also across restarts. Zero is before all commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitStamp(pub u64);

impl fmt::Display for CommitStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}, {})", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }
}

/// Options of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxnOptions {
    /// How long `put`, `delete` and `lock` may wait for a key that another transaction holds. Only a transaction
    /// that holds no key waits (so there is no deadlock), and only before its first read (afterwards the holder's
    /// commit would be a conflict anyway). Other transactions get `Conflict` at once. Waiting transactions get a
    /// key in the order of arrival.
    pub lock_wait_ms: u32,
    /// A client decides when it ends, so that what waits for its keys may wait for long (`Txn::is_held_by_client`).
    pub of_client: bool,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions { lock_wait_ms: 10, of_client: false }
    }
}

/// Limits of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest key.
    pub key_bytes_max: usize,
    /// Largest value.
    pub value_bytes_max: usize,
    /// Largest sum of keys and values one transaction may stage.
    pub txn_bytes_max: usize,
    /// Age at which snapshots begin to fail with `SnapshotTooOld`; none if they never do.
    pub snapshot_age_ms_max: Option<u64>,
}

/// The limits that the store relies on: keys of index entries, and 16 MiB documents with a margin.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            key_bytes_max: 64 << 10,
            value_bytes_max: 64 << 20,
            txn_bytes_max: 256 << 20,
            snapshot_age_ms_max: None,
        }
    }
}

/// A savepoint within a transaction (`Txn::rollback_to`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint(pub(crate) usize);

impl Savepoint {
    /// For engines with their own transactions: the index of the transaction's next write.
    pub fn new(write_index: usize) -> Savepoint {
        Savepoint(write_index)
    }

    /// The number given to `new`.
    pub fn write_index(self) -> usize {
        self.0
    }
}

/// The key of the `position`-th entry a commit appended to a log.
pub fn log_key(stamp: u64, position: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&stamp.to_be_bytes());
    key[8..].copy_from_slice(&position.to_be_bytes());
    key
}

/// Makes the keys of the entries that a commit appends to a log, in their order.
#[derive(Default)]
pub struct LogKeys {
    /// The stamp of the next entry that is not joined.
    next: u64,
    stamp: u64,
    position: u32,
}

impl LogKeys {
    /// `first`: the first stamp of the commit.
    pub fn new(first: u64) -> LogKeys {
        LogKeys { next: first, stamp: first, position: 0 }
    }

    /// The key of the next entry; `joined` as in `Txn::append`.
    pub fn key(&mut self, joined: bool) -> [u8; 12] {
        if joined && self.next > self.stamp {
            self.position += 1;
        } else {
            (self.stamp, self.position) = (self.next, 0);
            self.next += 1;
        }
        log_key(self.stamp, self.position)
    }
}

/// The source of `Engine::load`: fills key and value (which it must clear first) and returns true if there was an
/// entry.
pub type Next<'a> = dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> crate::Result<bool> + 'a;

/// Keys of one space in `[start, end)`.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'k> {
    pub space: Space,
    pub start: &'k [u8],
    pub end: &'k [u8],
    /// Number of keys, if the caller knows it; improves estimates of reclaimable space.
    pub live_count: Option<u64>,
}

/// Size of a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeSize {
    /// Bytes on disk, and in memtables that will be written.
    pub bytes: u64,
    /// The part of `bytes` that belongs to removed and replaced values: about what a rewrite would release.
    pub reclaimable_bytes: u64,
    /// Files that hold part of it. A file may hold parts of several ranges.
    pub file_count: u64,
}

/// What an engine with a cache of its own has in memory of a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CachedSize {
    /// Bytes of the cache for parts of files. A part of a file that belongs to several ranges is divided among them by
    /// their sizes.
    pub file_bytes: u64,
    /// Estimated bytes of writes that are not in files yet.
    pub unwritten_bytes: u64,
}

/// The callback of long work, with the bytes done and the total bytes. Returns false to cancel the work.
pub type Watch<'w> = dyn FnMut(u64, u64) -> bool + 'w;
