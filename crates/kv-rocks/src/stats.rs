//! Gauges of the engine, by name.

use nagi_kv::Space;
use nagi_kv_disk::capacity::{Capacity, Kind};

use crate::{
    db::{Db, Ticker},
    governor,
    reclaim::Reclaim,
    ring_buffer,
    warm_up::WarmUp,
};

/// Memtables are charged to the cache by entries of this size.
const MEMTABLE_ENTRY_BYTES: u64 = 256 << 10;

/// Bytes in memtables that are not in files yet.
pub(crate) fn unflushed_bytes(db: &Db) -> u64 {
    db.spaces().map(|space| db.property(space, c"rocksdb.cur-size-all-mem-tables")).sum()
}

/// Bytes in full memtables that wait to be flushed.
pub(crate) fn flushing_bytes(db: &Db) -> u64 {
    let active = |space| db.property(space, c"rocksdb.cur-size-active-mem-table");
    unflushed_bytes(db).saturating_sub(db.spaces().map(active).sum())
}

/// Blocks that are cached, and blocks that were removed from the cache.
fn cached_blocks(db: &Db, memtable_bytes: u64) -> (u64, u64) {
    let cached =
        db.cache_entry_count().saturating_sub(memtable_bytes.div_ceil(MEMTABLE_ENTRY_BYTES));
    let added = db.ticker(Ticker::BlocksAdded).saturating_sub(db.ticker(Ticker::BlocksAddedTwice));
    (cached, db.cache_blocks_removed(added, cached))
}

/// True if writes are refused for lack of disk space. Looks again if it was short: it may be that no client writes any
/// more.
fn is_full(capacity: &Capacity, memtable_bytes: u64) -> bool {
    capacity.check(0, Kind::Grows, || memtable_bytes).is_err()
}

/// Calls `visit` for each gauge, sorted by name.
pub(crate) fn visit(
    db: &Db,
    capacity: &Capacity,
    reclaim: &Reclaim,
    warm_up: &WarmUp,
    ring_buffer: &ring_buffer::Gauges,
    governor: &governor::Gauges,
    visit: &mut dyn FnMut(&'static str, i64),
) {
    let sum = |name| db.spaces().map(|space| db.property(space, name)).sum::<u64>();
    let (disk_free_bytes, disk_total_bytes) = capacity.space();
    let one = |name| db.property(Space::Records, name);
    let both = |a, b| db.ticker(a) + db.ticker(b);
    let file_bytes_read = both(Ticker::DeepestLevelBytesRead, Ticker::OtherLevelsBytesRead);
    let file_reads = both(Ticker::DeepestLevelReads, Ticker::OtherLevelsReads);
    let file_bytes_written = both(Ticker::FlushBytesWritten, Ticker::CompactionBytesWritten);
    let flushes = db.damaged().flushes.times();
    let memtable_bytes = unflushed_bytes(db);
    let (blocks_cached, blocks_removed) = cached_blocks(db, memtable_bytes);
    let file_blocks_written =
        both(Ticker::BlocksCompressed, Ticker::BlocksPlain) + db.ticker(Ticker::BlocksNotSmaller);
    let gauges = [
        ("bytes_committed", db.ticker(Ticker::BytesCommitted)),
        ("cache_blocks", blocks_cached),
        ("cache_blocks_added", db.ticker(Ticker::DataBlocksAdded)),
        ("cache_blocks_removed", blocks_removed),
        ("cache_bytes", db.cache_usage()),
        ("cache_capacity_bytes", db.cache_capacity()),
        ("cache_compressed_hits", db.ticker(Ticker::CompressedHit)),
        ("cache_hits", db.ticker(Ticker::CacheHit)),
        ("cache_misses", db.ticker(Ticker::CacheMiss)),
        ("cache_pinned_bytes", db.cache_pinned()),
        ("checkpoints", flushes.count),
        ("commits", both(Ticker::CommitsAlone, Ticker::CommitsGrouped)),
        ("compaction_bytes_read", db.ticker(Ticker::CompactionBytesRead)),
        ("compaction_bytes_written", db.ticker(Ticker::CompactionBytesWritten)),
        ("compactions_pending_bytes", sum(c"rocksdb.estimate-pending-compaction-bytes")),
        ("compactions_running", one(c"rocksdb.num-running-compactions")),
        ("damaged_compactions", db.damaged().failures()),
        ("damaged_spaces_resting", db.damaged().resting_count()),
        ("disk_bytes", sum(c"rocksdb.total-sst-files-size")),
        ("disk_free_bytes", disk_free_bytes),
        ("disk_live_bytes", sum(c"rocksdb.live-sst-files-size")),
        ("disk_total_bytes", disk_total_bytes),
        ("file_blocks_written", file_blocks_written),
        ("file_bytes_read", file_bytes_read),
        ("file_bytes_written", file_bytes_written),
        ("file_reads", file_reads),
        ("flush_last_ms", flushes.last_ms),
        ("flush_max_ms", flushes.max_ms),
        ("flush_min_ms", flushes.min_ms),
        ("flush_total_ms", flushes.total_ms),
        ("flushes_running", one(c"rocksdb.num-running-flushes")),
        ("governor_debt_percent", governor.debt_percent),
        ("governor_pause_us", governor.pause_us),
        ("governor_paused_us", governor.paused_us),
        ("governor_rate_bytes", governor.rate_bytes),
        ("keys_estimate", sum(c"rocksdb.estimate-num-keys")),
        ("keys_written", db.ticker(Ticker::KeysWritten)),
        ("log_bytes_written", db.ticker(Ticker::LogBytes)),
        ("log_syncs", db.ticker(Ticker::LogSyncs)),
        ("log_writes", db.ticker(Ticker::LogWrites)),
        ("memtable_bytes", memtable_bytes),
        ("ranges_to_reclaim", reclaim.waiting_count() as u64),
        ("snapshots_open", one(c"rocksdb.num-snapshots")),
        ("table_reader_bytes", sum(c"rocksdb.estimate-table-readers-mem")),
        ("wal_ring_capacity_bytes", ring_buffer.capacity_bytes),
        ("wal_ring_used_bytes", ring_buffer.used_bytes),
        ("wal_ring_used_bytes_max", ring_buffer.used_bytes_max),
        ("wal_ring_waited_us", ring_buffer.waited_us),
        ("wal_ring_waiting_us", ring_buffer.waiting_us),
        ("wal_ring_waits", ring_buffer.waits),
        ("warm_up_bytes", warm_up.bytes()),
        ("warm_up_rounds", warm_up.rounds()),
        ("write_stopped", u64::from(is_full(capacity, memtable_bytes))),
    ];
    for (name, value) in gauges {
        visit(name, i64::try_from(value).unwrap_or(i64::MAX));
    }
}
