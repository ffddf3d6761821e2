//! Scratch data: bytes that are written once, read and dropped, for sorts and groups that exceed their memory.

use crate::Result;

/// A file of bytes. Writers and readers may be different threads.
pub trait Scratch: Send + Sync {
    /// Writes at an offset where nothing was written yet, without gaps.
    ///
    /// # Errors
    /// `Full` or `MemoryFull` if there is no space.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Reads bytes that were written.
    ///
    /// # Errors
    /// `Io`, also for bytes that do not exist.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
}
