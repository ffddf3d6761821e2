//! What is found in a data directory at the start: files that a shutdown or a crash has left.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use nagi_encryption::{HEADER_BYTES, Keys, KeysError};
use nagi_kv::{Cursor, Error, Result, Space};
use nagi_kv_disk::marker;

use crate::{
    Options,
    closed::{self, Closed},
    db::{Db, RocksCursor},
    engine::ENGINE,
    repair,
};

/// RocksDB's name of the database, which nothing refers to. It is read at each start, and made if it is missing.
pub(crate) const IDENTITY: &str = "IDENTITY";

/// The stamp of the newest entry of the change log; 0 if there is none.
pub(crate) fn last_logged(db: &Arc<Db>) -> Result<u64> {
    let mut cursor = RocksCursor::new(db, None, Space::Changes, &[], &[]);
    cursor.seek_back(&[])?;
    Ok(cursor.key().first_chunk().map_or(0, |stamp| u64::from_be_bytes(*stamp)))
}

/// Removes RocksDB's name of the database if its header is damaged, so that it is made anew. RocksDB does that with a
/// name that differs from the one in its list of files, as after damage of a file that is not encrypted.
pub(crate) fn renew_identity(files: &Path, keys: Option<&Keys>) -> Result<()> {
    let (Some(keys), path) = (keys, files.join(IDENTITY)) else { return Ok(()) };
    let mut header = Vec::with_capacity(HEADER_BYTES);
    match File::open(&path) {
        Ok(file) => file.take(HEADER_BYTES as u64).read_to_end(&mut header)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if let Err(error @ KeysError::DamagedHeader(_)) = keys.open_file(&header) {
        log::warn!(target: "STORAGE", id = 7_702_047, file = path.display().to_string(), error:% = error;
            "The engine's name of its data files cannot be read, and is made anew. No data is lost, but look for \
             errors of the disk");
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// What is known of the files of a data directory that is not in use, without opening the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Examined {
    /// They are those that the last orderly shutdown recorded.
    Unchanged,
    /// The record names files that are missing, or have another size or content. Each text names a file. A start is
    /// refused.
    Damaged(Vec<String>),
    /// There is no record: no server has ended here in order, or the record is damaged itself.
    NotRecorded,
}

/// Makes the checks of a start that need no log and no key: compares the files with the record of the last orderly
/// shutdown. Changes nothing. Reads `CURRENT` and MANIFEST, and the sizes of the other files; of the contents of those
/// it knows nothing.
///
/// # Errors
/// `Io` if the directory belongs to another engine or cannot be read.
pub fn examine(dir: &Path) -> Result<Examined> {
    nagi_kv_disk::refuse_special(dir)?;
    let files = dir.join(ENGINE);
    if !files.exists() && repair::has_old(dir) {
        // A repair was interrupted; the next start puts the files back.
        return Ok(Examined::NotRecorded);
    }
    Ok(match compare(dir, &files, marker::is_fresh(dir, ENGINE)?)? {
        Closed::Damaged(damaged) => Examined::Damaged(damaged),
        Closed::Unknown => Examined::NotRecorded,
        Closed::Whole(_) | Closed::Logged(_) => Examined::Unchanged,
    })
}

/// Compares the files with the record of the last orderly shutdown. `fresh`: they need not exist yet.
fn compare(dir: &Path, files: &Path, fresh: bool) -> Result<Closed> {
    if !fresh && !files.join("CURRENT").exists() {
        let missing = format!("{} is missing", files.join("CURRENT").display());
        return Ok(Closed::Damaged(vec![missing]));
    }
    closed::check(dir, files)
}

/// Compares the files with the record of the last orderly shutdown, and removes the record.
pub(crate) fn check_files(dir: &Path, files: &Path, fresh: bool) -> Result<Closed> {
    let closed = compare(dir, files, fresh)?;
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

/// After an orderly shutdown nothing may be missing; after a crash the end of the log may be torn. If the logs have all
/// that they had at a shutdown, what is behind their ends is of earlier uses of the files.
pub(crate) fn check_sequence(
    files: &Path,
    closed: &Closed,
    found: u64,
    keys: Option<&Keys>,
) -> Result<()> {
    match closed {
        Closed::Whole(sequence) | Closed::Logged(sequence) if found < *sequence => {
            Err(Error::Corrupt(format!(
                "{} ends with change {found}, had {sequence} when it was closed",
                files.display()
            )))
        }
        Closed::Unknown => {
            for line in repair::dropped_from_journal(files, keys) {
                log::warn!(target: "STORAGE", id = 7_702_040, line = line.as_str();
                    "The journal ends before these bytes, as after a crash: they are of commits that were not \
                     synced, or of earlier uses of the file");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
