//! The part of RocksDB's C interface that Nagi uses: `rocksdb/c.h`, declared by hand.
//!
//! The build compares each declaration with the header (`build/declared.rs`) and stops if a type differs. So the
//! build needs no tool that parses C, and the declarations cannot be outdated.
#![allow(non_camel_case_types, non_upper_case_globals, unsafe_code)]

use libc::c_uint;

/// Types that are used only through pointers.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            pub struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    rocksdb_block_based_table_options_t
    rocksdb_cache_t
    rocksdb_checkpoint_t
    rocksdb_column_family_handle_t
    rocksdb_compactoptions_t
    rocksdb_env_t
    rocksdb_envoptions_t
    rocksdb_filterpolicy_t
    rocksdb_flushoptions_t
    rocksdb_ingestexternalfileoptions_t
    rocksdb_iterator_t
    rocksdb_livefiles_storage_info_options_t
    rocksdb_livefiles_storage_info_t
    rocksdb_livefiles_t
    rocksdb_options_t
    rocksdb_pinnableslice_t
    rocksdb_ratelimiter_t
    rocksdb_readoptions_t
    rocksdb_snapshot_t
    rocksdb_sstfilewriter_t
    rocksdb_t
    rocksdb_write_buffer_manager_t
    rocksdb_writebatch_t
    rocksdb_writeoptions_t
}

pub const rocksdb_block_based_table_data_block_index_type_binary_search_and_hash: c_uint = 1;
pub const rocksdb_k_min_overlapping_ratio_compaction_pri: c_uint = 3;
pub const rocksdb_lz4_compression: c_uint = 4;
pub const rocksdb_no_compression: c_uint = 0;
pub const rocksdb_point_in_time_recovery: c_uint = 2;
pub const rocksdb_size_approximation_flags_include_files: c_uint = 2;
pub const rocksdb_size_approximation_flags_include_memtable: c_uint = 1;
pub const rocksdb_skip_any_corrupted_records_recovery: c_uint = 3;
pub const rocksdb_snappy_compression: c_uint = 1;
pub const rocksdb_statistics_level_except_histogram_or_timers: c_uint = 1;
pub const rocksdb_zlib_compression: c_uint = 2;
pub const rocksdb_zstd_compression: c_uint = 7;

