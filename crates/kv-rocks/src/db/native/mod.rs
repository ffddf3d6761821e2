//! The crate's own C++ (`native/*.cc`), which adds functions that RocksDB's C interface lacks. All of it is
//! `unsafe`, so the code is in `ffi.rs`.

mod ffi;

pub use ffi::make_unreadable;
pub(crate) use ffi::table_opens;
pub(super) use ffi::{
    Entry, Remover, ScanHandle, TableKeysHandle, nagi_batch_append, nagi_batch_reserve,
    nagi_cache_create, nagi_cache_set_share, nagi_compaction_last_at_the_disk, nagi_iterator_step,
    nagi_options_insert_near_last, nagi_options_merge_differences, nagi_options_read_back,
    nagi_options_tables, nagi_rate_limiter_set, nagi_remover_create, nagi_remover_destroy,
    nagi_remover_set_rate, nagi_scan_create, nagi_scan_destroy, nagi_scan_get_error,
    nagi_scan_next, nagi_scan_seek, nagi_table_keys_close, nagi_table_keys_move,
    nagi_table_keys_open, nagi_table_large_alone,
};
