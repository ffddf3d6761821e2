//! The log's files, as written by the ring buffer's thread and by the replay.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::raw;

/// Bounds of the disk space that is allocated ahead of need in one step.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
const AHEAD_BYTES_MIN: u64 = 1 << 20;
/// Number of bytes after which their writeback is started.
const WRITE_BACK_BYTES: u64 = 1 << 20;

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    // The same name as RocksDB uses.
    dir.join(format!("{number:06}.log"))
}

/// The disk space allocated ahead of need: a fraction of the ring's size, which depends on the disk's size. Two
/// files may have it at once.
pub(crate) fn ahead(ring_bytes: u64) -> u64 {
    (ring_bytes / 4).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX)
}

/// An open file of the log.
pub(super) struct LogFile {
    file: File,
    /// Bytes of the log in the file.
    size: u64,
    /// End of the allocated space; none if the file system cannot allocate.
    allocated: Option<u64>,
    ahead: u64,
    /// Length of the older log in a reused file, which the file keeps; zero for a new file.
    length: u64,
    /// Bytes at the beginning that are durable before anything is written behind them: the header of an encrypted log.
    head: u64,
    written_back: u64,
}

impl LogFile {
    /// A new, empty file. `head`: bytes of the header of an encrypted log, 0 without encryption.
    pub(super) fn create(dir: &Path, number: u64, ahead: u64, head: u64) -> io::Result<LogFile> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(true).open(path(dir, number))?;
        Ok(LogFile { file, size: 0, allocated: Some(0), ahead, length: 0, head, written_back: 0 })
    }

    /// The file of the log `old`, renamed. Its blocks and its size stay, so writing it changes no metadata that the
    /// file system has to journal. An encrypted log gets a file of its own: over the content of an older one, with
    /// another key, a header that was not written completely could not be told from a damaged one.
    pub(super) fn reuse(
        dir: &Path,
        number: u64,
        old: u64,
        ahead: u64,
        head: u64,
    ) -> io::Result<LogFile> {
        let (from, to) = (path(dir, old), path(dir, number));
        if head > 0 {
            return match fs::remove_file(from) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => LogFile::create(dir, number, ahead, head),
            };
        }
        match fs::rename(&from, &to) {
            Ok(()) => {}
            // It was renamed before the process was killed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => {}
            Err(error) => return Err(error),
        }
        let file = OpenOptions::new().read(true).write(true).open(to)?;
        let length = file.metadata()?.len();
        let allocated = Some(length);
        Ok(LogFile { file, size: 0, allocated, ahead, length, head, written_back: 0 })
    }

    /// The file as left by a killed process.
    pub(super) fn open(dir: &Path, number: u64, head: u64) -> io::Result<LogFile> {
        let file = OpenOptions::new().read(true).write(true).open(path(dir, number))?;
        let length = file.metadata()?.len();
        Ok(LogFile { file, size: 0, allocated: None, ahead: 0, length, head, written_back: 0 })
    }

    /// Writes bytes at their offset.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let of_head = self.head.saturating_sub(offset).min(bytes.len() as u64);
        if of_head == 0 {
            return self.write_content(offset, bytes);
        }
        let (head, content) = bytes.split_at(of_head as usize);
        self.file.write_all_at(head, offset)?;
        self.file.sync_data()?;
        self.size = offset + of_head;
        match content.is_empty() {
            true => Ok(()),
            false => self.write_content(self.size, content),
        }
    }

    fn write_content(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        if let Some(allocated) = self.allocated
            && end > allocated
        {
            let length = self.ahead.max(end - allocated);
            self.allocated = match raw::allocate(&self.file, allocated, length) {
                Ok(()) => Some(allocated + length),
                Err(_) => None,
            };
        }
        self.file.write_all_at(bytes, offset)?;
        self.size = end;
        if end - self.written_back >= WRITE_BACK_BYTES {
            raw::start_writing_back(&self.file, self.written_back, end - self.written_back);
            self.written_back = end;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// A separate handle for syncing while this one is in use.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Releases allocated space that was not used.
    pub(super) fn finish(&self) -> io::Result<()> {
        let length = self.length.max(self.size);
        if self.allocated.is_some_and(|allocated| allocated > length) {
            self.file.set_len(length)?;
        }
        Ok(())
    }
}
