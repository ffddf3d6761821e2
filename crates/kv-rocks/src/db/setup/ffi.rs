//! RocksDB's options for this engine.
//!
//! The options were measured. Direct I/O for flushes and compactions together with recycled log files removed
//! stalls of seconds, which the page cache's writeback causes. An unpartitioned index in a lock-free cache gives
//! the cheapest point reads. Commits are serialized by the engine's commit lock, so concurrent memtable inserts are
//! off.
#![expect(unsafe_code)]

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use nagi_encryption::Keys;
use nagi_kv::{Compressor, Result, Space, reuse::Reuse};
use nagi_rocksdb_sys as ffi;

use super::super::{ffi::checked, file_list, listen::listen, native};
use crate::{
    capacity, encrypted,
    options::Options,
    quarantine::Damaged,
    ring_buffer::{Environment, RingBuffer},
    work_memory::READ_AHEAD_BYTES,
};

const LEVELS: usize = 7;
/// At most one of 16 blocks is in the sample that tells what a cache of another size would do: a read of a block takes
/// microseconds, and a small cache has few blocks.
const SAMPLED_SHIFT: u32 = 4;
/// With this many files allowed, all tables of a terabyte can stay open.
const FILES_ENOUGH: u64 = 16_000;
/// With fewer: the files that are open in addition to tables and connections (logs, runs of queries, a backup).
const FILES_BESIDE: u64 = 64;
const FILES_LEAST: u64 = 20;
/// Age at which a file is rewritten only to drop old versions.
const REWRITE_AFTER_S: u32 = 3600;
/// Rate limit of background writes until the governor's first step, in bytes per second.
const RATE_AT_START: i64 = 4 << 30;
/// The limiter refills at this short interval, so that there are no noticeable bursts.
const REFILL_US: i64 = 10_000;
/// Compactions get their turn before flushes once in this many times.
const FAIRNESS: i32 = 10;
/// `BlockSearchType::kAuto`.
const SEARCH_BY_HINT: c_int = 2;
/// The compressor's own default level: RocksDB's `kDefaultCompressionLevel`.
const DEFAULT_LEVEL: c_int = 32767;
/// RocksDB's default; zstd does not use it.
const WINDOW_BITS: c_int = -14;
/// A dictionary is trained on this many times its size of data, which is buffered while a table file is written.
const TRAINING_PART: c_int = 64;

/// Properties of the system, and the mode of opening.
#[derive(Clone)]
pub(crate) struct System {
    /// The file system supports `O_DIRECT`.
    pub(crate) direct_io: bool,
    /// Reads bypass the page cache, too.
    pub(crate) direct_reads: bool,
    /// Limit of open files of this process.
    pub(crate) files_max: u64,
    /// The ring buffer of the log; none without a memory file system.
    pub(crate) ring_buffer: Option<Arc<RingBuffer>>,
    /// Opens as much as possible and changes as little as possible: for reading damaged data.
    pub(crate) salvage: bool,
    /// Read-only: nothing is written.
    pub(crate) read_only: bool,
}

impl System {
    /// With the page cache, without a ring buffer, everything opened for writing.
    pub(crate) fn plain() -> System {
        System {
            direct_io: false,
            direct_reads: false,
            files_max: capacity::raise_file_limit(),
            ring_buffer: None,
            salvage: false,
            read_only: false,
        }
    }
}

/// All option objects; freed when dropped. RocksDB copies what it needs at open.
pub(crate) struct Setup {
    pub(crate) database: *mut ffi::rocksdb_options_t,
    pub(crate) spaces: Vec<*mut ffi::rocksdb_options_t>,
    pub(crate) cache: *mut ffi::rocksdb_cache_t,
    /// The sample of the cache's reads; the cache has a pointer to it.
    pub(crate) reuse: Box<Reuse>,
    /// Rate limiter of flushes and compactions.
    limiter: *mut ffi::rocksdb_ratelimiter_t,
    remover: *mut native::Remover,
    /// Damage met by compactions; the database has a pointer to it.
    pub(crate) damaged: Box<Damaged>,
    /// Freed after the database is closed, like all fields.
    _environment: Option<Environment>,
    /// What the one above stands on, if the files are encrypted.
    pub(crate) encrypted: Option<encrypted::Environment>,
    keys: Option<Arc<Keys>>,
}

