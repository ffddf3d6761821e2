//! `nagi.storage`: which engine and format a data folder has.
//!
//!   engine: rocksdb
//!   format: 1
//!
//! Written before the first byte of data, checked before anything is opened.

use std::{fs, io, path::Path};

use nagi_kv::{Error, Result};

pub(crate) const ENGINE: &str = "rocksdb";
const FORMAT: u32 = 1;
const FILE: &str = "nagi.storage";
/// Files by which another server's data folder is known.
const FOREIGN: &[&str] = &["WiredTiger", "storage.bson", "local.ns", "ibdata1", "PG_VERSION"];

/// Accepts a folder that is new or ours and marks it.
pub(crate) fn claim(dir: &Path) -> Result<()> {
    match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => check(dir, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(file) = FOREIGN.iter().find(|file| dir.join(file).exists()) {
                return Err(refused(format!(
                    "{} contains data of another server (found '{file}')",
                    dir.display()
                )));
            }
            write(dir)
        }
        Err(error) => Err(error.into()),
    }
}

/// Marks a folder as this engine's.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let temporary = dir.join("nagi.storage.tmp");
    fs::write(&temporary, format!("engine: {ENGINE}\nformat: {FORMAT}\n"))?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, dir.join(FILE))?;
    fs::File::open(dir)?.sync_all()?;
    Ok(())
}

fn check(dir: &Path, text: &str) -> Result<()> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    match field("engine") {
        Some(ENGINE) => {}
        other => {
            return Err(refused(format!(
                "{} was created by the '{}' storage engine, the specified storage engine is '{ENGINE}'",
                dir.display(),
                other.unwrap_or("unknown")
            )));
        }
    }
    match field("format").and_then(|format| format.parse::<u32>().ok()) {
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
