//! The handle of a scan.
#![expect(unsafe_code)]

use std::ffi::c_uchar;

use nagi_kv::{Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::super::{
    ffi::{Db, bytes, checked},
    native::{
        Entry, ScanHandle, nagi_scan_create, nagi_scan_destroy, nagi_scan_get_error,
        nagi_scan_next, nagi_scan_seek,
    },
};

/// A position in a space that only moves forward.
pub(in crate::db::cursor) struct Scan {
    raw: *mut ScanHandle,
}

impl Scan {
    /// # Safety
    /// The options have a snapshot. They, and the database, live longer than the scan.
    pub(in crate::db::cursor) unsafe fn new(
        db: &Db,
        reads: *const ffi::rocksdb_readoptions_t,
        space: Space,
    ) -> Scan {
        // SAFETY: as the caller guarantees.
        Scan { raw: unsafe { nagi_scan_create(db.raw, reads, db.family(space)) } }
    }

    /// Moves to the first entry at or behind a key. Returns false if there is none. The entry is valid until the next
    /// move.
    ///
    /// # Errors
    /// Those of the engine.
    pub(in crate::db::cursor) fn seek(&mut self, key: &[u8], entry: &mut Entry) -> Result<bool> {
        // SAFETY: the scan is live; the key is read during the call.
        let found = unsafe { nagi_scan_seek(self.raw, bytes(key), key.len(), entry) };
        self.found(found)
    }

    /// Moves to the next entry. The last move must have reached one.
    ///
    /// # Errors
    /// Those of the engine.
    #[inline]
    pub(in crate::db::cursor) fn next(&mut self, entry: &mut Entry) -> Result<bool> {
        // SAFETY: the scan is live, and has a position.
        let found = unsafe { nagi_scan_next(self.raw, entry) };
        self.found(found)
    }

    #[inline]
    fn found(&self, found: c_uchar) -> Result<bool> {
        if found == 0 {
            // SAFETY: the scan is live.
            unsafe { checked(|error| nagi_scan_get_error(self.raw, error))? };
        }
        Ok(found != 0)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: created in `new`, and dropped before what it reads from, as its caller guarantees.
        unsafe { nagi_scan_destroy(self.raw) };
    }
}
