//! Opening a database on a full disk.
//!
//! An open needs some space, because the content of the log becomes tables. A running server keeps enough space
//! free. But if a compaction uses it and the process is killed, the compaction's output stays. RocksDB removes such
//! files, too, but only after it has replayed the log.

use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use nagi_kv::Result;

use crate::{
    db::{Db, System},
    options::Options,
};

/// Removes files that are not part of the database, and preallocated space.
///
/// # Errors
/// Errors of the file system, or if the files of the database cannot be determined.
pub(crate) fn free(files: &Path, options: &Options, system: &System) -> Result<()> {
    let removed = remove_unfinished(files, options, system)?;
    let trimmed = trim_logs(files)?;
    log::warn!(target: "STORAGE", id = 7_702_043, files = removed, logs = trimmed;
        "The disk is full: unfinished files of a killed process are removed before its journal is \
         replayed");
    Ok(())
}

/// Suffix of files that are being removed at a limited rate.
pub(crate) const TRASH_SUFFIX: &str = ".trash";

/// Removes unfinished table files of compactions and flushes, and files that were being removed.
fn remove_unfinished(files: &Path, options: &Options, system: &System) -> Result<usize> {
    let system = System { read_only: true, ..system.clone() };
    let live = Db::open(files, options, &system)?.live_file_names();
    let mut count = 0;
    for entry in fs::read_dir(files)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let unfinished = name.ends_with(".sst") && !live.contains(&name);
        if unfinished || name.ends_with(TRASH_SUFFIX) {
            fs::remove_file(entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

/// Releases the blocks after the ends of the log files.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_and_what_is_used_stays() {
        let dir = std::env::temp_dir().join(format!("nagi-kv-rocks-trash-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let options = Options { cache_bytes: 32 << 20, ..Options::default() };
        let engine = crate::open(&dir, &options).expect("opens");
        let mut txn = engine.begin(nagi_kv::TxnOptions::default()).expect("begins");
        txn.put(nagi_kv::Space::Records, b"k", b"v").expect("free");
        txn.commit(nagi_kv::Durability::Synced).expect("commits");
        engine.close().expect("closes");
        drop(engine);
        let files = dir.join("rocksdb");
        let tables = || {
            let entries = fs::read_dir(&files).expect("a folder");
            let names =
                entries.map(|e| e.expect("there").file_name().to_string_lossy().into_owned());
            let mut all: Vec<_> = names.filter(|name| name.contains(".sst")).collect();
            all.sort();
            all
        };
        let before = tables();
        assert!(!before.is_empty());
        for name in ["999991.sst", "999992.sst.trash"] {
            fs::write(files.join(name), b"half a table").expect("writes");
        }
        free(&files, &options, &System::plain()).expect("makes capacity");
        assert_eq!(tables(), before);
        let engine = crate::open(&dir, &options).expect("opens again");
        let mut buf = Vec::new();
        let found = engine.latest().get(nagi_kv::Space::Records, b"k", &mut buf).expect("reads");
        assert_eq!(found, Some(&b"v"[..]));
        drop(engine);
        let _ = fs::remove_dir_all(&dir);
    }
}
