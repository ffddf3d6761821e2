//! The marker file `nagi.storage`: the engine and the format of a data directory.
//!
//!   engine: rocksdb
//!   format: 2
//!   state: new             until the engine's files exist
//!   stampsFrom: 4711       after a repair: commit stamps continue from here
//!
//! It is written before the first byte of data, and checked before any file is opened. Without the state, a data
//! directory whose files are gone would be mistaken for a new one and look like an empty database.

use std::{fs, io, path::Path};

use nagi_kv::{Error, Result};

use crate::{is_own_entry, refuse_special};

/// The newest formats. Format 2 of RocksDB's: records that are stored as differences.
const FORMATS: &[(&str, u32)] = &[("rocksdb", 2)];
/// The format of every other engine.
const FIRST_FORMAT: u32 = 1;
const FILE: &str = "nagi.storage";
/// Files that identify the data directory of a MongoDB server.
const OF_MONGODB: &[&str] = &["WiredTiger", "storage.bson", "local.ns"];
/// Files that identify the data of other programs.
const OF_OTHERS: &[(&str, &str)] = &[
    ("ibdata1", "the data of MySQL or MariaDB"),
    ("PG_VERSION", "the data of PostgreSQL"),
    ("data.mdb", "an LMDB database of another program"),
];

/// The contents of the file apart from engine and format.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Marker {
    /// True if the engine's files have not been created yet.
    pub fresh: bool,
    /// Stamps up to this one were assigned by files that a repair has replaced.
    pub stamps_from: u64,
}

fn newest_format(engine: &str) -> u32 {
    FORMATS.iter().find(|(name, _)| *name == engine).map_or(FIRST_FORMAT, |(_, format)| *format)
}

/// Accepts a data directory that is new or belongs to the engine, and marks it: with the newest format, so that an
/// older program does not open what this one will write. The engine calls [`update`] once
/// its files exist.
///
/// # Errors
/// `Io` with a clear message if the folder belongs to another engine or server, or has a newer format.
pub fn claim(dir: &Path, engine: &str) -> Result<Marker> {
    match read(dir)? {
        Some(text) => {
            let (marker, format) = check(dir, engine, &text)?;
            if format < newest_format(engine) {
                update(dir, engine, marker)?;
            }
            Ok(marker)
        }
        None => {
            let marker = Marker { fresh: is_fresh(dir, engine)?, ..Marker::default() };
            update(dir, engine, marker)?;
            Ok(marker)
        }
    }
}

/// What [`claim`] would say of [`Marker::fresh`]; changes nothing.
///
/// # Errors
/// Those of [`claim`], except of writing.
pub fn is_fresh(dir: &Path, engine: &str) -> Result<bool> {
    if let Some(text) = read(dir)? {
        return Ok(check(dir, engine, &text)?.0.fresh);
    }
    refuse_foreign(dir)?;
    // If the engine's folder has files but there is no marker, the marker was lost.
    let mut inside = fs::read_dir(dir.join(engine)).into_iter().flatten();
    Ok(inside.next().is_none())
}

/// Refuses a folder that another program keeps its data in. Changes nothing, so it can be called before the folder is
/// locked. A folder with a marker is ours.
///
/// # Errors
/// `Io` with a clear message that names the file found.
pub fn refuse_foreign(dir: &Path) -> Result<()> {
    if fs::symlink_metadata(dir.join(FILE)).is_ok() {
        return Ok(());
    }
    let is_there = |file: &str| fs::symlink_metadata(dir.join(file)).is_ok();
    let advice = "use an empty directory";
    let of_mongodb = OF_MONGODB.iter().find(|file| is_there(file)).map(|file| (*file).to_owned());
    if let Some(file) = of_mongodb.or_else(|| namespaces(dir)) {
        return Err(refused(format!(
            "{} contains data of another server (found '{file}'); {advice}, and copy the data with \
             mongodump from that server and mongorestore to this one",
            dir.display()
        )));
    }
    let found = OF_OTHERS.iter().find(|(file, _)| is_there(file));
    let found = found.map(|(file, what)| (format!("'{file}'"), *what));
    let Some((files, what)) = found.or_else(|| tables(dir)) else { return Ok(()) };
    Err(refused(format!("{} contains {what} (found {files}); {advice}", dir.display())))
}

/// A file of namespaces beside the first data file, as MongoDB's mapped engine has them for each database.
fn namespaces(dir: &Path) -> Option<String> {
    let pair = |dir: &Path, stem: &str| {
        let is_there = |end: &str| fs::symlink_metadata(dir.join(format!("{stem}.{end}"))).is_ok();
        is_there("ns") && is_there("0")
    };
    if pair(&dir.join("local"), "local") {
        return Some("local/local.ns".to_owned());
    }
    let names = fs::read_dir(dir).ok()?.flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find(|name| name.strip_suffix(".ns").is_some_and(|stem| pair(dir, stem)))
}

/// The files that identify a RocksDB or LevelDB database at the top of a folder; ours is in a folder of its own.
fn tables(dir: &Path) -> Option<(String, &'static str)> {
    fs::symlink_metadata(dir.join("CURRENT")).ok()?;
    let names = fs::read_dir(dir).ok()?.flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let manifest = names.find(|name| name.starts_with("MANIFEST-"))?;
    let what = "a RocksDB or LevelDB database of another program";
    Some((format!("'CURRENT' and '{manifest}'"), what))
}

