//! Bytes that are written once, read again and forgotten: sorts and groups larger than their memory.
//!
//! On disk that is a file without a name: it is removed as soon as it is open, so its space is free again
//! when it is dropped and when the process dies, however that happens. Nothing is synced. Its pages are
//! the page cache's to keep or to write, and are gone with the file.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use nagi_kv::{Result, Scratch};

/// Whether there is room for so many more bytes.
pub type RoomFor = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// A file without a name.
pub struct ScratchFile {
    file: File,
    room: RoomFor,
}

impl ScratchFile {
    /// Makes a file at `path`, which is for nothing else, and removes its name. A crash between the two
    /// leaves an empty file, which the next one of the name replaces.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path, room: RoomFor) -> Result<Arc<dyn Scratch>> {
        let _ = fs::remove_file(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        fs::remove_file(path)?;
        Ok(Arc::new(ScratchFile { file, room }))
    }
}

impl Scratch for ScratchFile {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        (self.room)(bytes.len() as u64)?;
        Ok(self.file.write_all_at(bytes, at)?)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.file.read_exact_at(into, at)?)
    }
}
