//! Whether the log that a crash left is whole as far as it has to be.
//!
//! RocksDB reads the log up to the first record that is not whole and takes that for its end. After a
//! crash that is right: the end may be torn, and after a power cut any part of what was not synced may
//! be missing, a later one there. But a byte that changed on the disk looks the same, and everything
//! behind it was acknowledged. The rule that tells them apart:
//!
//!   Whatever a mark says was synced has to be there. A log that ends before that is damaged, and
//!   the start is refused with file and offset; a log that ends later ends there.
//!
//! A log that the tables have made needless is not looked at, whatever is in it.
//!
//!   record.rs   the bytes of a record
//!   mark.rs     what was synced, and where that is noted
//!   scan.rs     reading a file past what is no record
//!   rewrite.rs  a damaged log as a whole one, for a repair
//!
//! Why: docs/decisions/019. What is on the disk: docs/format.md.

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

use nagi_kv::Result;

pub(crate) use mark::{MARK_BYTES, Mark, forget, keep};
pub(crate) use rewrite::rewrite;
use scan::Extent;

/// A log that has lost what was synced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    pub(crate) path: PathBuf,
    number: u64,
    /// The first byte that cannot be used.
    offset: u64,
    synced: u64,
    behind: u64,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Damage { path, offset, synced, behind, .. } = self;
        if !path.exists() {
            return write!(f, "{} is missing", path.display());
        }
        write!(f, "{} is damaged at offset {offset}: ", path.display())?;
        write!(f, "it was written to disk up to offset {synced}, ")?;
        write!(f, "{behind} records behind the damage can be read")
    }
}

/// The log's files by number.
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

/// The logs that end before what was synced. `needed` is asked only if there are any: the first log
/// that is not needless; none if that is not known, then all are taken for needed.
///
/// # Errors
/// `Io` if a file cannot be read.
pub(crate) fn damaged(
    files: &Path,
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
        // The newest log of a process that was killed: it has to be there.
        logs.entry(mark.log).or_insert_with(|| files.join(format!("{:06}.log", mark.log)));
    }
    let mut extents: BTreeMap<u64, Extent> = BTreeMap::new();
    for (number, path) in logs.iter().filter(|(_, path)| path.exists()) {
        let extent = scan::scan(path, *number, &mut |record, _| {
            if let Some(mark) = Mark::of_batch(record.payload) {
                note(&mark);
            }
        })?;
        extents.insert(*number, extent);
    }
    let mut damage = Vec::new();
    for (number, path) in logs {
        let Extent { whole, behind } = extents.get(&number).copied().unwrap_or_default();
        let synced = synced.get(&number).copied().unwrap_or(0);
        if whole < synced {
            damage.push(Damage { path, number, offset: whole, synced, behind });
        }
    }
    if !damage.is_empty() {
        let first = needed().unwrap_or(0);
        damage.retain(|damage| damage.number >= first);
    }
    Ok(damage)
}
