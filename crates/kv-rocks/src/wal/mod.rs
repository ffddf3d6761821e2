//! Checks the write-ahead log after a crash: it must be complete up to the last known sync.
//!
//! RocksDB reads the log up to the first record that is not whole and takes that for its end. After a crash that is
//! correct: the end may be torn, and after a power failure any part of the unsynced data may be missing while a
//! later part exists. But a byte that changed on disk looks the same, although the commits after it were
//! acknowledged. They are distinguished by this rule:
//!
//!   Everything that a mark reports as synced must exist. If the log ends before that, it is damaged, and
//!   the start fails with file and offset. If it ends later, that is its end.
//!
//! ```text
//!   records   1  2  3  4  5  6        mark in record 5: synced up to the end of 3
//!   bad record 2   before the synced position: damage, the start fails
//!   bad record 4   after it: the log ends at 3, as after a torn write
//! ```
//!
//! An encrypted log whose header is damaged has no readable record, so no mark of its own: it counts as damaged.
//!
//! A log that is obsolete because of the tables is not read, whatever its content. A log that a mark names, and that is
//! missing although an older one is there, is damage, too.
//!
//!   record.rs   the format of a record
//!   mark.rs     the synced position, and where it is stored
//!   scan.rs     reads a file and skips bytes that are no records
//!   rewrite.rs  rewrites a damaged log without gaps, for a repair
//!
//! Why: docs/decisions/019. The format on disk: docs/format.md.

mod mark;
mod record;
mod rewrite;
mod scan;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use nagi_encryption::Keys;
use nagi_kv::{Error, Result};

pub(crate) use mark::{MARK_BYTES, Mark, forget, keep};
pub(crate) use rewrite::{append_record, rewrite};
use scan::Extent;

/// A log that has lost synced data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    pub(crate) path: PathBuf,
    number: u64,
    /// The first unusable byte.
    offset: u64,
    synced: u64,
    behind: u64,
    /// Why nothing of it can be read: the header of an encrypted log.
    header: Option<String>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Damage { path, offset, synced, behind, header, .. } = self;
        if let Some(text) = header {
            return f.write_str(text);
        }
        if !path.exists() {
            return write!(f, "{} is missing", path.display());
        }
        write!(f, "{} is damaged at offset {offset}: ", path.display())?;
        write!(f, "it was written to disk up to offset {synced}, ")?;
        write!(f, "{behind} records after the damage can be read")
    }
}

/// The log files by number.
fn logs(files: &Path) -> Result<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(files)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(number) = name.and_then(|name| name.strip_suffix(".log")?.parse().ok()) {
            found.insert(number, path);
        }
    }
    Ok(found)
}

/// The logs that end before their synced position. `needed` is called only if there are any, and returns the first
/// log that is not obsolete; if it is unknown, all logs count as needed.
///
/// # Errors
/// `Io` if a file cannot be read.
pub(crate) fn damaged(
    files: &Path,
    keys: Option<&Keys>,
    needed: &mut dyn FnMut() -> Option<u64>,
) -> Result<Vec<Damage>> {
    let mut logs = logs(files)?;
    let mut synced: BTreeMap<u64, u64> = BTreeMap::new();
    let mut note = |mark: &Mark| {
        for (log, bytes) in mark.logs() {
            let known = synced.entry(log).or_default();
            *known = bytes.max(*known);
        }
    };
    if let Some(mark) = mark::kept(files) {
        note(&mark);
        // The newest log of a process that was killed: it must exist.
        logs.entry(mark.log).or_insert_with(|| files.join(format!("{:06}.log", mark.log)));
    }
    let mut extents: BTreeMap<u64, Extent> = BTreeMap::new();
    let mut headers: BTreeMap<u64, String> = BTreeMap::new();
    for (number, path) in logs.iter().filter(|(_, path)| path.exists()) {
        let scanned = scan::scan(path, *number, keys, &mut |record, _| {
            if let Some(mark) = Mark::of_batch(record.payload) {
                note(&mark);
            }
        });
        match scanned {
            Ok(extent) => drop(extents.insert(*number, extent)),
            Err(Error::Corrupt(text)) => drop(headers.insert(*number, text)),
            Err(error) => return Err(error),
        }
    }
    // Logs are removed in order: one that is missing behind another one was not obsolete.
    let first = logs.keys().next().copied().unwrap_or(u64::MAX);
    let is_missing = |(log, bytes): &(&u64, &u64)| **bytes > 0 && **log > first;
    let missing: Vec<u64> = synced.iter().filter(is_missing).map(|(log, _)| *log).collect();
    for number in missing {
        logs.entry(number).or_insert_with(|| files.join(format!("{number:06}.log")));
    }
    let mut damage = Vec::new();
    for (number, path) in logs {
        let Extent { whole, behind } = extents.get(&number).copied().unwrap_or_default();
        let synced = synced.get(&number).copied().unwrap_or(0);
        let header = headers.remove(&number);
        if whole < synced || header.is_some() {
            damage.push(Damage { path, number, offset: whole, synced, behind, header });
        }
    }
    if !damage.is_empty() {
        let first = needed().unwrap_or(0);
        damage.retain(|damage| damage.number >= first);
    }
    Ok(damage)
}
