//! What is found in a data directory at the start: files that a shutdown or a crash has left.

use std::path::Path;

use nagi_encryption::Keys;
use nagi_kv::{Error, Result};

use crate::{
    Options,
    closed::{self, Closed},
    repair,
};

/// Compares the files with the record of the last orderly shutdown, and removes the record.
pub(crate) fn check_files(dir: &Path, files: &Path, fresh: bool) -> Result<Closed> {
    if !fresh && !files.join("CURRENT").exists() {
        return Err(Error::Corrupt(format!("{} is missing", files.join("CURRENT").display())));
    }
    let closed = closed::check(dir, files)?;
    if let Closed::Damaged(damaged) = &closed {
        return Err(Error::Corrupt(damaged.join("; ")));
    }
    closed::forget(dir)?;
    Ok(closed)
}

/// After a crash, every position that is known to have been synced must be in the log.
pub(crate) fn check_log(
    dir: &Path,
    files: &Path,
    closed: &Closed,
    options: &Options,
) -> Result<()> {
    if matches!(closed, Closed::Whole(_)) {
        return Ok(());
    }
    match repair::damaged_logs(dir, files, options)? {
        damaged if damaged.is_empty() => Ok(()),
        damaged => Err(Error::Corrupt(damaged.join("; "))),
    }
}

/// After an orderly shutdown nothing may be missing; after a crash the end of the log may be torn.
pub(crate) fn check_sequence(
    files: &Path,
    closed: &Closed,
    found: u64,
    keys: Option<&Keys>,
) -> Result<()> {
    match closed {
        Closed::Whole(sequence) if found < *sequence => Err(Error::Corrupt(format!(
            "{} ends with change {found}, had {sequence} when it was closed",
            files.display()
        ))),
        Closed::Unknown => {
            for line in repair::dropped_from_journal(files, keys) {
                log::warn!(target: "STORAGE", id = 7_702_040, line = line.as_str();
                    "The journal's end was torn by a crash; the records after it were not used");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