impl Drop for Setup {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed once; the database holds references of its own.
        unsafe {
            ffi::rocksdb_options_destroy(self.database);
            for options in &self.spaces {
                ffi::rocksdb_options_destroy(*options);
            }
            if !self.cache.is_null() {
                ffi::rocksdb_cache_destroy(self.cache);
            }
            ffi::rocksdb_ratelimiter_destroy(self.limiter);
            native::nagi_remover_destroy(self.remover);
        }
    }
}

impl Setup {
    pub(crate) fn new(dir: &Path, options: &Options, system: &System) -> Setup {
        let reuse = Box::new(Reuse::new(SAMPLED_SHIFT, options.cache_bytes));
        // SAFETY: plain constructors; every pointer below is valid until `drop`.
        unsafe {
            let cache = native::nagi_cache_create(
                options.cache_bytes as usize,
                code(options.cache_compression),
                f64::from(options.tier_percent().unwrap_or(0)) / 100.0,
                (&raw const *reuse).cast(),
                reuse.threshold().as_ptr().cast_const(),
            );
            let mut damaged = Box::<Damaged>::default();
            let closing: *const AtomicBool = &raw const damaged.closing;
            let spaces =
                Space::ALL.iter().map(|space| space_options(*space, options, cache, closing));
            let database = database_options(options, system, cache);
            let keys = options.keys.clone();
            let encrypted = keys.as_ref().map(encrypted::Environment::new);
            match &encrypted {
                Some(encrypted) => encrypted.install(database),
                None => native::nagi_options_read_back(database),
            }
            let install =
                |ring_buffer| Environment::install(database, ring_buffer, dir, keys.as_ref());
            let environment = system.ring_buffer.as_ref().map(install);
            let remover = native::nagi_remover_create(database);
            let limiter = ffi::rocksdb_ratelimiter_create(RATE_AT_START, REFILL_US, FAIRNESS);
            ffi::rocksdb_options_set_ratelimiter(database, limiter);
            lower_priority_of_compaction();
            native::nagi_compaction_last_at_the_disk(database);
            damaged.work_memory.clone_from(&options.work_memory);
            listen(database, &damaged);
            let spaces: Vec<_> = spaces.collect();
            if let Some(encrypted) = &encrypted {
                // Tables of loads and of a repair are made with these alone.
                spaces.iter().for_each(|space| encrypted.install(*space));
            }
            if system.salvage {
                for space in &spaces {
                    ffi::rocksdb_options_set_disable_auto_compactions(*space, 1);
                }
            }
            Setup {
                database,
                spaces,
                cache,
                reuse,
                limiter,
                damaged,
                remover,
                _environment: environment,
                encrypted,
                keys,
            }
        }
    }

    /// Sets how many bytes per second flushes and compactions may write.
    pub(crate) fn set_background_rate(&self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        // SAFETY: the limiter lives as long as `self`; it is made for calls from any thread.
        unsafe { native::nagi_rate_limiter_set(self.limiter, bytes) }
    }

    /// Sets how many bytes per second of obsolete files are removed; none: no limit.
    pub(crate) fn set_removal_rate(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        // SAFETY: the remover lives as long as `self`; it is made for calls from any thread.
        unsafe { native::nagi_remover_set_rate(self.remover, bytes) }
    }

    /// The number of column families of the database in the folder.
    ///
    /// # Errors
    /// There is no database, or its manifest cannot be read.
    pub(crate) fn family_count(&self, folder: &CStr) -> Result<usize> {
        Ok(self.families(folder)?.len())
    }

    /// The names of the column families of the database in the folder.
    fn families(&self, folder: &CStr) -> Result<Vec<Vec<u8>>> {
        let (mut found, mut count) = (Vec::new(), 0);
        // SAFETY: the list has `count` zero-terminated names and is freed once, with that count.
        unsafe {
            let list = checked(|error| {
                ffi::rocksdb_list_column_families(
                    self.database,
                    folder.as_ptr(),
                    &raw mut count,
                    error,
                )
            })?;
            if !list.is_null() {
                found
                    .extend((0..count).map(|at| CStr::from_ptr(*list.add(at)).to_bytes().to_vec()));
                ffi::rocksdb_list_column_families_destroy(list, count);
            }
        }
        Ok(found)
    }

