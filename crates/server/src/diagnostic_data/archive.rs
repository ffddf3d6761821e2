//! The files of `diagnostic.data`: `metrics.<time>-<number>`, and `metrics.interim` with the chunk in progress.
//!
//! A file is a sequence of BSON documents, the records. A record that cannot be written completely is removed again,
//! so that readers find whole records only. The oldest files are removed when the folder has its size; nothing is
//! synced, because the data explain an incident and are no part of the database.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nagi_bson::Doc;

use crate::clock;

const PREFIX: &str = "metrics.";
const INTERIM: &str = "metrics.interim";
const INTERIM_NEW: &str = "metrics.interim.temp";
/// Files of one second; more starts than that in a second have no diagnostic data.
const NUMBERS_MAX: u32 = 100_000;
/// An interim file has one chunk, of some hundred KB.
const INTERIM_BYTES_MAX: u64 = 64 << 20;

/// The file that is written.
pub(super) struct Archive {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Archive {
    /// Creates a file, and the folder if it is missing. The chunk in progress of an earlier process, if there is one,
    /// becomes the file's first record.
    pub(super) fn create(folder: &Path, now_ms: i64) -> io::Result<Archive> {
        fs::create_dir_all(folder)?;
        let (path, file) = new_file(folder, now_ms)?;
        let mut archive = Archive { folder: folder.to_owned(), path, file, bytes: 0 };
        if let Some(record) = left_behind(folder) {
            archive.append(&record)?;
        }
        archive.remove_interim()?;
        Ok(archive)
    }

    /// Appends a record. After an error the file is as it was before.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(record) {
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += record.len() as u64;
        Ok(())
    }

    /// Replaces the chunk in progress.
    pub(super) fn put_interim(&self, record: &[u8]) -> io::Result<()> {
        let new = self.folder.join(INTERIM_NEW);
        fs::write(&new, record)?;
        fs::rename(&new, self.folder.join(INTERIM))
    }

    /// Removes the chunk in progress, which is in the file now.
    pub(super) fn remove_interim(&self) -> io::Result<()> {
        match fs::remove_file(self.folder.join(INTERIM)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes the oldest files until those that are left have at most `bytes_max`. The current file stays.
    pub(super) fn trim(&self, bytes_max: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_own = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
            if is_own && entry.file_type()?.is_file() {
                files.push((entry.path(), entry.metadata()?.len()));
            }
        }
        // By name is by time.
        files.sort_unstable();
        let mut total = files.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for (path, bytes) in files {
            if total <= bytes_max {
                break;
            }
            if path != self.path {
                fs::remove_file(&path)?;
                total -= bytes;
            }
        }
        Ok(())
    }
}

/// Creates `metrics.2026-11-26T18-00-00Z-00000`, or the next number if that exists.
fn new_file(folder: &Path, now_ms: i64) -> io::Result<(PathBuf, File)> {
    let time = clock::file_suffix(now_ms);
    for number in 0..NUMBERS_MAX {
        let path = folder.join(format!("{PREFIX}{time}Z-{number:05}"));
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return Ok((path, other?)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many files of this second"))
}

/// The record of the interim file, if it is a valid one.
fn left_behind(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join(INTERIM);
    let metadata = fs::symlink_metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > INTERIM_BYTES_MAX {
        return None;
    }
    let bytes = fs::read(&path).ok()?;
    let readable = Doc::parse(&bytes).is_ok_and(|record| nagi_ftdc::decode(record).is_ok());
    readable.then_some(bytes)
}
