//! Folders of RocksDB's files: a second one beside, without another copy of the tables.

use std::{fs, io, path::Path};

use nagi_kv::Result;

/// Makes `to` hold what `from` holds. Table files never change, so a hard link does; logs and
/// manifests are written on or used again, so they are copied. Durable on return.
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
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    sync(to)
}

/// Makes the names in a folder durable.
pub(super) fn sync(dir: &Path) -> Result<()> {
    Ok(fs::File::open(dir)?.sync_all()?)
}

/// Removes a folder if it is there.
pub(super) fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// What RocksDB's own log says it left out of the journal.
pub(crate) fn dropped_from_journal(files: &Path) -> Vec<String> {
    const LINES_MAX: usize = 100;
    let text = fs::read(files.join("LOG")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines =
        text.lines().filter(|line| line.contains(": dropping ") && !line.contains("dropping 0 "));
    // Before it stand the time, a thread and a place in RocksDB's source.
    let tail = |line: &str| line.rsplit("] ").next().unwrap_or(line).to_owned();
    lines.take(LINES_MAX).map(tail).collect()
}
