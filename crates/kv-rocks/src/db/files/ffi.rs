//! Lists table files, rewrites a range of them, and verifies all of them.
#![expect(unsafe_code)]

use std::{ffi::CStr, sync::atomic::Ordering};

use nagi_kv::{Error, Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::ffi::{Db, bytes, checked};

/// A table file that is part of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LiveFile {
    /// Its name in the folder of the database.
    pub(crate) name: String,
    pub(crate) space: Space,
    /// The deepest level is the oldest data.
    pub(crate) level: i32,
    pub(crate) byte_count: u64,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// Puts and deletions.
    pub(crate) entry_count: u64,
    pub(crate) deletion_count: u64,
}

/// Removed keys may also be in the deepest level, so files there that this call has not written are rewritten, too
/// (`BottommostLevelCompaction::kForceOptimized`).
const REWRITE_DEEPEST: u8 = 3;

impl Db {
    /// The names of all table files of all families.
    pub(crate) fn live_file_names(&self) -> Vec<String> {
        // SAFETY: the list is freed after the copies; strings live as long as the list.
        unsafe {
            let list = ffi::rocksdb_livefiles(self.raw);
            let name = |index| CStr::from_ptr(ffi::rocksdb_livefiles_name(list, index));
            let names = (0..ffi::rocksdb_livefiles_count(list)).map(name);
            let names = names.map(|n| n.to_string_lossy().trim_start_matches('/').to_owned());
            let names = names.collect();
            ffi::rocksdb_livefiles_destroy(list);
            names
        }
    }

    /// RocksDB's number of a space, in its list of files.
    pub(crate) fn family_number(&self, space: Space) -> u32 {
        // SAFETY: the handle lives as long as the database.
        unsafe { ffi::rocksdb_column_family_handle_get_id(self.family(space)) }
    }

    /// Every table file. Costs microseconds per file, and holds RocksDB's lock meanwhile.
    pub(crate) fn live_files(&self) -> Vec<LiveFile> {
        // SAFETY: the list is freed after the copies; strings live as long as the list.
        unsafe {
            let list = ffi::rocksdb_livefiles(self.raw);
            let count = ffi::rocksdb_livefiles_count(list);
            let files = (0..count).filter_map(|index| {
                let family = CStr::from_ptr(ffi::rocksdb_livefiles_column_family_name(list, index));
                let family = family.to_bytes();
                let space = Space::ALL.into_iter().find(|s| s.name().as_bytes() == family)?;
                let mut length = 0;
                let smallest = ffi::rocksdb_livefiles_smallestkey(list, index, &raw mut length);
                let smallest = std::slice::from_raw_parts(smallest.cast::<u8>(), length).to_vec();
                let largest = ffi::rocksdb_livefiles_largestkey(list, index, &raw mut length);
                let largest = std::slice::from_raw_parts(largest.cast::<u8>(), length).to_vec();
                let name = CStr::from_ptr(ffi::rocksdb_livefiles_name(list, index));
                Some(LiveFile {
                    name: name.to_string_lossy().trim_start_matches('/').to_owned(),
                    space,
                    level: ffi::rocksdb_livefiles_level(list, index),
                    byte_count: ffi::rocksdb_livefiles_size(list, index) as u64,
                    smallest,
                    largest,
                    entry_count: ffi::rocksdb_livefiles_entries(list, index),
                    deletion_count: ffi::rocksdb_livefiles_deletions(list, index),
                })
            });
            let files = files.collect();
            ffi::rocksdb_livefiles_destroy(list);
            files
        }
    }

    /// Rewrites the files with keys in `[start, last]`, including the deepest level.
    pub(crate) fn rewrite(&self, space: Space, start: &[u8], last: &[u8]) {
        // SAFETY: keys and options live through the call.
        unsafe {
            let options = ffi::rocksdb_compactoptions_create();
            ffi::rocksdb_compactoptions_set_exclusive_manual_compaction(options, 0);
            ffi::rocksdb_compactoptions_set_bottommost_level_compaction(options, REWRITE_DEEPEST);
            ffi::rocksdb_compact_range_cf_opt(
                self.raw,
                self.family(space),
                options,
                bytes(start),
                start.len(),
                bytes(last),
                last.len(),
            );
            ffi::rocksdb_compactoptions_destroy(options);
        }
    }

    /// Cancels every running `compact` and `rewrite`; later ones run again after `allow_compacting`.
    pub(crate) fn interrupt_compacting(&self) {
        self.interrupt_count.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the database is open; calls are counted, so that each needs its `allow`.
        unsafe { ffi::rocksdb_disable_manual_compaction(self.raw) }
    }

    /// Changes whenever compactions were cancelled: one that ran meanwhile may be incomplete.
    pub(crate) fn interrupt_count(&self) -> u64 {
        self.interrupt_count.load(Ordering::SeqCst)
    }

    pub(crate) fn allow_compacting(&self) {
        // SAFETY: as above.
        unsafe { ffi::rocksdb_enable_manual_compaction(self.raw) }
    }

    /// Cancels compactions, and begins none any more: the database is to be closed. Flushes go on, and writes do not
    /// wait for compactions. Returns at once, but for a write of the options' file for each space.
    pub(crate) fn end_compacting(&self) {
        if self.damaged().closing.swap(true, Ordering::SeqCst) {
            return;
        }
        self.interrupt_compacting();
        if let Err(error) = self.disable_compactions(true) {
            log::warn!(target: "STORAGE", id = 8_200_418, error:% = error;
                "Compactions cannot be ended before the database is closed");
        }
    }

    /// Enables or disables automatic compactions.
    pub(crate) fn set_compacts_by_itself(&self, on: bool) -> Result<()> {
        match on && self.damaged().closing.load(Ordering::SeqCst) {
            true => Ok(()),
            false => self.disable_compactions(!on),
        }
    }

    fn disable_compactions(&self, disabled: bool) -> Result<()> {
        let value = if disabled { c"true" } else { c"false" };
        for space in self.spaces().filter(|space| !self.damaged().rests(*space)) {
            // SAFETY: one name and one value, both copied.
            checked(|error| unsafe {
                ffi::rocksdb_set_options_cf(
                    self.raw,
                    self.family(space),
                    1,
                    &c"disable_auto_compactions".as_ptr(),
                    &value.as_ptr(),
                    error,
                );
            })?;
        }
        Ok(())
    }

    pub(crate) fn compactions_running(&self) -> u64 {
        self.property(Space::Records, c"rocksdb.num-running-compactions")
    }

    pub(crate) fn flushes_running(&self) -> u64 {
        self.property(Space::Records, c"rocksdb.num-running-flushes")
    }

    /// Reads all table files, bypassing the cache. Returns the damage, if there is any.
    pub(crate) fn verify(&self) -> Result<Option<String>> {
        // SAFETY: the options are freed after the call.
        let result = unsafe {
            let reads = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_verify_checksums(reads, 1);
            ffi::rocksdb_readoptions_set_fill_cache(reads, 0);
            ffi::rocksdb_readoptions_set_readahead_size(reads, 2 << 20);
            let result = checked(|error| {
                ffi::rocksdb_verify_checksum_with_options(self.raw, reads, error);
            });
            ffi::rocksdb_readoptions_destroy(reads);
            result
        };
        match result {
            Ok(()) => Ok(None),
            Err(Error::Corrupt(text)) => Ok(Some(text)),
            Err(error) => Err(error),
        }
    }
}
