//! Opening on a disk without room.
//!
//! An open needs some: what the log holds becomes tables. A server keeps enough free for that, but
//! a compaction that runs meanwhile takes it, and when the process is killed, what the compaction has
//! written stays. RocksDB removes such files, too, but only after it has used the log.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use nagi_kv::Result;

use crate::{
    db::{Db, System},
    options::Options,
};

/// Removes what is no part of the database, and what was allocated ahead.
///
/// # Errors
/// From the file system; or what is part of the database cannot be found out.
pub(crate) fn make(files: &Path, options: &Options, system: &System) -> Result<()> {
    let removed = remove_unfinished(files, options, system)?;
    let trimmed = trim_logs(files)?;
    log::warn!(target: "STORAGE", id = 7_702_043, files = removed, logs = trimmed;
        "The disk is full: what a killed process left unfinished is removed before its journal is used");
    Ok(())
}

/// Removes the table files that a compaction or a flush had not finished.
fn remove_unfinished(files: &Path, options: &Options, system: &System) -> Result<usize> {
    let system = System { read_only: true, ..system.clone() };
    let live = Db::open(files, options, &system)?.live_file_names();
    let mut count = 0;
    for entry in fs::read_dir(files)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".sst") && !live.contains(&name) {
            fs::remove_file(entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

/// Gives back the blocks behind the ends of the log's files.
fn trim_logs(files: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(files)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(file.metadata()?.len())?;
            count += 1;
        }
    }
    Ok(count)
}
