//! The file `nagi.closed`: the contents of the data directory at an orderly shutdown.
//!
//!   sequence 4711
//!   crc CURRENT 2a0c11f3
//!   crc MANIFEST-000005 99ab01c4
//!   size 000012.sst 67108864
//!   log 4711                            instead of `sequence`, if logs have changes that no table file has; then also
//!   least 000017.log 1048576            for each of these logs: it has so many bytes, and perhaps unused ones behind
//!   end 0bd3a9e1                        CRC-32C of all lines before
//!
//! RocksDB's checksums detect a flipped bit when its block is read. They do not detect a truncated file list: a
//! MANIFEST that lost its last record is a shorter, valid MANIFEST, and a log that lost its tail looks the same as
//! after a crash. After an orderly shutdown everything is in table files, which are listed here, so any difference is
//! damage. If it was too much to wait for, the logs have the rest, up to the change that is named; what they have at
//! least is listed, and the end of the newest one is marked (`wal::keep`), until a start has succeeded.
//! Sizes and checksums are those of the files, encrypted or not.
//! The next start checks and removes the file. So after a crash there is none, and a torn tail of the log is accepted:
//! its writes were not acknowledged as durable.

use std::{collections::BTreeMap, fs, io, path::Path, time::Instant};

use crc32c::crc32c;
use nagi_encryption::Keys;
use nagi_kv::{Error, Result};

use crate::{
    db::Db,
    encrypted,
    wal::{self, Mark},
};

const FILE: &str = "nagi.closed";
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The memtables that a close writes to files: what a slow disk takes within about a second. They may have hundreds of
/// megabytes, which a stop does not wait for.
const FLUSHED_MAX: u64 = 64 << 20;

/// The result of checking the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// There was no orderly shutdown, or the version did not write the file.
    Unknown,
    /// All files are unchanged; the newest sequence number at the shutdown.
    Whole(u64),
    /// The same, but the log is needed, which has all up to this sequence number.
    Logged(u64),
    /// Some files differ. Each text names a file.
    Damaged(Vec<String>),
}

/// How a database came to rest.
pub(crate) struct Settled {
    /// Everything is in table files, and that is recorded.
    pub(crate) flushed: bool,
    pub(crate) flushed_ms: u64,
    /// The time for compactions to end.
    pub(crate) stopped_ms: u64,
}

/// Ends flushes and compactions. What is in memory, of `unflushed_bytes`, is written to table files, if that is little;
/// otherwise the next start reads it from the log, which is synced up to `synced`. Both are recorded. If that fails,
/// the next start reads the log as after a crash: nothing is lost.
pub(crate) fn settle(
    (dir, files): (&Path, &Path),
    db: &Db,
    unflushed_bytes: u64,
    (keys, synced): (Option<&Keys>, Option<&Mark>),
) -> Settled {
    let begun = Instant::now();
    let flushes = unflushed_bytes <= FLUSHED_MAX;
    let flushed = if flushes { db.flush_memtables() } else { Ok(()) };
    let flushed_ms = begun.elapsed().as_millis() as u64;
    db.stop_background();
    let stopped_ms = begun.elapsed().as_millis() as u64 - flushed_ms;
    let logs = if flushes { Ok(Vec::new()) } else { db.log_files() };
    let noted = flushed.and_then(|()| write(dir, files, db, (keys, &logs?, synced)));
    if let Err(error) = &noted {
        log::warn!(target: "STORAGE", id = 7_702_041, error:% = error;
            "The clean shutdown could not be recorded; the next start recovers from the journal");
    }
    Settled { flushed: flushes && noted.is_ok(), flushed_ms, stopped_ms }
}

/// Records the state of a database that does not change any more. Durable on return. `logs`: those that are needed,
/// with their sizes.
fn write(
    dir: &Path,
    files: &Path,
    db: &Db,
    (keys, logs, synced): (Option<&Keys>, &[(String, u64)], Option<&Mark>),
) -> Result<()> {
    let known = if logs.is_empty() { "sequence" } else { "log" };
    let mut text = format!("{known} {}\n", db.sequence());
    for name in ["CURRENT".to_owned(), current(files, keys)?] {
        let crc = crc32c(&fs::read(files.join(&name))?);
        text.push_str(&format!("crc {name} {crc:08x}\n"));
    }
    let mut tables = db.table_files()?;
    tables.sort_unstable();
    for (name, content_bytes) in tables {
        let size = encrypted::header_bytes(keys) + content_bytes;
        text.push_str(&format!("size {name} {size}\n"));
    }
    let mut logs = numbered(logs, encrypted::header_bytes(keys));
    if let Some(mark) = synced.filter(|mark| logs.contains_key(&mark.log)) {
        // The file of an older log that is used again may be longer.
        for (log, bytes) in mark.logs() {
            logs.entry(log).and_modify(|size| *size = bytes);
        }
        wal::keep(files, mark)?;
    }
    for (number, size) in &logs {
        text.push_str(&format!("least {number:06}.log {size}\n"));
    }
    text.push_str(&format!("end {:08x}\n", crc32c(text.as_bytes())));
    let temporary = dir.join("nagi.closed.tmp");
    fs::write(&temporary, text)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, dir.join(FILE))?;
    fs::File::open(dir)?.sync_all()?;
    Ok(())
}

