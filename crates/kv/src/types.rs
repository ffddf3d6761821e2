//! The small values of the contract: spaces, stamps, durability, limits.

use std::fmt;

/// A key space: keys of different spaces never meet, but for those of records (see
/// [`Space::table`]). Each collection and index is a key prefix in a space of records or in `Index`,
/// so that ten thousand collections are still a handful of spaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Space {
    /// Collections, indexes, users: small, read at start.
    Catalog = 0,
    /// Documents, compressed as the engine was told at open.
    Records = 1,
    /// Index keys.
    Index = 2,
    /// The change log; keys are commit stamps (`Txn::append`).
    Changes = 3,
    /// Commutative counters (`Txn::add`).
    Counters = 4,
    /// Scratch of sorts and groups: not logged, empty after every open.
    Spill = 5,
    /// Documents of collections with a compressor of their own: none.
    RecordsNone = 6,
    /// As above: snappy.
    RecordsSnappy = 7,
    /// As above: zlib.
    RecordsZlib = 8,
    /// As above: zstd.
    RecordsZstd = 9,
    /// As above: lz4.
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

    /// The spaces every store has; the others come into being with their first key.
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

    /// Its name in statistics and file listings.
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

    /// The space with this number, as it is stored.
    pub fn by_number(number: u8) -> Option<Space> {
        Space::ALL.get(usize::from(number)).copied()
    }

    /// Whether documents lie in it.
    pub fn is_records(self) -> bool {
        self.table() == Space::Records
    }

    /// The space whose table an engine without compression of blocks uses for this one: all spaces
    /// of records may share one. So a key is used in one space of records at a time, and each space
    /// is asked only for ranges of keys that are its own.
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

/// When `commit` may return. Both are atomic and survive a crash of the process or machine whole or
/// not at all; they differ in how much of the newest past a crash may lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// In the log; on disk within the engine's commit interval. Survives the process, not the
    /// machine.
    #[default]
    Buffered,
    /// On disk. Many waiting commits share one sync.
    Synced,
}

/// The place of a commit in the order of all commits, and its cluster time (see `Clock`): a later commit
/// has a larger stamp, also across restarts. Zero is before everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitStamp(pub u64);

impl fmt::Display for CommitStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({}, {})", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }
}

/// How a transaction behaves.
#[derive(Clone, Copy, Debug)]
pub struct TxnOptions {
    /// How long `put`, `delete` and `lock` may wait for a key another transaction holds. Only a
    /// transaction that holds no key yet waits (so no one waits in a circle), and only before its
    /// first read (else the holder's commit is a conflict anyway); others get `Conflict` at once.
    /// Those who wait for a key get it in the order of asking.
    pub lock_wait_ms: u32,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions { lock_wait_ms: 10 }
    }
}

/// What an engine can hold.
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

/// What the store above relies on: keys of index entries, 16 MiB documents with room to spare.
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

/// A point within a transaction to go back to (`Txn::rollback_to`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint(pub(crate) usize);

impl Savepoint {
    /// For engines with their own transactions: the n-th write of the transaction.
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

/// The source of `Engine::load`: fills key and value (both must be cleared first) and says whether
/// there was an entry.
pub type Next<'a> = dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> crate::Result<bool> + 'a;

/// Keys of one space in `[start, end)`.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'k> {
    pub space: Space,
    pub start: &'k [u8],
    pub end: &'k [u8],
    /// How many keys there are, if the caller knows: makes estimates of waste better.
    pub live_count: Option<u64>,
}

/// What a range of keys takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeSize {
    /// Bytes on disk and in what is about to be written there.
    pub bytes: u64,
    /// Of `bytes`, those of removed and replaced values: what a rewrite would give back, about.
    pub reclaimable_bytes: u64,
    /// Files that hold part of it. A file may hold parts of several ranges.
    pub file_count: u64,
}

/// Told how many of how many bytes are done; says whether to continue.
pub type Watch<'w> = dyn FnMut(u64, u64) -> bool + 'w;
