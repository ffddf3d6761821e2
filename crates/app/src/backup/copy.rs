//! Copies bytes to a directory: computes checksums, syncs at the end, and limits the rate.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nagi_bson::text::Hex;
use sha2::{Digest, Sha256};

use super::manifest::{Manifest, ManifestFile};
use super::source::{PIECE_BYTES, Source};
use super::{DATA, failed};
use crate::say;

/// The end of a table file contains the engine's unique id of the file.
const TAIL_BYTES: u64 = 16 << 10;
const TELL_EACH: Duration = Duration::from_secs(1);

/// A rate limit, and the progress so far.
pub(super) struct Pace {
    rate_bytes: Option<u64>,
    begun: Instant,
    done: u64,
    told: Instant,
}

impl Pace {
    pub(super) fn new(rate_bytes: Option<u64>) -> Pace {
        Pace { rate_bytes, begun: Instant::now(), done: 0, told: Instant::now() }
    }

    /// Counts bytes that were read, and sleeps if that exceeds the rate.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if let Some(rate) = self.rate_bytes {
            let due = Duration::from_secs_f64(self.done as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }

    /// Shows the progress on a terminal.
    pub(super) fn tell(&mut self, done: u64, total: u64) {
        if self.told.elapsed() >= TELL_EACH && std::io::stderr().is_terminal() {
            self.told = Instant::now();
            let percent = done as f64 / total.max(1) as f64 * 100.0;
            say(&format!("{} of {} MB, {percent:.0} %", done >> 20, total >> 20));
        }
    }
}

/// Opens a file of a backup. Other kinds are refused: opening a pipe would block, and a device may be endless.
fn open(path: &Path) -> Result<File, String> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(failed(path, &"it is not a regular file")),
        _ => File::open(path).map_err(|error| failed(path, &error)),
    }
}

/// Computes size and checksum of a file.
pub(super) fn digest(path: &Path, pace: &mut Pace) -> Result<(u64, String), String> {
    let mut file = open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut count = 0;
    loop {
        let read = file.read(&mut piece).map_err(|error| failed(path, &error))?;
        if read == 0 {
            return Ok((count, Hex(&hash.finalize()).to_string()));
        }
        hash.update(&piece[..read]);
        count += read as u64;
        pace.spend(read);
    }
}

/// Copies a file to a new one and syncs it; returns size and checksum.
pub(super) fn copy_file(from: &Path, to: &Path, pace: &mut Pace) -> Result<(u64, String), String> {
    let mut source = open(from)?;
    let mut target = create(to)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut count = 0;
    loop {
        let read = source.read(&mut piece).map_err(|error| failed(from, &error))?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        target.write_all(&piece[..read]).map_err(|error| failed(to, &error))?;
        count += read as u64;
        pace.spend(read);
    }
    target.sync_all().map_err(|error| failed(to, &error))?;
    Ok((count, Hex(&hash.finalize()).to_string()))
}

fn create(path: &Path) -> Result<File, String> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
    }
    File::create_new(path).map_err(|error| failed(path, &error))
}

/// Syncs a directory and all directories in it.
pub(super) fn sync_folders(folder: &Path) -> Result<(), String> {
    let sync = || -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                sync_folders(&path).map_err(std::io::Error::other)?;
            }
        }
        File::open(folder)?.sync_all()
    };
    sync().map_err(|error| failed(folder, &error))
}

/// Copies all files of the source below `out`. Returns the manifest, and the number of bytes reused from the base.
pub(super) fn back_up(
    source: &mut Source,
    out: &Path,
    base: Option<&(PathBuf, Manifest)>,
    pace: &mut Pace,
) -> Result<(Manifest, u64), String> {
    let known: HashMap<&str, &ManifestFile> = base
        .into_iter()
        .flat_map(|(_, manifest)| &manifest.files)
        .map(|file| (file.name.as_str(), file))
        .collect();
    let names = source.files.clone();
    let total = names.iter().map(|file| file.1).sum();
    let (mut files, mut done, mut reused) = (Vec::new(), 0, 0);
    for (name, byte_count) in names {
        let to = out.join(DATA).join(&name);
        let old = known.get(name.as_str()).filter(|old| old.byte_count == byte_count);
        let taken = match (base, old) {
            (Some((folder, _)), Some(old)) if name.ends_with(".sst") => {
                take(source, &folder.join(DATA).join(&name), old, &to)?
            }
            _ => false,
        };
        let sha256 = match (taken, old) {
            (true, Some(old)) => {
                reused += byte_count;
                old.sha256.clone()
            }
            _ => fetch(source, &name, byte_count, &to, (done, total), pace)?,
        };
        done += byte_count;
        files.push(ManifestFile { name, byte_count, sha256 });
    }
    sync_folders(out)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let manifest = Manifest {
        engine: source.engine.clone(),
        nagi_version: source.nagi_version.clone(),
        created_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        log: None,
        set: None,
        files,
    };
    Ok((manifest, reused))
}

/// Links (or copies) a table file of the base if it is identical; otherwise returns false. Table files never change,
/// and their ends identify them.
fn take(source: &mut Source, from: &Path, old: &ManifestFile, to: &Path) -> Result<bool, String> {
    let at = old.byte_count.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; (old.byte_count - at) as usize];
    let same_size = fs::metadata(from).is_ok_and(|file| file.len() == old.byte_count);
    let read = same_size && open(from).is_ok_and(|f| f.read_exact_at(&mut tail, at).is_ok());
    if !read || source.read(&old.name, at, tail.len() as u64)? != tail {
        return Ok(false);
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
    }
    if fs::hard_link(from, to).is_ok() {
        return Ok(true);
    }
    let (_, sum) = copy_file(from, to, &mut Pace::new(None))?;
    if sum != old.sha256 {
        fs::remove_file(to).map_err(|error| failed(to, &error))?;
        return Ok(false);
    }
    Ok(true)
}

/// Reads a file of the source into a new file; returns its checksum.
fn fetch(
    source: &mut Source,
    name: &str,
    byte_count: u64,
    to: &Path,
    (before, total): (u64, u64),
    pace: &mut Pace,
) -> Result<String, String> {
    let mut target = create(to)?;
    let mut hash = Sha256::new();
    let mut offset = 0;
    while offset < byte_count {
        let piece = source.read(name, offset, byte_count - offset)?;
        hash.update(&piece);
        target.write_all(&piece).map_err(|error| failed(to, &error))?;
        offset += piece.len() as u64;
        pace.spend(piece.len());
        pace.tell(before + offset, total);
    }
    target.sync_all().map_err(|error| failed(to, &error))?;
    Ok(Hex(&hash.finalize()).to_string())
}