    /// The spaces to open in the folder: those that every store has, and those that were created.
    ///
    /// # Errors
    /// The file list is damaged in a way that would make RocksDB loop.
    pub(crate) fn present(&self, folder: &CStr) -> Result<Vec<Space>> {
        file_list::check(Path::new(OsStr::from_bytes(folder.to_bytes())), self.keys.as_deref())?;
        // A folder without a database means that nothing was created yet.
        let found = self.families(folder).unwrap_or_default();
        let made = |space: &Space| found.iter().any(|name| name == space.name().as_bytes());
        let wanted = |space: &Space| Space::CORE.contains(space) || made(space);
        Ok(Space::ALL.into_iter().filter(wanted).collect())
    }

    /// The options of the default family and of these spaces, in the order of [`names`].
    pub(crate) fn options(&self, spaces: &[Space]) -> Vec<*const ffi::rocksdb_options_t> {
        let spaces = spaces.iter().map(|space| self.spaces[*space as usize]);
        std::iter::once(self.database).chain(spaces).map(|o| o.cast_const()).collect()
    }
}

/// Lowers the CPU priority of compaction threads, so that they yield to requests if there are too few cores. The
/// threads are those of the whole process.
fn lower_priority_of_compaction() {
    // SAFETY: the default environment lives as long as the process; this frees the handle only.
    unsafe {
        let env = ffi::rocksdb_create_default_env();
        ffi::rocksdb_env_lower_thread_pool_cpu_priority(env);
        ffi::rocksdb_env_destroy(env);
    }
}

/// How long RocksDB searches the cache for blocks of a removed file although it finds few: until its estimate that the
/// next one is found is below 0.99^9999, that is for all blocks.
const UNCACHE_AGGRESSIVENESS: u32 = 10_000;
/// A step of a scan that passes more deleted entries of a memtable than this has it flushed: two milliseconds. Less
/// would often write small files with the entries of all collections, each of which is merged with much of the next
/// level.
const STEPPED_OVER_MAX: u32 = 8000;
/// Concurrent flushes. One alone waits for the disk half of the time, and then commits wait for it.
const FLUSHES_MAX: c_int = 2;
/// Concurrent compactions.
const COMPACTIONS_MAX: c_int = 3;
/// Level-0 files that are merged at once; `upkeep` has the same number.
const MERGED_FILES: c_int = 6;
/// What a file is written with at once; `kDirectPiece` of native/encrypted.cc is the same.
const WRITE_BYTES: u64 = 1 << 20;
/// RocksDB's buffer of an encrypted file.
const COLLECTED_BYTES: u64 = 64 << 10;
/// Keys of one collection or index have these first bytes in common.
const IDENT_BYTES: usize = 4;