/// Returns true if the folder may hold data of an engine: its files, or a marker that says so or cannot be read. A
/// lock, a process id or a marker of a start that got no further are no data.
pub fn may_hold_data(dir: &Path) -> bool {
    match read(dir) {
        Ok(Some(text)) => field(&text, "state") != Some("new"),
        Ok(None) => fs::read_dir(dir).map_or(true, |entries| {
            let is_own = |name: &str| is_own_entry(name) && name != "mongod.lock";
            entries.flatten().any(|entry| is_own(&entry.file_name().to_string_lossy()))
        }),
        Err(_) => true,
    }
}

/// The engine whose data is in the folder; none if there is none yet.
///
/// # Errors
/// `Io` if the marker cannot be read or names no engine.
pub fn engine_of(dir: &Path) -> Result<Option<String>> {
    let Some(text) = read(dir)? else { return Ok(None) };
    match field(&text, "engine") {
        Some(engine) => Ok(Some(engine.to_owned())),
        None => Err(refused(format!("{} names no storage engine", dir.join(FILE).display()))),
    }
}

/// Marks a folder as this engine's, with existing files.
pub fn write(dir: &Path, engine: &str) -> Result<()> {
    update(dir, engine, Marker::default())
}

/// Writes the file. It is durable on return, together with the other names in the folder.
pub fn update(dir: &Path, engine: &str, marker: Marker) -> Result<()> {
    let temporary = dir.join("nagi.storage.tmp");
    let mut text = format!("engine: {engine}\nformat: {}\n", newest_format(engine));
    if marker.fresh {
        text.push_str("state: new\n");
    }
    if marker.stamps_from > 0 {
        text.push_str(&format!("stampsFrom: {}\n", marker.stamps_from));
    }
    fs::write(&temporary, text)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, dir.join(FILE))?;
    fs::File::open(dir)?.sync_all()?;
    Ok(())
}

fn read(dir: &Path) -> Result<Option<String>> {
    refuse_special(dir)?;
    match fs::read(dir.join(FILE)) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::Corrupt(format!("{} is not text", dir.join(FILE).display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

/// The contents, and the format.
fn check(dir: &Path, engine: &str, text: &str) -> Result<(Marker, u32)> {
    let found = field(text, "engine").unwrap_or("unknown");
    if found != engine {
        return Err(refused(format!(
            "{} was created by the '{found}' storage engine, the specified storage engine is \
             '{engine}'",
            dir.display()
        )));
    }
    let newest = newest_format(engine);
    let format = match field(text, "format").and_then(|format| format.parse::<u32>().ok()) {
        Some(format) if format <= newest => format,
        other => {
            return Err(refused(format!(
                "{} has storage format {}, this version reads up to {newest}",
                dir.display(),
                other.map_or("unknown".to_owned(), |format| format.to_string())
            )));
        }
    };
    let stamps_from = match field(text, "stampsFrom").map(str::parse) {
        None => 0,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            return Err(Error::Corrupt(format!("{}: bad stampsFrom", dir.join(FILE).display())));
        }
    };
    Ok((Marker { fresh: field(text, "state") == Some("new"), stamps_from }, format))
}

fn refused(message: String) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::InvalidData, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these empty files and folders, for `run`.
    fn with(name: &str, entries: &[&str], run: impl FnOnce(&Path)) {
        let dir = std::env::temp_dir().join(format!("nagi-marker-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for entry in entries {
            match entry.strip_suffix('/') {
                Some(folder) => fs::create_dir(dir.join(folder)).unwrap(),
                None => fs::write(dir.join(entry), b"").unwrap(),
            }
        }
        run(&dir);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn data_of_other_programs_is_refused_by_name() {
        for (entries, text) in [
            (
                &["WiredTiger"][..],
                "another server (found 'WiredTiger'); use an empty directory, and",
            ),
            (
                &["test.0", "test.ns"],
                "another server (found 'test.ns'); use an empty directory, and",
            ),
            (&["PG_VERSION", "base/"], "the data of PostgreSQL (found 'PG_VERSION'); use an empty"),
            (&["ibdata1"], "the data of MySQL or MariaDB"),
            (&["data.mdb"], "an LMDB database"),
            (&["CURRENT", "MANIFEST-000005"], "(found 'CURRENT' and 'MANIFEST-000005')"),
        ] {
            with("foreign", entries, |dir| {
                let error = claim(dir, "rocksdb").unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
                let of_mongodb = matches!(entries[0], "WiredTiger" | "test.0");
                assert_eq!(error.contains("mongodump"), of_mongodb, "{error}");
                assert_eq!(fs::read_dir(dir).unwrap().count(), entries.len(), "nothing is written");
            });
        }
        for entries in
            [&["CURRENT"][..], &["MANIFEST-1"], &["notes.txt"], &["CURRENT", "nagi.storage"]]
        {
            with("harmless", entries, |dir| refuse_foreign(dir).unwrap());
        }
    }

    #[test]
    fn what_may_hold_data() {
        for entries in [&[][..], &["notes.txt"], &["mongod.lock"]] {
            with("empty", entries, |dir| assert!(!may_hold_data(dir), "{entries:?}"));
        }
        for entries in [&["rocksdb/"][..], &["nagi.storage"], &["repair.old/"]] {
            with("full", entries, |dir| assert!(may_hold_data(dir), "{entries:?}"));
        }
        with("new", &[], |dir| {
            claim(dir, "rocksdb").unwrap();
            assert!(!may_hold_data(dir));
            write(dir, "rocksdb").unwrap();
            assert!(may_hold_data(dir));
        });
    }
}
