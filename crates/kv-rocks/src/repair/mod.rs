//! `--repair`: copies the readable data of a damaged data directory to a new one.
//!
//!   rocksdb --twin--> damaged-TIME/rocksdb          kept as it was found
//!                          | twin
//!                     repair.work  --space by space, past damage-->  repair.new
//!                     (opened with RocksDB's tolerant options;       renamed to rocksdb
//!                      if it cannot be opened, RocksDB's repair
//!                      makes a new file list from the tables)
//!
//! A data directory without damage is only read. Everything is built in separate folders and renamed at the end, so
//! an interrupted repair changes nothing; `put_back` handles a crash between two renames.
//!
//! This module does not know documents. The store repairs catalog, indexes and counters afterwards.

mod apart;
mod copy;
mod files;
mod headers;
mod left_out;
mod number;
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_kv::{Error, Result, Space};
use nagi_kv_disk::marker;

use crate::{
    Options, capacity,
    closed::{self, Closed},
    db::{Db, System, first_needed_log, repair_file_list},
    encrypted::{self, Environment},
    engine::{self, ENGINE},
    load::remove_pieces,
    ring_buffer, wal,
};
use copy::Salvage;

pub(crate) use files::dropped_from_journal;

const WORK: &str = "repair.work";
const NEW: &str = "repair.new";
const OLD: &str = "repair.old";

/// A range of keys of which some could not be read.
#[derive(Clone, Debug)]
pub struct Lost {
    pub space: Space,
    pub from: Vec<u8>,
    /// The first key behind the range; none if the range does not end.
    pub to: Option<Vec<u8>>,
    /// Number of entries in the range that were read nevertheless, one by one.
    pub saved: u64,
    pub error: String,
}

/// Findings and results of a repair.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// The damage found, in sentences that name files; empty if there was none.
    pub findings: Vec<String>,
    /// True if the engine's list of files was rebuilt from the files: it is unknown which ones are missing.
    pub file_list_rebuilt: bool,
    /// The folder with the files as they were found; none if nothing was damaged.
    pub kept: Option<PathBuf>,
    pub lost: Vec<Lost>,
    /// Number of entries in the new folder.
    pub entries: u64,
}