/// The logs by number, with the sizes of their files.
fn numbered(logs: &[(String, u64)], header_bytes: u64) -> BTreeMap<u64, u64> {
    let number = |name: &str| name.strip_suffix(".log").and_then(|number| number.parse().ok());
    let logs = logs.iter().filter_map(|(name, size)| Some((number(name)?, header_bytes + size)));
    logs.collect()
}

/// The name of the MANIFEST in use.
pub(crate) fn current(files: &Path, keys: Option<&Keys>) -> Result<String> {
    let text = encrypted::read(&files.join("CURRENT"), keys)?;
    let text = String::from_utf8_lossy(&text);
    let name = text.trim_end();
    match name.starts_with("MANIFEST-") && !name.contains('/') {
        true => Ok(name.to_owned()),
        false => {
            Err(Error::Corrupt(format!("{} names no MANIFEST", files.join("CURRENT").display())))
        }
    }
}

/// Compares the data directory with the state recorded at the shutdown.
pub(crate) fn check(dir: &Path, files: &Path) -> Result<Closed> {
    let path = dir.join(FILE);
    let size = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Closed::Unknown),
        Err(error) => return Err(error.into()),
    };
    let bytes = if size <= FILE_BYTES_MAX { fs::read(&path)? } else { Vec::new() };
    let Some(lines) = std::str::from_utf8(&bytes).ok().and_then(intact) else {
        log::warn!(target: "STORAGE", id = 7_702_033, file = path.display().to_string();
            "The record of the last clean shutdown is damaged; the data is recovered as after a \
             crash");
        return Ok(Closed::Unknown);
    };
    let (mut damaged, mut found) = (Vec::new(), Closed::Whole(0));
    for line in lines.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        match *fields {
            ["sequence", number] => found = Closed::Whole(number.parse().unwrap_or(0)),
            ["log", number] => found = Closed::Logged(number.parse().unwrap_or(0)),
            ["crc", name, crc] => check_crc(&files.join(name), crc, &mut damaged)?,
            ["size", name, size] => {
                check_size(&files.join(name), size, &|is, was| is == was, &mut damaged)?;
            }
            ["least", name, size] => {
                check_size(&files.join(name), size, &|is, was| is >= was, &mut damaged)?;
            }
            _ => {}
        }
    }
    Ok(if damaged.is_empty() { found } else { Closed::Damaged(damaged) })
}

/// The lines before the checksum, if that is correct.
fn intact(text: &str) -> Option<&str> {
    let at = text.rfind("end ")?;
    let crc = u32::from_str_radix(text[at + 4..].strip_suffix('\n')?, 16).ok()?;
    (crc32c(&text.as_bytes()[..at]) == crc).then_some(&text[..at])
}

fn check_crc(path: &Path, crc: &str, damaged: &mut Vec<String>) -> Result<()> {
    match fs::read(path) {
        Ok(bytes) if format!("{:08x}", crc32c(&bytes)) == *crc => {}
        Ok(bytes) => damaged.push(format!(
            "{} ({} bytes) is not what it was when it was closed: its checksum is {:08x}, was {crc}",
            path.display(),
            bytes.len(),
            crc32c(&bytes)
        )),
        Err(error) => missing(path, error, damaged)?,
    }
    Ok(())
}

fn check_size(
    path: &Path,
    size: &str,
    is_right: &dyn Fn(u64, u64) -> bool,
    damaged: &mut Vec<String>,
) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if size.parse().is_ok_and(|size| is_right(metadata.len(), size)) => {}
        Ok(metadata) => damaged.push(format!(
            "{} has {} bytes, had {size} when it was closed",
            path.display(),
            metadata.len()
        )),
        Err(error) => missing(path, error, damaged)?,
    }
    Ok(())
}

fn missing(path: &Path, error: io::Error, damaged: &mut Vec<String>) -> Result<()> {
    if error.kind() != io::ErrorKind::NotFound {
        return Err(error.into());
    }
    damaged.push(format!("{} is missing", path.display()));
    Ok(())
}

/// Removes the file, because the data directory is in use from here on. Durable on return.
pub(crate) fn forget(dir: &Path) -> Result<()> {
    match fs::remove_file(dir.join(FILE)) {
        Ok(()) => Ok(fs::File::open(dir)?.sync_all()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
