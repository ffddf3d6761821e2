//! Scratch files: bytes that are written once, read and dropped, for sorts and groups that exceed their memory.
//!
//! A scratch file has no name: it is unlinked as soon as it is open, so its space is released when it is dropped
//! and when the process dies in any way. Nothing is synced. The page cache may keep or write its pages, and drops
//! them with the file.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use nagi_kv::{Result, Scratch};

/// Returns `Ok` if there is disk space for this many more bytes.
pub type CheckCapacity = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// An unnamed file.
pub struct ScratchFile {
    file: File,
    capacity: CheckCapacity,
}

impl ScratchFile {
    /// Creates a file at `path`, which must not be used otherwise, and removes its name. A crash between the two
    /// steps leaves an empty file, which the next call with this path replaces.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn create(path: &Path, capacity: CheckCapacity) -> Result<Arc<dyn Scratch>> {
        let _ = fs::remove_file(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        fs::remove_file(path)?;
        Ok(Arc::new(ScratchFile { file, capacity }))
    }
}

impl Scratch for ScratchFile {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        (self.capacity)(bytes.len() as u64)?;
        Ok(self.file.write_all_at(bytes, at)?)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.file.read_exact_at(into, at)?)
    }
}
