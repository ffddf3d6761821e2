//! Copies of folders with RocksDB's files, without copying the tables.

use std::{fs, io, os::unix::fs::FileExt, path::Path};

use nagi_encryption::Keys;
use nagi_kv::Result;

use crate::encrypted;

/// Makes `to` a copy of `from`. Table files are immutable, so they are hard links; logs and manifests are appended
/// to or reused, so they are copied. Durable on return.
pub(super) fn twin(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let name = entry.file_name();
        let target = to.join(&name);
        let text = name.to_string_lossy();
        if text == "LOCK" || text == "SPOOL" || text == "LOG" || text.starts_with("LOG.old") {
            continue;
        }
        let table = text.ends_with(".sst") || text.ends_with(".blob");
        if !table || fs::hard_link(entry.path(), &target).is_err() {
            copy(&entry.path(), &target)?;
        }
    }
    sync(to)
}

/// Copies a file, skipping pages that the disk cannot read. Durable on return.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if fs::copy(from, to).is_err() {
        let (from, to) = (fs::File::open(from)?, fs::File::create(to)?);
        let length = from.metadata()?.len();
        let unreadable = copy_readable(length, &|piece, at| from.read_exact_at(piece, at), &to)?;
        log::warn!(target: "STORAGE", id = 7_702_064, bytes = unreadable;
            "Repair: part of a file cannot be read; it is replaced by zeros");
    }
    Ok(fs::File::open(to)?.sync_all()?)
}

/// Copies page by page; unreadable pages become zeroes. Returns the number of unreadable bytes.
fn copy_readable(
    length: u64,
    read: &dyn Fn(&mut [u8], u64) -> io::Result<()>,
    to: &fs::File,
) -> Result<u64> {
    const PAGE: usize = 4096;
    to.set_len(length)?;
    let (mut piece, mut unreadable, mut at) = ([0; PAGE], 0, 0);
    while at < length {
        let piece = &mut piece[..usize::try_from(length - at).unwrap_or(PAGE).min(PAGE)];
        match read(piece, at) {
            Ok(()) => to.write_all_at(piece, at)?,
            // The page stays a hole.
            Err(_) => unreadable += piece.len() as u64,
        }
        at += piece.len() as u64;
    }
    Ok(unreadable)
}

/// Makes the names in a folder durable.
pub(super) fn sync(dir: &Path) -> Result<()> {
    Ok(fs::File::open(dir)?.sync_all()?)
}

/// Removes a folder if it exists.
pub(super) fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes a file if it exists.
pub(super) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The records that RocksDB left out of the log, according to its own message file.
pub(crate) fn dropped_from_journal(files: &Path, keys: Option<&Keys>) -> Vec<String> {
    const LINES_MAX: usize = 100;
    let text = encrypted::read(&files.join("LOG"), keys).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines =
        text.lines().filter(|line| line.contains(": dropping ") && !line.contains("dropping 0 "));
    // It is preceded by a time, a thread and a place in RocksDB's source.
    let tail = |line: &str| line.rsplit("] ").next().unwrap_or(line).to_owned();
    lines.take(LINES_MAX).map(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_all_but_the_pages_that_cannot_be_read() {
        let path = std::env::temp_dir().join(format!("nagi-copy-{}", std::process::id()));
        let to = fs::File::create(&path).expect("creates");
        let bad = |piece: &mut [u8], at: u64| match at {
            4096 => Err(io::ErrorKind::Other.into()),
            _ => {
                piece.fill(7);
                Ok(())
            }
        };
        assert_eq!(copy_readable(10_000, &bad, &to).expect("copies"), 4096);
        let bytes = fs::read(&path).expect("there");
        let _ = fs::remove_file(&path);
        assert_eq!(bytes.len(), 10_000);
        assert!(bytes[4096..8192].iter().all(|byte| *byte == 0));
        assert!(bytes[..4096].iter().chain(&bytes[8192..]).all(|byte| *byte == 7));
    }
}
