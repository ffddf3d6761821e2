//! Snapshots of the database.
#![expect(unsafe_code)]

use std::sync::Arc;

use nagi_rocksdb_sys as ffi;

use super::super::ffi::Db;

/// A snapshot of the database.
pub(crate) struct SnapshotHandle {
    db: Arc<Db>,
    raw: *const ffi::rocksdb_snapshot_t,
    pub(in crate::db) reads: *mut ffi::rocksdb_readoptions_t,
}

// SAFETY: a snapshot is a number in a list; reading with it is synchronised by the database.
unsafe impl Send for SnapshotHandle {}
// SAFETY: as above.
unsafe impl Sync for SnapshotHandle {}

impl SnapshotHandle {
    pub(crate) fn new(db: &Arc<Db>) -> SnapshotHandle {
        // SAFETY: freed in `drop`, while the database is still open.
        unsafe {
            let raw = ffi::rocksdb_create_snapshot(db.raw);
            let reads = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_snapshot(reads, raw);
            SnapshotHandle { db: Arc::clone(db), raw, reads }
        }
    }

    pub(crate) fn db(&self) -> &Arc<Db> {
        &self.db
    }

    /// The newest visible sequence number.
    pub(crate) fn sequence(&self) -> u64 {
        // SAFETY: the snapshot lives until `drop`.
        unsafe { ffi::rocksdb_snapshot_get_sequence_number(self.raw) }
    }

    pub(in crate::db) fn raw(&self) -> *const ffi::rocksdb_snapshot_t {
        self.raw
    }
}

impl Drop for SnapshotHandle {
    fn drop(&mut self) {
        // SAFETY: created in `new`; the database is kept open by `db`.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.reads);
            ffi::rocksdb_release_snapshot(self.db.raw, self.raw);
        }
    }
}
