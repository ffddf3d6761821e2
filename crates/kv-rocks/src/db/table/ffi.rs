//! Writes a sorted table file and ingests it into the database, bypassing log and memtable.
#![expect(unsafe_code)]

use std::{path::Path, sync::atomic::Ordering::SeqCst};

use nagi_kv::{Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::ffi::{Db, bytes, c_path, checked};

/// A table file being written.
pub(crate) struct TableFile {
    environment: *mut ffi::rocksdb_envoptions_t,
    raw: *mut ffi::rocksdb_sstfilewriter_t,
}

impl TableFile {
    /// A new file for `space` at `path`.
    pub(crate) fn create(db: &Db, space: Space, path: &Path) -> Result<TableFile> {
        let name = c_path(path)?;
        // SAFETY: both objects are freed in `drop`; the options outlive them in `db`.
        unsafe {
            let environment = ffi::rocksdb_envoptions_create();
            let raw = ffi::rocksdb_sstfilewriter_create(environment, db.space_options(space));
            let file = TableFile { environment, raw };
            checked(|error| ffi::rocksdb_sstfilewriter_open(raw, name.as_ptr(), error))?;
            Ok(file)
        }
    }

    /// Adds an entry; keys must be strictly ascending.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: key and value are copied.
        checked(|error| unsafe {
            ffi::rocksdb_sstfilewriter_put(
                self.raw,
                bytes(key),
                key.len(),
                bytes(value),
                value.len(),
                error,
            );
        })
    }

    /// Completes and syncs the file.
    pub(crate) fn finish(self) -> Result<()> {
        // SAFETY: the writer is open.
        checked(|error| unsafe { ffi::rocksdb_sstfilewriter_finish(self.raw, error) })
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        // SAFETY: created in `create`.
        unsafe {
            ffi::rocksdb_sstfilewriter_destroy(self.raw);
            ffi::rocksdb_envoptions_destroy(self.environment);
        }
    }
}

impl Db {
    /// Makes a finished file part of the space; the file is moved. Durable on return.
    pub(crate) fn ingest(&self, space: Space, path: &Path) -> Result<()> {
        let name = c_path(path)?;
        self.ingests_begun.fetch_add(1, SeqCst);
        // SAFETY: one name; the options live through the call.
        let result = unsafe {
            let options = ffi::rocksdb_ingestexternalfileoptions_create();
            ffi::rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
            let result = checked(|error| {
                ffi::rocksdb_ingest_external_file_cf(
                    self.raw,
                    self.family(space),
                    &name.as_ptr(),
                    1,
                    options,
                    error,
                );
            });
            ffi::rocksdb_ingestexternalfileoptions_destroy(options);
            result
        };
        self.ingests_ended.fetch_add(1, SeqCst);
        result
    }

    /// Number of ingestions that were begun, and of those that were finished.
    pub(crate) fn ingests(&self) -> (u64, u64) {
        // Read in this order, so that an ingestion that begins in between counts as in progress.
        let ended = self.ingests_ended.load(SeqCst);
        (self.ingests_begun.load(SeqCst), ended)
    }
}