/// SAFETY: `cache` is a live cache.
unsafe fn database_options(
    options: &Options,
    system: &System,
    cache: *mut ffi::rocksdb_cache_t,
) -> *mut ffi::rocksdb_options_t {
    // SAFETY: setters on an object created here.
    unsafe {
        let db = ffi::rocksdb_options_create();
        ffi::rocksdb_options_set_create_if_missing(db, 1);
        ffi::rocksdb_options_set_create_missing_column_families(db, 1);
        // Applies to the family `default`, which stays empty. After a full disk RocksDB accepts writes again only
        // if the free space exceeds the largest memtable.
        ffi::rocksdb_options_set_write_buffer_size(db, 1 << 20);
        ffi::rocksdb_options_set_max_background_flushes(db, FLUSHES_MAX);
        ffi::rocksdb_options_set_max_background_compactions(db, COMPACTIONS_MAX);
        // All tables stay open, unless the system allows too few files. Connections may have four fifths of them.
        let few = (system.files_max / 5).saturating_sub(FILES_BESIDE).max(FILES_LEAST);
        let files = if system.files_max < FILES_ENOUGH { few } else { u64::MAX };
        ffi::rocksdb_options_set_max_open_files(db, i32::try_from(files).unwrap_or(-1));
        ffi::rocksdb_options_set_use_direct_io_for_flush_and_compaction(
            db,
            system.direct_io.into(),
        );
        ffi::rocksdb_options_set_use_direct_reads(db, system.direct_reads.into());
        ffi::rocksdb_options_compaction_readahead_size(db, READ_AHEAD_BYTES);
        ffi::rocksdb_options_set_bytes_per_sync(db, 1 << 20);
        ffi::rocksdb_options_set_wal_bytes_per_sync(db, 1 << 20);
        // An encrypted file writes from a buffer of its own, so this one only collects small pieces: a large one would
        // be out of the processor's cache when it is encrypted, and a second megabyte for each file.
        let collected = if options.keys.is_some() { COLLECTED_BYTES } else { WRITE_BYTES };
        ffi::rocksdb_options_set_writable_file_max_buffer_size(db, collected);
        ffi::rocksdb_options_set_avoid_unnecessary_blocking_io(db, 1);
        // The log: each commit is written to the operating system (so it survives the process), and a thread syncs it
        // (nagi_kv_disk::journal). Log files are recycled instead of allocated again. Buffering in the process would
        // save a microsecond per commit, but then RocksDB could not recover from a full disk.
        ffi::rocksdb_options_set_recycle_log_file_num(db, 4);
        if options.journal_compression {
            ffi::rocksdb_options_set_wal_compression(db, ffi::rocksdb_zstd_compression as c_int);
        }
        ffi::rocksdb_options_set_wal_recovery_mode(
            db,
            ffi::rocksdb_point_in_time_recovery as c_int,
        );
        ffi::rocksdb_options_set_max_total_wal_size(db, options.log_max());
        ffi::rocksdb_options_set_allow_concurrent_memtable_write(db, 0);
        ffi::rocksdb_options_set_enable_pipelined_write(db, 0);
        // Memtables are charged to the cache, so both together stay within `cache_bytes`.
        let memtables = ffi::rocksdb_write_buffer_manager_create_with_cache(
            options.memtables_max() as usize,
            cache,
            false,
        );
        ffi::rocksdb_options_set_write_buffer_manager(db, memtables);
        ffi::rocksdb_write_buffer_manager_destroy(memtables);
        ffi::rocksdb_options_enable_statistics(db);
        ffi::rocksdb_options_set_statistics_level(
            db,
            ffi::rocksdb_statistics_level_except_histogram_or_timers as c_int,
        );
        ffi::rocksdb_options_set_stats_dump_period_sec(db, 0);
        ffi::rocksdb_options_set_stats_persist_period_sec(db, 0);
        ffi::rocksdb_options_set_keep_log_file_num(db, 3);
        ffi::rocksdb_options_set_max_log_file_size(db, 8 << 20);
        ffi::rocksdb_options_set_max_manifest_file_size(db, 16 << 20);
        let ahead = usize::try_from(options.write_buffer() / 4).unwrap_or(usize::MAX);
        ffi::rocksdb_options_set_manifest_preallocation_size(db, ahead.min(4 << 20));
        ffi::rocksdb_options_set_skip_stats_update_on_db_open(db, 1);
        if system.salvage {
            tolerate(db);
        }
        db
    }
}

/// Opens even if some tables cannot be opened, and reads past gaps in the log.
///
/// SAFETY: `db` is a live options object.
unsafe fn tolerate(db: *mut ffi::rocksdb_options_t) {
    const FILES_OPEN: c_int = 256;
    // SAFETY: promised by the caller.
    unsafe {
        ffi::rocksdb_options_set_create_if_missing(db, 0);
        ffi::rocksdb_options_set_paranoid_checks(db, 0);
        // All tables are opened at the start only if all may stay open.
        ffi::rocksdb_options_set_max_open_files(db, FILES_OPEN);
        ffi::rocksdb_options_set_recycle_log_file_num(db, 0);
        ffi::rocksdb_options_set_wal_recovery_mode(
            db,
            ffi::rocksdb_skip_any_corrupted_records_recovery as c_int,
        );
    }
}

/// The data blocks of a space.
#[derive(Clone, Copy)]
struct Blocks {
    bytes: usize,
    /// Entries between two whole keys: the number that a read of one key steps over at most.
    entries_per_key: c_int,
    /// The index has the first key of each block. A cursor that moves forward then reads a block of a file when it
    /// arrives there; otherwise it holds a block of each file in which it will continue.
    first_keys: bool,
}

impl Blocks {
    const DEFAULT: Blocks = Blocks { bytes: 16 << 10, entries_per_key: 16, first_keys: false };
}

/// A scan finds, pins and releases each block in the cache, so it needs a quarter more time with blocks of 4 KB. Keys
/// are short beside documents, so a whole key for every fourth costs little, and a point read steps over no more
/// documents than in a small block.
const RECORD_BLOCKS: Blocks = Blocks { bytes: 8 << 10, entries_per_key: 4, first_keys: true };

