//! The files of `diagnostic.data`: `metrics.<time>-<number>`, and `metrics.interim` with the chunk in progress.
//!
//! A file is a sequence of BSON documents, the records. The oldest files are removed when the folder has its size;
//! nothing is synced, because the data explain an incident and are no part of the database.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nagi_bson::Doc;
use nagi_encryption::Keys;

use super::file::{Output, content};
use crate::clock;

const PREFIX: &str = "metrics.";
const INTERIM: &str = "metrics.interim";
const INTERIM_NEW: &str = "metrics.interim.temp";
/// Files of one second; more starts than that in a second have no diagnostic data.
const NUMBERS_MAX: u32 = 65_000;

/// The file that is written.
pub(super) struct Archive {
    folder: PathBuf,
    path: PathBuf,
    file: Output,
    /// The length of the file without records.
    empty_bytes: u64,
}

impl Archive {
    /// Creates a file, and the folder if it is missing.
    pub(super) fn create(folder: &Path, keys: Option<&Keys>, now_ms: i64) -> io::Result<Archive> {
        fs::create_dir_all(folder)?;
        check_space(folder)?;
        let (path, file) = new_file(folder, keys, now_ms)?;
        let empty_bytes = file.bytes();
        Ok(Archive { folder: folder.to_owned(), path, file, empty_bytes })
    }

    /// Appends the chunk in progress of a killed process. False if there is none that can be read.
    pub(super) fn recover(&mut self, keys: Option<&Keys>) -> io::Result<bool> {
        let left = left_behind(&self.folder, keys);
        if let Some(record) = &left {
            self.append(record)?;
        }
        self.remove_interim()?;
        Ok(left.is_some())
    }

    /// Appends a record. After an error no more can be appended.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        check_space(&self.folder)?;
        self.file.append(record)
    }

    /// Replaces the chunk in progress.
    pub(super) fn put_interim(&self, record: &[u8], keys: Option<&Keys>) -> io::Result<()> {
        check_space(&self.folder)?;
        let new = self.folder.join(INTERIM_NEW);
        remove(&new)?;
        let written = Output::create(&new, keys)
            .and_then(|mut file| file.append(record))
            .and_then(|()| fs::rename(&new, self.folder.join(INTERIM)));
        if written.is_err() {
            let _ = remove(&new);
        }
        written
    }

    /// Removes the chunk in progress, which is in the file now.
    pub(super) fn remove_interim(&self) -> io::Result<()> {
        remove(&self.folder.join(INTERIM))
    }

    /// The length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Removes the oldest files until all have at most `bytes_max`. The current one and the chunk in progress stay.
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
        // By name is by time; the chunk in progress comes last.
        files.sort_unstable();
        let mut total = files.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for (path, bytes) in files {
            if total <= bytes_max {
                break;
            }
            if path != self.path && !path.ends_with(INTERIM) {
                remove(&path)?;
                total -= bytes;
            }
        }
        Ok(())
    }

    /// Removes the file if nothing of it could be written.
    pub(super) fn discard_if_empty(self) {
        if self.file.bytes() == self.empty_bytes {
            let _ = remove(&self.path);
        }
    }
}

/// Creates `metrics.2026-11-26T18-00-00Z-00000`, or the next number if that exists.
fn new_file(folder: &Path, keys: Option<&Keys>, now_ms: i64) -> io::Result<(PathBuf, Output)> {
    let time = clock::file_suffix(now_ms);
    for number in 0..NUMBERS_MAX {
        let path = folder.join(format!("{PREFIX}{time}Z-{number:05}"));
        match Output::create(&path, keys) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return Ok((path, other?)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many files of this second"))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The record of the interim file, if it is a valid one.
fn left_behind(folder: &Path, keys: Option<&Keys>) -> Option<Vec<u8>> {
    let record = content(&folder.join(INTERIM), keys)?;
    let readable = Doc::parse(&record).is_ok_and(|record| nagi_ftdc::decode(record).is_ok());
    readable.then_some(record)
}

/// Fails if little of the disk is free: the last part of it is for what the engine has accepted (`nagi_kv_disk`'s
/// reserve), and an operator's work.
fn check_space(folder: &Path) -> io::Result<()> {
    let found = rustix::fs::statvfs(folder)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let reserve = (bytes(found.f_blocks) / 32).clamp(1 << 20, 128 << 20);
    match bytes(found.f_bavail) < reserve {
        true => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("less than {} MB of the disk are free", reserve >> 20),
        )),
        false => Ok(()),
    }
}