/// Repairs the data directory `dir`, which no process may have open. Requires about as much free disk space as the
/// data takes.
///
/// # Errors
/// `Io` if the folder is missing, in use or belongs to another engine; `Full` without space for the copy.
pub fn repair(dir: &Path, options: &Options) -> Result<Repair> {
    let found = marker::claim(dir, ENGINE)?;
    crate::damage::expect_repair();
    let files = dir.join(ENGINE);
    put_back(dir)?;
    if found.fresh || !files.is_dir() {
        return Err(Error::other(format!("{} holds no data to repair", dir.display())));
    }
    remove_pieces(&files)?;
    // The content of a killed server's ring buffer belongs to the log files.
    let head = encrypted::header_bytes(options.keys());
    drop(ring_buffer::open(&files, options.ring_bytes(), head)?);
    files::remove(&dir.join(WORK))?;
    files::remove(&dir.join(NEW))?;
    let kept = dir.join(format!("damaged-{}", seconds()));
    files::twin(&files, &kept.join(ENGINE))?;
    if options.keys.is_some() {
        encrypted::copy_keys(dir, &kept)?;
    }
    let found_wrong = match findings(dir, &files, options) {
        // For example, a log that the disk cannot read.
        Err(error @ (Error::Corrupt(_) | Error::Io(_))) => vec![error.to_string()],
        found => found?,
    };
    let mut repair = Repair { findings: found_wrong, ..Repair::default() };
    if repair.findings.is_empty() {
        closed::forget(dir)?;
        let read = read_all(&files, options);
        wal::forget(&files)?;
        match read {
            Ok(()) => repair.findings = dropped_from_journal(&files, options.keys()),
            Err(error @ (Error::Corrupt(_) | Error::Io(_))) => {
                repair.findings.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    if repair.findings.is_empty() {
        files::remove(&kept)?;
        return Ok(repair);
    }
    let originals = kept.join(ENGINE);
    let sequence = salvage(dir, &originals, options, &mut repair)?;
    swap(dir, &files)?;
    let stamps_from = found.stamps_from + sequence;
    marker::update(dir, ENGINE, marker::Marker { fresh: false, stamps_from })?;
    closed::forget(dir)?;
    repair.kept = Some(kept);
    Ok(repair)
}

fn seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

/// The synced data that the logs have lost, in sentences.
pub(crate) fn damaged_logs(dir: &Path, files: &Path, options: &Options) -> Result<Vec<String>> {
    // The data directory itself has no logs of RocksDB.
    let mut needed = || match first_needed_log(files, dir, options, &system(files, true)) {
        Ok(number) => Some(number),
        Err(error) => {
            log::warn!(target: "STORAGE", id = 7_702_060, error:% = error;
                "The logs that are needed cannot be determined; all logs are required");
            None
        }
    };
    let damaged = wal::damaged(files, options.keys(), &mut needed)?;
    Ok(damaged.iter().map(ToString::to_string).collect())
}

/// Damage that can be found without opening the database.
fn findings(dir: &Path, files: &Path, options: &Options) -> Result<Vec<String>> {
    if !files.join("CURRENT").exists() {
        return Ok(vec![format!("{} is missing", files.join("CURRENT").display())]);
    }
    Ok(match closed::check(dir, files)? {
        Closed::Damaged(damaged) => damaged,
        Closed::Unknown | Closed::Logged(_) => damaged_logs(dir, files, options)?,
        Closed::Whole(_) => Vec::new(),
    })
}

fn system(files: &Path, salvage: bool) -> System {
    System { direct_io: capacity::takes_direct_io(files), salvage, ..System::plain() }
}

/// Reads every key and value, and the blocks that sequential reads do not use (filters).
fn read_all(files: &Path, options: &Options) -> Result<()> {
    let db = Arc::new(Db::open(files, options, &system(files, false))?);
    if let Some(damaged) = db.verify()? {
        return Err(Error::Corrupt(damaged));
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for space in stored() {
        let mut reader = Salvage::new(&db, None, space);
        while reader.next(&mut key, &mut value)? {
            if let Some(lost) = reader.lost.pop() {
                return Err(Error::Corrupt(lost.error));
            }
        }
        if let Some(lost) = reader.lost.pop() {
            return Err(Error::Corrupt(lost.error));
        }
    }
    Ok(())
}

fn stored() -> impl Iterator<Item = Space> {
    Space::ALL.into_iter().filter(|space| *space != Space::Spill)
}

/// Fills `repair.new` from the originals. Returns their greatest sequence number.
fn salvage(dir: &Path, originals: &Path, options: &Options, repair: &mut Repair) -> Result<u64> {
    let (work, new) = (dir.join(WORK), dir.join(NEW));
    let environment = options.keys.as_ref().map(Environment::new);
    let environment = environment.as_ref();
    repair.findings.extend(work_on(originals, &work, options, environment)?);
    let mut opened = open_tolerant(&work, options);
    if opened.is_err() && left_out::leave_out(&work, options, environment, repair)? {
        // The indexes of all collections are checked.
        repair.file_list_rebuilt = true;
        opened = open_tolerant(&work, options);
    }
    let db = match opened {
        Ok(db) => db,
        Err(why) => {
            repair.file_list_rebuilt = true;
            repair.findings.push(format!(
                "the list of files is made anew from the tables; what was last changed in one that \
                 is missing or cannot be used is lost or older: {why}"
            ));
            files::remove(&work)?;
            work_on(originals, &work, options, environment)?;
            repair_file_list(&work, options, &system(&work, true))?;
            repair.findings.extend(set_aside(&work));
            Arc::new(Db::open(&work, options, &system(&work, true))?)
        }
    };
    repair.findings.extend(dropped_from_journal(&work, options.keys()));
    let sequence = db.sequence();
    copy_all(&db, &work, &new, options, repair)?;
    drop(db);
    files::remove(&work)?;
    Ok(sequence)
}

/// Makes `work` a copy of the originals in which single files are repaired. Returns what is said of these.
fn work_on(
    originals: &Path,
    work: &Path,
    options: &Options,
    environment: Option<&Environment>,
) -> Result<Vec<String>> {
    files::twin(originals, work)?;
    let mut findings = match options.keys() {
        Some(keys) => headers::repair(work, keys)?,
        None => Vec::new(),
    };
    findings.extend(wal::rewrite(work, options.keys())?);
    findings.extend(tables::repair(work, options.keys(), environment)?);
    Ok(findings)
}

/// Opens the files, checking that they can be read at all: a level-0 file that cannot be opened makes every read of
/// its space fail.
fn open_tolerant(work: &Path, options: &Options) -> Result<Arc<Db>> {
    if !work.join("CURRENT").exists() {
        return Err(Error::Corrupt("CURRENT is missing".to_owned()));
    }
    let db = Arc::new(Db::open(work, options, &system(work, true))?);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for space in stored() {
        let mut reader = Salvage::new(&db, None, space);
        if !reader.next(&mut key, &mut value)?
            && let Some(lost) = reader.lost.pop()
        {
            return Err(Error::Corrupt(lost.error));
        }
    }
    Ok(db)
}

/// Files that RocksDB's repair could not use at all.
fn set_aside(work: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(work.join("lost")) else { return Vec::new() };
    let names =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    let tables = names.filter(|name| name.ends_with(".sst") || name.ends_with(".blob"));
    tables.map(|name| format!("{name} could not be used")).collect()
}

fn copy_all(
    db: &Arc<Db>,
    work: &Path,
    new: &Path,
    options: &Options,
    repair: &mut Repair,
) -> Result<()> {
    // So that each key is in a table. Without that, some would be missing among those that are read one by one.
    db.flush_memtables()?;
    let target = engine::open(new, options)?;
    for space in stored() {
        let mut reader = Salvage::new(db, Some(work), space);
        target.load(space, &mut |key, value| reader.next(key, value))?;
        repair.entries += reader.entries;
        repair.lost.append(&mut reader.lost);
    }
    target.close()
}

/// Replaces the damaged files by the new ones.
fn swap(dir: &Path, files: &Path) -> Result<()> {
    let old = dir.join(OLD);
    files::remove(&old)?;
    fs::rename(files, &old)?;
    fs::rename(dir.join(NEW).join(ENGINE), files)?;
    files::sync(dir)?;
    files::remove(&old)?;
    files::remove(&dir.join(NEW))
}

/// Returns true if a repair that was interrupted has left the old files aside.
pub(crate) fn has_old(dir: &Path) -> bool {
    dir.join(OLD).exists()
}

/// Restores the old files after a crash between the two renames.
pub(crate) fn put_back(dir: &Path) -> Result<()> {
    let (files, old) = (dir.join(ENGINE), dir.join(OLD));
    if !files.exists() && old.exists() {
        fs::rename(&old, &files)?;
        files::sync(dir)?;
    }
    Ok(())
}
