//! RocksDB's counters that are read, by their numbers in its header `statistics.h`.

/// Counters of RocksDB.
#[derive(Clone, Copy)]
pub(crate) enum Ticker {
    CacheMiss = 0,
    CacheHit = 1,
    BlocksAdded = 2,
    /// Data blocks that were read from files and cached.
    DataBlocksAdded = 14,
    /// Of the blocks added, those that another thread had added meanwhile.
    BlocksAddedTwice = 22,
    /// Hits of the compressed tier; they also count as hits of the cache.
    CompressedHit = 27,
    KeysWritten = 58,
    KeysRead = 59,
    BytesCommitted = 61,
    Seeks = 63,
    /// Synced writes of the log.
    LogSyncs = 84,
    LogBytes = 85,
    /// Commits that their own thread wrote, and those that another wrote with its own.
    CommitsAlone = 91,
    CommitsGrouped = 92,
    LogWrites = 93,
    CompactionBytesRead = 94,
    CompactionBytesWritten = 95,
    FlushBytesWritten = 96,
    /// Blocks of files that were written: compressed, not to be compressed, and not smaller when compressed.
    BlocksCompressed = 107,
    BlocksPlain = 113,
    BlocksNotSmaller = 114,
    DeepestLevelBytesRead = 201,
    DeepestLevelReads = 202,
    OtherLevelsBytesRead = 203,
    OtherLevelsReads = 204,
}