unsafe extern "C" {
    pub fn rocksdb_approximate_sizes_cf_with_flags(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_ranges: libc::c_int,
        range_start_key: *const *const libc::c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const libc::c_char,
        range_limit_key_len: *const usize,
        include_flags: u8,
        sizes: *mut u64,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_batched_multi_get_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const libc::c_char,
        keys_list_sizes: *const usize,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut libc::c_char,
        sorted_input: bool,
    );
    pub fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t;
    pub fn rocksdb_block_based_options_destroy(options: *mut rocksdb_block_based_table_options_t);
    pub fn rocksdb_block_based_options_set_block_cache(
        options: *mut rocksdb_block_based_table_options_t,
        block_cache: *mut rocksdb_cache_t,
    );
    pub fn rocksdb_block_based_options_set_block_restart_interval(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_int,
    );
    pub fn rocksdb_block_based_options_set_index_type(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_int,
    );
    pub fn rocksdb_block_based_options_set_block_size(
        opt: *mut rocksdb_block_based_table_options_t,
        v: usize,
    );
    pub fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_block_based_options_set_data_block_hash_ratio(
        options: *mut rocksdb_block_based_table_options_t,
        v: f64,
    );
    pub fn rocksdb_block_based_options_set_data_block_index_type(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_int,
    );
    pub fn rocksdb_block_based_options_set_filter_policy(
        options: *mut rocksdb_block_based_table_options_t,
        filter_policy: *mut rocksdb_filterpolicy_t,
    );
    pub fn rocksdb_block_based_options_set_format_version(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_int,
    );
    pub fn rocksdb_block_based_options_set_index_block_search_type(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_int,
    );
    pub fn rocksdb_block_based_options_set_optimize_filters_for_memory(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_block_based_options_set_prepopulate_block_cache(
        opt: *mut rocksdb_block_based_table_options_t,
        v: libc::c_int,
    );
    pub fn rocksdb_block_based_options_set_uniform_cv_threshold(
        opt: *mut rocksdb_block_based_table_options_t,
        v: f64,
    );
    pub fn rocksdb_cache_destroy(cache: *mut rocksdb_cache_t);
    pub fn rocksdb_cache_get_capacity(cache: *const rocksdb_cache_t) -> usize;
    pub fn rocksdb_cache_get_occupancy_count(cache: *const rocksdb_cache_t) -> usize;
    pub fn rocksdb_cache_get_pinned_usage(cache: *const rocksdb_cache_t) -> usize;
    pub fn rocksdb_cache_get_usage(cache: *const rocksdb_cache_t) -> usize;
    pub fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize);
    pub fn rocksdb_cancel_all_background_work(db: *mut rocksdb_t, wait: libc::c_uchar);
    pub fn rocksdb_checkpoint_create(
        checkpoint: *mut rocksdb_checkpoint_t,
        checkpoint_dir: *const libc::c_char,
        log_size_for_flush: u64,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_checkpoint_object_create(
        db: *mut rocksdb_t,
        errptr: *mut *mut libc::c_char,
    ) -> *mut rocksdb_checkpoint_t;
    pub fn rocksdb_checkpoint_object_destroy(checkpoint: *mut rocksdb_checkpoint_t);
    pub fn rocksdb_close(db: *mut rocksdb_t);
    pub fn rocksdb_column_family_handle_destroy(arg1: *mut rocksdb_column_family_handle_t);
    pub fn rocksdb_column_family_handle_get_id(handle: *mut rocksdb_column_family_handle_t) -> u32;
    pub fn rocksdb_compact_range_cf_opt(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        opt: *mut rocksdb_compactoptions_t,
        start_key: *const libc::c_char,
        start_key_len: usize,
        limit_key: *const libc::c_char,
        limit_key_len: usize,
    );
    pub fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t;
    pub fn rocksdb_compactoptions_destroy(arg1: *mut rocksdb_compactoptions_t);
    pub fn rocksdb_compactoptions_set_bottommost_level_compaction(
        arg1: *mut rocksdb_compactoptions_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_compactoptions_set_exclusive_manual_compaction(
        arg1: *mut rocksdb_compactoptions_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_create_column_family(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const libc::c_char,
        errptr: *mut *mut libc::c_char,
    ) -> *mut rocksdb_column_family_handle_t;
    pub fn rocksdb_create_default_env() -> *mut rocksdb_env_t;
    pub fn rocksdb_create_iterator_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t;
    pub fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t;
    pub fn rocksdb_delete_file_in_range_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const libc::c_char,
        start_key_len: usize,
        limit_key: *const libc::c_char,
        limit_key_len: usize,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_delete_range_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const libc::c_char,
        start_key_len: usize,
        end_key: *const libc::c_char,
        end_key_len: usize,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_disable_manual_compaction(db: *mut rocksdb_t);
    pub fn rocksdb_enable_manual_compaction(db: *mut rocksdb_t);
    pub fn rocksdb_env_destroy(arg1: *mut rocksdb_env_t);
    pub fn rocksdb_env_lower_thread_pool_cpu_priority(env: *mut rocksdb_env_t);
    pub fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t;
    pub fn rocksdb_envoptions_destroy(opt: *mut rocksdb_envoptions_t);
    pub fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64)
    -> *mut rocksdb_filterpolicy_t;
    pub fn rocksdb_flush_cfs(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushoptions_t,
        column_family: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: libc::c_int,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_flush_wal(
        db: *mut rocksdb_t,
        sync: libc::c_uchar,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t;
    pub fn rocksdb_flushoptions_destroy(arg1: *mut rocksdb_flushoptions_t);
    pub fn rocksdb_flushoptions_set_allow_write_stall(
        opt: *mut rocksdb_flushoptions_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_flushoptions_set_wait(opt: *mut rocksdb_flushoptions_t, v: libc::c_uchar);
    pub fn rocksdb_free(ptr: *mut libc::c_void);
    pub fn rocksdb_get_into_buffer_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        keylen: usize,
        buffer: *mut libc::c_char,
        buffer_size: usize,
        vallen: *mut usize,
        found: *mut libc::c_uchar,
        errptr: *mut *mut libc::c_char,
    ) -> libc::c_uchar;
    pub fn rocksdb_get_latest_sequence_number(db: *mut rocksdb_t) -> u64;
    pub fn rocksdb_get_livefiles_storage_info(
        db: *mut rocksdb_t,
        options: *const rocksdb_livefiles_storage_info_options_t,
        errptr: *mut *mut libc::c_char,
    ) -> *mut rocksdb_livefiles_storage_info_t;
    pub fn rocksdb_ingest_external_file_cf(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        file_list: *const *const libc::c_char,
        list_len: usize,
        opt: *const rocksdb_ingestexternalfileoptions_t,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_ingestexternalfileoptions_create() -> *mut rocksdb_ingestexternalfileoptions_t;
    pub fn rocksdb_ingestexternalfileoptions_destroy(opt: *mut rocksdb_ingestexternalfileoptions_t);
    pub fn rocksdb_ingestexternalfileoptions_set_move_files(
        opt: *mut rocksdb_ingestexternalfileoptions_t,
        move_files: libc::c_uchar,
    );
    pub fn rocksdb_iter_destroy(arg1: *mut rocksdb_iterator_t);
    pub fn rocksdb_iter_get_error(arg1: *const rocksdb_iterator_t, errptr: *mut *mut libc::c_char);
    pub fn rocksdb_iter_seek(arg1: *mut rocksdb_iterator_t, k: *const libc::c_char, klen: usize);
    pub fn rocksdb_iter_seek_for_prev(
        arg1: *mut rocksdb_iterator_t,
        k: *const libc::c_char,
        klen: usize,
    );
    pub fn rocksdb_iter_seek_to_last(arg1: *mut rocksdb_iterator_t);
    pub fn rocksdb_list_column_families(
        options: *const rocksdb_options_t,
        name: *const libc::c_char,
        lencf: *mut usize,
        errptr: *mut *mut libc::c_char,
    ) -> *mut *mut libc::c_char;
    pub fn rocksdb_list_column_families_destroy(list: *mut *mut libc::c_char, len: usize);
    pub fn rocksdb_livefiles(db: *mut rocksdb_t) -> *const rocksdb_livefiles_t;
    pub fn rocksdb_livefiles_column_family_name(
        arg1: *const rocksdb_livefiles_t,
        index: libc::c_int,
    ) -> *const libc::c_char;
    pub fn rocksdb_livefiles_count(arg1: *const rocksdb_livefiles_t) -> libc::c_int;
    pub fn rocksdb_livefiles_deletions(arg1: *const rocksdb_livefiles_t, index: libc::c_int)
    -> u64;
    pub fn rocksdb_livefiles_destroy(arg1: *const rocksdb_livefiles_t);
    pub fn rocksdb_livefiles_entries(arg1: *const rocksdb_livefiles_t, index: libc::c_int) -> u64;
    pub fn rocksdb_livefiles_largestkey(
        arg1: *const rocksdb_livefiles_t,
        index: libc::c_int,
        size: *mut usize,
    ) -> *const libc::c_char;
    pub fn rocksdb_livefiles_level(
        arg1: *const rocksdb_livefiles_t,
        index: libc::c_int,
    ) -> libc::c_int;
    pub fn rocksdb_livefiles_name(
        arg1: *const rocksdb_livefiles_t,
        index: libc::c_int,
    ) -> *const libc::c_char;
    pub fn rocksdb_livefiles_size(arg1: *const rocksdb_livefiles_t, index: libc::c_int) -> usize;
    pub fn rocksdb_livefiles_smallestkey(
        arg1: *const rocksdb_livefiles_t,
        index: libc::c_int,
        size: *mut usize,
    ) -> *const libc::c_char;
    pub fn rocksdb_livefiles_storage_info_count(
        info: *const rocksdb_livefiles_storage_info_t,
    ) -> usize;
    pub fn rocksdb_livefiles_storage_info_destroy(info: *mut rocksdb_livefiles_storage_info_t);
    pub fn rocksdb_livefiles_storage_info_options_create()
    -> *mut rocksdb_livefiles_storage_info_options_t;
    pub fn rocksdb_livefiles_storage_info_options_destroy(
        options: *mut rocksdb_livefiles_storage_info_options_t,
    );
    pub fn rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(
        opt: *mut rocksdb_livefiles_storage_info_options_t,
        v: u64,
    );
    pub fn rocksdb_livefiles_storage_info_relative_filename(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> *const libc::c_char;
    pub fn rocksdb_livefiles_storage_info_size(
        info: *const rocksdb_livefiles_storage_info_t,
        index: usize,
    ) -> u64;
    pub fn rocksdb_open_column_families(
        options: *const rocksdb_options_t,
        name: *const libc::c_char,
        num_column_families: libc::c_int,
        column_family_names: *const *const libc::c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut libc::c_char,
    ) -> *mut rocksdb_t;
    pub fn rocksdb_open_for_read_only_column_families(
        options: *const rocksdb_options_t,
        name: *const libc::c_char,
        num_column_families: libc::c_int,
        column_family_names: *const *const libc::c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        error_if_wal_file_exists: libc::c_uchar,
        errptr: *mut *mut libc::c_char,
    ) -> *mut rocksdb_t;
    pub fn rocksdb_options_add_compact_on_deletion_collector_factory(
        arg1: *mut rocksdb_options_t,
        window_size: usize,
        num_dels_trigger: usize,
    );
    pub fn rocksdb_options_compaction_readahead_size(arg1: *mut rocksdb_options_t, arg2: usize);
    pub fn rocksdb_options_create() -> *mut rocksdb_options_t;
    pub fn rocksdb_options_destroy(arg1: *mut rocksdb_options_t);
    pub fn rocksdb_options_enable_statistics(arg1: *mut rocksdb_options_t);
    pub fn rocksdb_options_set_allow_concurrent_memtable_write(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_avoid_unnecessary_blocking_io(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_bottommost_file_compaction_delay(
        opt: *mut rocksdb_options_t,
        v: u32,
    );
    pub fn rocksdb_options_set_bytes_per_sync(arg1: *mut rocksdb_options_t, arg2: u64);
    pub fn rocksdb_options_set_compaction_pri(arg1: *mut rocksdb_options_t, arg2: libc::c_int);
    pub fn rocksdb_options_set_compression(arg1: *mut rocksdb_options_t, arg2: libc::c_int);
    pub fn rocksdb_options_set_compression_options(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
        arg3: libc::c_int,
        arg4: libc::c_int,
        arg5: libc::c_int,
    );
    pub fn rocksdb_options_set_compression_options_max_dict_buffer_bytes(
        arg1: *mut rocksdb_options_t,
        arg2: u64,
    );
    pub fn rocksdb_options_set_compression_options_zstd_max_train_bytes(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_compression_per_level(
        opt: *mut rocksdb_options_t,
        level_values: *const libc::c_int,
        num_levels: usize,
    );
    pub fn rocksdb_options_set_create_if_missing(arg1: *mut rocksdb_options_t, arg2: libc::c_uchar);
    pub fn rocksdb_options_set_create_missing_column_families(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_disable_auto_compactions(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_enable_pipelined_write(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_hard_pending_compaction_bytes_limit(
        opt: *mut rocksdb_options_t,
        v: usize,
    );
    pub fn rocksdb_options_set_keep_log_file_num(arg1: *mut rocksdb_options_t, arg2: usize);
    pub fn rocksdb_options_set_level0_file_num_compaction_trigger(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_level0_slowdown_writes_trigger(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_level0_stop_writes_trigger(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_level_compaction_dynamic_level_bytes(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_manifest_preallocation_size(
        arg1: *mut rocksdb_options_t,
        arg2: usize,
    );
    pub fn rocksdb_options_set_max_background_compactions(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_max_background_flushes(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_max_bytes_for_level_base(arg1: *mut rocksdb_options_t, arg2: u64);
    pub fn rocksdb_options_set_max_compaction_bytes(arg1: *mut rocksdb_options_t, arg2: u64);
    pub fn rocksdb_options_set_max_log_file_size(arg1: *mut rocksdb_options_t, arg2: usize);
    pub fn rocksdb_options_set_max_manifest_file_size(arg1: *mut rocksdb_options_t, arg2: usize);
    pub fn rocksdb_options_set_max_open_files(arg1: *mut rocksdb_options_t, arg2: libc::c_int);
    pub fn rocksdb_options_set_max_total_wal_size(opt: *mut rocksdb_options_t, n: u64);
    pub fn rocksdb_options_set_max_write_buffer_number(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_int,
    );
    pub fn rocksdb_options_set_memtable_op_scan_flush_trigger(
        arg1: *mut rocksdb_options_t,
        arg2: u32,
    );
    pub fn rocksdb_options_set_memtable_prefix_bloom_size_ratio(
        arg1: *mut rocksdb_options_t,
        arg2: f64,
    );
    pub fn rocksdb_options_set_memtable_whole_key_filtering(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_paranoid_checks(arg1: *mut rocksdb_options_t, arg2: libc::c_uchar);
    pub fn rocksdb_options_set_ratelimiter(
        opt: *mut rocksdb_options_t,
        limiter: *mut rocksdb_ratelimiter_t,
    );
    pub fn rocksdb_options_set_recycle_log_file_num(arg1: *mut rocksdb_options_t, arg2: usize);
    pub fn rocksdb_options_set_skip_stats_update_on_db_open(
        opt: *mut rocksdb_options_t,
        val: libc::c_uchar,
    );
    pub fn rocksdb_options_set_soft_pending_compaction_bytes_limit(
        opt: *mut rocksdb_options_t,
        v: usize,
    );
    pub fn rocksdb_options_set_statistics_level(arg1: *mut rocksdb_options_t, level: libc::c_int);
    pub fn rocksdb_options_set_stats_dump_period_sec(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uint,
    );
    pub fn rocksdb_options_set_stats_persist_period_sec(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uint,
    );
    pub fn rocksdb_options_set_target_file_size_base(arg1: *mut rocksdb_options_t, arg2: u64);
    pub fn rocksdb_options_set_uncache_aggressiveness(opt: *mut rocksdb_options_t, v: u32);
    pub fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        arg1: *mut rocksdb_options_t,
        arg2: libc::c_uchar,
    );
    pub fn rocksdb_options_set_use_direct_reads(arg1: *mut rocksdb_options_t, arg2: libc::c_uchar);
    pub fn rocksdb_options_set_wal_bytes_per_sync(arg1: *mut rocksdb_options_t, arg2: u64);
    pub fn rocksdb_options_set_wal_compression(opt: *mut rocksdb_options_t, arg1: libc::c_int);
    pub fn rocksdb_options_set_wal_dir(arg1: *mut rocksdb_options_t, arg2: *const libc::c_char);
    pub fn rocksdb_options_set_wal_recovery_mode(arg1: *mut rocksdb_options_t, arg2: libc::c_int);
    pub fn rocksdb_options_set_writable_file_max_buffer_size(
        arg1: *mut rocksdb_options_t,
        arg2: u64,
    );
    pub fn rocksdb_options_set_write_buffer_manager(
        opt: *mut rocksdb_options_t,
        wbm: *mut rocksdb_write_buffer_manager_t,
    );
    pub fn rocksdb_options_set_write_buffer_size(arg1: *mut rocksdb_options_t, arg2: usize);
    pub fn rocksdb_options_statistics_get_ticker_count(
        opt: *mut rocksdb_options_t,
        ticker_type: u32,
    ) -> u64;
    pub fn rocksdb_pinnableslice_destroy(v: *mut rocksdb_pinnableslice_t);
    pub fn rocksdb_pinnableslice_value(
        t: *const rocksdb_pinnableslice_t,
        vlen: *mut usize,
    ) -> *const libc::c_char;
    pub fn rocksdb_property_int(
        db: *mut rocksdb_t,
        propname: *const libc::c_char,
        out_val: *mut u64,
    ) -> libc::c_int;
    pub fn rocksdb_property_int_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        propname: *const libc::c_char,
        out_val: *mut u64,
    ) -> libc::c_int;
    pub fn rocksdb_property_value_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        propname: *const libc::c_char,
    ) -> *mut libc::c_char;
    pub fn rocksdb_ratelimiter_create(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t;
    pub fn rocksdb_ratelimiter_destroy(arg1: *mut rocksdb_ratelimiter_t);
    pub fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t;
    pub fn rocksdb_readoptions_destroy(arg1: *mut rocksdb_readoptions_t);
    pub fn rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot(
        opt: *mut rocksdb_readoptions_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_readoptions_set_background_purge_on_iterator_cleanup(
        opt: *mut rocksdb_readoptions_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_readoptions_set_fill_cache(opt: *mut rocksdb_readoptions_t, v: libc::c_uchar);
    pub fn rocksdb_readoptions_set_iterate_lower_bound(
        arg1: *mut rocksdb_readoptions_t,
        key: *const libc::c_char,
        keylen: usize,
    );
    pub fn rocksdb_readoptions_set_iterate_upper_bound(
        arg1: *mut rocksdb_readoptions_t,
        key: *const libc::c_char,
        keylen: usize,
    );
    pub fn rocksdb_readoptions_set_readahead_size(opt: *mut rocksdb_readoptions_t, v: usize);
    pub fn rocksdb_readoptions_set_snapshot(
        arg1: *mut rocksdb_readoptions_t,
        arg2: *const rocksdb_snapshot_t,
    );
    pub fn rocksdb_readoptions_set_verify_checksums(
        opt: *mut rocksdb_readoptions_t,
        v: libc::c_uchar,
    );
    pub fn rocksdb_release_snapshot(db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t);
    pub fn rocksdb_repair_db(
        options: *const rocksdb_options_t,
        name: *const libc::c_char,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_set_options_cf(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        count: libc::c_int,
        keys: *const *const libc::c_char,
        values: *const *const libc::c_char,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_snapshot_get_sequence_number(snapshot: *const rocksdb_snapshot_t) -> u64;
    pub fn rocksdb_sstfilewriter_create(
        env: *const rocksdb_envoptions_t,
        io_options: *const rocksdb_options_t,
    ) -> *mut rocksdb_sstfilewriter_t;
    pub fn rocksdb_sstfilewriter_destroy(writer: *mut rocksdb_sstfilewriter_t);
    pub fn rocksdb_sstfilewriter_finish(
        writer: *mut rocksdb_sstfilewriter_t,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_sstfilewriter_open(
        writer: *mut rocksdb_sstfilewriter_t,
        name: *const libc::c_char,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_sstfilewriter_put(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const libc::c_char,
        keylen: usize,
        val: *const libc::c_char,
        vallen: usize,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_verify_checksum_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_write(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut libc::c_char,
    );
    pub fn rocksdb_write_buffer_manager_create_with_cache(
        buffer_size: usize,
        cache: *const rocksdb_cache_t,
        allow_stall: bool,
    ) -> *mut rocksdb_write_buffer_manager_t;
    pub fn rocksdb_write_buffer_manager_destroy(wbm: *mut rocksdb_write_buffer_manager_t);
    pub fn rocksdb_writebatch_clear(b: *mut rocksdb_writebatch_t);
    pub fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t;
    pub fn rocksdb_writebatch_data(
        arg1: *mut rocksdb_writebatch_t,
        size: *mut usize,
    ) -> *const libc::c_char;
    pub fn rocksdb_writebatch_delete_cf(
        arg1: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        klen: usize,
    );
    pub fn rocksdb_writebatch_destroy(arg1: *mut rocksdb_writebatch_t);
    pub fn rocksdb_writebatch_merge_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        klen: usize,
        val: *const libc::c_char,
        vlen: usize,
    );
    pub fn rocksdb_writebatch_put_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        klen: usize,
        val: *const libc::c_char,
        vlen: usize,
    );
    pub fn rocksdb_writebatch_put_log_data(
        b: *mut rocksdb_writebatch_t,
        blob: *const libc::c_char,
        len: usize,
    );
    pub fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t;
    pub fn rocksdb_writeoptions_destroy(arg1: *mut rocksdb_writeoptions_t);
}
