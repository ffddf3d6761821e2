//! `nagi.storage`: which engine and format a data folder has.
//!
//!   engine: rocksdb
//!   format: 1
//!
//! Written before the first byte of data, checked before anything is opened.

use std::{fs, io, path::Path};

use crate::{Error, Result};

const FORMAT: u32 = 1;
const FILE: &str = "nagi.storage";
/// Files by which another server's data folder is known.
const FOREIGN: &[&str] = &["WiredTiger", "storage.bson", "local.ns", "ibdata1", "PG_VERSION"];

/// Accepts a folder that is new or the engine's and marks it.
///
/// # Errors
/// `Io` with a clear message if the folder is another engine's or server's, or of a newer format.
pub fn claim(dir: &Path, engine: &str) -> Result<()> {
    match read(dir)? {
        Some(text) => check(dir, engine, &text),
        None => {
            if let Some(file) = FOREIGN.iter().find(|file| dir.join(file).exists()) {
                return Err(refused(format!(
                    "{} contains data of another server (found '{file}')",
                    dir.display()
                )));
            }
            write(dir, engine)
        }
    }
}

/// The engine whose data is in the folder; none if it holds none yet.
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

/// Marks a folder as this engine's.
pub fn write(dir: &Path, engine: &str) -> Result<()> {
    let temporary = dir.join("nagi.storage.tmp");
    fs::write(&temporary, format!("engine: {engine}\nformat: {FORMAT}\n"))?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, dir.join(FILE))?;
    fs::File::open(dir)?.sync_all()?;
    Ok(())
}

fn read(dir: &Path) -> Result<Option<String>> {
    match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

fn check(dir: &Path, engine: &str, text: &str) -> Result<()> {
    let found = field(text, "engine").unwrap_or("unknown");
    if found != engine {
        return Err(refused(format!(
            "{} was created by the '{found}' storage engine, the specified storage engine is \
             '{engine}'",
            dir.display()
        )));
    }
    match field(text, "format").and_then(|format| format.parse::<u32>().ok()) {
        Some(format) if format <= FORMAT => Ok(()),
        other => Err(refused(format!(
            "{} has storage format {}, this version reads up to {FORMAT}",
            dir.display(),
            other.map_or("unknown".to_owned(), |format| format.to_string())
        ))),
    }
}

fn refused(message: String) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::InvalidData, message))
}
