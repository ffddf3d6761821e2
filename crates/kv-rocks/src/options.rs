//! Settings of the operator, and the sizes derived from them.

use std::sync::Arc;

use nagi_encryption::Keys;
use nagi_kv::{Compressor, Space};
use nagi_kv_disk::fatal::OnFatal;

use crate::{WorkMemory, tier};

/// The tier's share of the cache in percent, if the compression ratio of the data is unknown.
const UNKNOWN_TIER_PERCENT: u32 = 20;

/// Two documents of the largest size.
const SMALL_MEMTABLE_BYTES: u64 = 32 << 20;

/// Options for opening the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for blocks and memtables together.
    pub cache_bytes: u64,
    /// Compressor of blocks that were evicted from the cache; `None` keeps none of them.
    pub cache_compression: Compressor,
    /// Share of `cache_bytes` for those blocks, in percent; none: adapts to the size and compression ratio of the
    /// data.
    pub cache_compressed_percent: Option<u8>,
    /// The interval at which the log is written and synced (`storage.journal.commitIntervalMs`).
    pub commit_interval_ms: u32,
    /// Compressor of documents, the change log and spilled runs.
    pub records_compression: Compressor,
    /// Compressor of index keys and the catalog.
    pub index_compression: Compressor,
    /// Compresses the log with zstd: helps for large records of uncompressed data, costs time for small ones.
    pub journal_compression: bool,
    /// Level of zstd compression; none: zstd's own default.
    pub zstd_level: Option<i32>,
    /// With zstd: bytes of a dictionary that is trained for each table file, 0 for none.
    pub zstd_dictionary_bytes: u32,
    /// Reads bypass the page cache, so that memory holds each block only once, if the file system supports that.
    /// Table files are always written without the page cache.
    pub direct_reads: bool,
    /// Fills the cache in the background after the start.
    pub warm_up: bool,
    /// Memtable size of one space; none: derived from the cache's size.
    pub write_buffer_bytes: Option<u64>,
    /// Disk space that stays free; none: derived from the file system's size.
    pub reserve_bytes: Option<u64>,
    /// What happens when the log cannot be written for another reason than a full disk.
    pub on_fatal: OnFatal,
    /// The keys of the data directory, if its files are encrypted.
    pub keys: Option<Arc<Keys>>,
    /// Accounts for the memory of flushes and compactions; none: nothing does.
    pub work_memory: Option<Arc<dyn WorkMemory>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cache_bytes: 1 << 30,
            cache_compression: Compressor::Lz4,
            cache_compressed_percent: None,
            commit_interval_ms: 100,
            records_compression: Compressor::Lz4,
            index_compression: Compressor::Lz4,
            journal_compression: false,
            zstd_level: None,
            zstd_dictionary_bytes: 4 << 10,
            direct_reads: true,
            warm_up: false,
            write_buffer_bytes: None,
            reserve_bytes: None,
            on_fatal: OnFatal::Exit,
            keys: None,
            work_memory: None,
        }
    }
}

impl Options {
    /// The keys of the data directory, if its files are encrypted.
    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.keys.as_deref()
    }

    /// The initial share of the compressed tier in the cache, in percent; none without a tier.
    pub(crate) fn tier_percent(&self) -> Option<u32> {
        match (self.cache_compression, self.cache_compressed_percent) {
            (Compressor::None, _) => None,
            (_, Some(percent)) => Some(u32::from(percent).clamp(tier::LEAST_PERCENT, 90)),
            // Uncompressed files do not show the compression ratio.
            _ if self.records_compression == Compressor::None => Some(UNKNOWN_TIER_PERCENT),
            _ => Some(tier::LEAST_PERCENT),
        }
    }

    /// Returns true if the tier's size adapts to the data.
    pub(crate) fn tier_adapts(&self) -> bool {
        self.cache_compression != Compressor::None
            && self.cache_compressed_percent.is_none()
            && self.records_compression != Compressor::None
    }

    /// The compressor of a space's blocks.
    pub(crate) fn compressor(&self, space: Space) -> Compressor {
        match space {
            Space::Records | Space::Changes | Space::Spill => self.records_compression,
            Space::Index | Space::Catalog | Space::Counters => self.index_compression,
            by_compressor => {
                Compressor::of_space(by_compressor).unwrap_or(self.records_compression)
            }
        }
    }

    /// Memtable size of a large space; other spaces get a fraction of it.
    pub(crate) fn write_buffer(&self) -> u64 {
        let from_cache = (self.cache_bytes / 16).clamp(4 << 20, 64 << 20);
        self.write_buffer_bytes.unwrap_or(from_cache).max(1 << 20)
    }

    /// Limit of all memtables together; part of `cache_bytes`.
    pub(crate) fn memtables_max(&self) -> u64 {
        (self.cache_bytes / 4).max(self.write_buffer() * 2)
    }

    /// Size of the log's ring buffer in shared memory: half a second of the fastest log; a fraction of a small
    /// budget; and little on a small disk, on which its content must fit.
    pub(crate) fn ring_bytes(&self) -> u64 {
        (self.cache_bytes / 32).clamp(2 << 20, 32 << 20).min(self.write_buffer() * 2)
    }

    /// True if a memtable may have no capacity for a second document of the largest size.
    pub(crate) fn has_small_memtables(&self) -> bool {
        self.write_buffer() < SMALL_MEMTABLE_BYTES
    }

    /// Log bytes after which the oldest memtables are flushed; limits the time of a recovery.
    pub(crate) fn log_max(&self) -> u64 {
        (self.write_buffer() * 4).clamp(16 << 20, 256 << 20)
    }
}
