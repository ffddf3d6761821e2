//! Bytes that are written once, read again and forgotten: sorts and groups larger than their memory.

use crate::Result;

/// A place for bytes by offset. Writers and readers may be different threads.
pub trait Scratch: Send + Sync {
    /// Writes at an offset where nothing is yet; no gaps.
    ///
    /// # Errors
    /// `Full` or `MemoryFull` if there is no room.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Reads what was written.
    ///
    /// # Errors
    /// `Io`, also for bytes that are not there.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
}