/// SAFETY: `cache` is a live cache, and `closing` outlives the database.
unsafe fn space_options(
    space: Space,
    options: &Options,
    cache: *mut ffi::rocksdb_cache_t,
    closing: *const AtomicBool,
) -> *mut ffi::rocksdb_options_t {
    let whole = options.write_buffer() as usize;
    let (write_buffer, blocks) = match space {
        Space::Records
        | Space::RecordsNone
        | Space::RecordsSnappy
        | Space::RecordsZlib
        | Space::RecordsZstd
        | Space::RecordsLz4 => match options.compressor(space) {
            // Its dictionary makes small blocks as dense as large ones; with large ones it only costs space.
            Compressor::Zstd => (whole, Blocks { bytes: 4 << 10, ..RECORD_BLOCKS }),
            _ => (whole, RECORD_BLOCKS),
        },
        Space::Index => (whole / 2, Blocks { bytes: 4 << 10, ..Blocks::DEFAULT }),
        // Files of its level 0 follow each other.
        Space::Changes => (whole / 2, Blocks { first_keys: true, ..Blocks::DEFAULT }),
        Space::Spill => (whole / 2, Blocks::DEFAULT),
        Space::Catalog | Space::Counters => {
            (whole / 8, Blocks { bytes: 4 << 10, ..Blocks::DEFAULT })
        }
    };
    // SAFETY: setters on objects created here; RocksDB copies the table options and the level list.
    unsafe {
        let cf = ffi::rocksdb_options_create();
        ffi::rocksdb_options_set_write_buffer_size(cf, write_buffer.max(512 << 10));
        ffi::rocksdb_options_set_max_write_buffer_number(cf, 8);
        ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(cf, 1);
        ffi::rocksdb_options_set_target_file_size_base(cf, (whole as u64).max(8 << 20));
        ffi::rocksdb_options_set_max_bytes_for_level_base(cf, (whole as u64 * 8).max(64 << 20));
        // Also limits merges within level 0: a single file with half of the data there would be written twice, and
        // its successor would leave half of the cache cold at once.
        ffi::rocksdb_options_set_max_compaction_bytes(cf, (whole as u64 * 4).max(32 << 20));
        ffi::rocksdb_options_set_level0_file_num_compaction_trigger(cf, MERGED_FILES);
        ffi::rocksdb_options_set_level0_slowdown_writes_trigger(cf, 40);
        ffi::rocksdb_options_set_level0_stop_writes_trigger(cf, 80);
        ffi::rocksdb_options_set_soft_pending_compaction_bytes_limit(cf, 256 << 30);
        ffi::rocksdb_options_set_hard_pending_compaction_bytes_limit(cf, 1 << 40);
        ffi::rocksdb_options_set_compaction_pri(
            cf,
            ffi::rocksdb_k_min_overlapping_ratio_compaction_pri as c_int,
        );
        // Point reads of a key that is not in a memtable should not search the memtable.
        ffi::rocksdb_options_set_memtable_prefix_bloom_size_ratio(cf, 0.02);
        ffi::rocksdb_options_set_memtable_whole_key_filtering(cf, 1);
        native::nagi_options_insert_near_last(cf, IDENT_BYTES);
        if space.is_records() {
            native::nagi_options_merge_differences(cf);
        }
        // Files that kept versions for a snapshot when they were written are rewritten once the snapshot is
        // released. With a snapshot per transaction that applies to every file, soon after it was written.
        ffi::rocksdb_options_set_bottommost_file_compaction_delay(cf, REWRITE_AFTER_S);
        // Files in which half of a window of entries are deletions (queues, expiry) are compacted, because scans
        // are slow there. Memtables are flushed for the same reason: here with the next write after a scan stepped
        // over many entries, and by the reclaim thread.
        ffi::rocksdb_options_add_compact_on_deletion_collector_factory(cf, 2048, 1024);
        ffi::rocksdb_options_set_memtable_op_scan_flush_trigger(cf, STEPPED_OVER_MAX);
        // Blocks of files that a compaction has replaced leave the cache with the file. Without this they stay until
        // they are evicted, and a scan cannot add its blocks to a cache that is full of them.
        ffi::rocksdb_options_set_uncache_aggressiveness(cf, UNCACHE_AGGRESSIVENESS);
        set_compression(cf, options.compressor(space), options);
        let table = table_options(blocks, cache);
        native::nagi_options_tables(cf, table, closing);
        ffi::rocksdb_block_based_options_destroy(table);
        cf
    }
}

/// Level 0 is not compressed, because new files are read and rewritten soon.
///
/// SAFETY: `cf` is a live options object.
unsafe fn set_compression(
    cf: *mut ffi::rocksdb_options_t,
    compression: Compressor,
    options: &Options,
) {
    let code = code(compression);
    let mut levels = [code; LEVELS];
    levels[0] = ffi::rocksdb_no_compression as c_int;
    // SAFETY: the list is copied.
    unsafe {
        ffi::rocksdb_options_set_compression(cf, code);
        ffi::rocksdb_options_set_compression_per_level(cf, levels.as_ptr(), levels.len());
        if compression == Compressor::Zstd {
            let level = options.zstd_level.unwrap_or(DEFAULT_LEVEL);
            let dictionary = options.zstd_dictionary_bytes as c_int;
            ffi::rocksdb_options_set_compression_options(cf, WINDOW_BITS, level, 0, dictionary);
            ffi::rocksdb_options_set_compression_options_zstd_max_train_bytes(
                cf,
                dictionary * TRAINING_PART,
            );
            ffi::rocksdb_options_set_compression_options_max_dict_buffer_bytes(
                cf,
                dictionary as u64 * TRAINING_PART as u64,
            );
        }
    }
}

/// RocksDB's `kBinarySearchWithFirstKey`, for which its C interface has no name.
const FIRST_KEYS: c_int = 3;

/// RocksDB's number of a compressor.
fn code(compression: Compressor) -> c_int {
    let code = match compression {
        Compressor::None => ffi::rocksdb_no_compression,
        Compressor::Snappy => ffi::rocksdb_snappy_compression,
        Compressor::Zlib => ffi::rocksdb_zlib_compression,
        Compressor::Lz4 => ffi::rocksdb_lz4_compression,
        Compressor::Zstd => ffi::rocksdb_zstd_compression,
    };
    code as c_int
}

/// SAFETY: `cache` is a live cache.
unsafe fn table_options(
    blocks: Blocks,
    cache: *mut ffi::rocksdb_cache_t,
) -> *mut ffi::rocksdb_block_based_table_options_t {
    // SAFETY: setters on an object created here; the filter policy is owned by it from then on.
    unsafe {
        let table = ffi::rocksdb_block_based_options_create();
        ffi::rocksdb_block_based_options_set_block_cache(table, cache);
        ffi::rocksdb_block_based_options_set_block_size(table, blocks.bytes);
        ffi::rocksdb_block_based_options_set_block_restart_interval(table, blocks.entries_per_key);
        native::nagi_table_large_alone(table);
        if blocks.first_keys {
            ffi::rocksdb_block_based_options_set_index_type(table, FIRST_KEYS);
        }
        ffi::rocksdb_block_based_options_set_format_version(table, 7);
        ffi::rocksdb_block_based_options_set_filter_policy(
            table,
            ffi::rocksdb_filterpolicy_create_bloom_full(10.0),
        );
        ffi::rocksdb_block_based_options_set_optimize_filters_for_memory(table, 1);
        // Evenly distributed keys in an index block (such as record ids) are found by interpolation search: binary
        // search took a quarter of the time of a point read. RocksDB decides by the block's hint.
        ffi::rocksdb_block_based_options_set_uniform_cv_threshold(table, 0.3);
        ffi::rocksdb_block_based_options_set_index_block_search_type(table, SEARCH_BY_HINT);
        ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
        ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(
            table, 1,
        );
        ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
        ffi::rocksdb_block_based_options_set_data_block_index_type(
            table,
            ffi::rocksdb_block_based_table_data_block_index_type_binary_search_and_hash as c_int,
        );
        ffi::rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
        // New blocks go to the cache at once (`Warm::All`); `set_warm` may change that later.
        ffi::rocksdb_block_based_options_set_prepopulate_block_cache(table, 2);
        table
    }
}

/// Names of the column families: `default`, which stays empty, then these spaces.
pub(crate) fn names(spaces: &[Space]) -> Vec<CString> {
    let names = std::iter::once("default").chain(spaces.iter().map(|space| space.name()));
    names.map(|name| CString::new(name).expect("names have no zero byte")).collect()
}

/// The names as C strings.
pub(crate) fn pointers(names: &[CString]) -> Vec<*const c_char> {
    names.iter().map(|name| name.as_ptr()).collect()
}
