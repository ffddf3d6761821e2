//! The location of the ring, and how it is found again.
//!
//! The file `SPOOL` in the database's folder names the ring and its id. It exists while a process has the folder
//! open. If it exists at an open, the last process did not shut down in order.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    raw::{self, Mapping},
    replay::replay,
    ring::{self, HEADER_BYTES, Owner, Ring},
    thread::RingBuffer,
};
use crate::wal;

const FILE: &str = "SPOOL";
/// Prefix of a ring's file name.
const PREFIX: &str = "nagi-";
const FORGOTTEN_AFTER: Duration = Duration::from_hours(24);
/// Memory file systems, in the order of preference.
const PLACES: &[&str] = &["/dev/shm", "/run/shm"];

/// Writes the content of a killed process's ring to the log, and creates a ring buffer of `ring_bytes`. None
/// without a memory file system with enough space; then the log is written directly. `head`: bytes of the header of
/// each log, 0 without encryption.
///
/// # Errors
/// Another process has the folder open, or the content of the old ring cannot be written.
pub(crate) fn open(dir: &Path, ring_bytes: u64, head: u64) -> io::Result<Option<RingBuffer>> {
    recover(dir, head)?;
    for place in PLACES {
        match create(dir, Path::new(place), ring_bytes, head) {
            Ok(Some(ring_buffer)) => return Ok(Some(ring_buffer)),
            Ok(None) => {}
            Err(error) => {
                log::warn!(target: "STORAGE", id = 7_702_013, place = *place, error:% = error;
                    "The journal cannot have a ring buffer here");
            }
        }
    }
    log::warn!(target: "STORAGE", id = 7_702_014;
        "The journal is written without a ring buffer: commits wait if the file system stalls");
    Ok(None)
}

fn create(dir: &Path, place: &Path, ring_bytes: u64, head: u64) -> io::Result<Option<RingBuffer>> {
    let Ok(folder) = File::open(place) else { return Ok(None) };
    if !raw::is_memory(&folder) {
        return Ok(None);
    }
    remove_forgotten(place);
    let owner = owner(dir, new_id()?)?;
    let path = place.join(format!("{PREFIX}{}", hex(&owner.id)));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path)?;
    let length = HEADER_BYTES as u64 + ring_bytes / 8 * 8;
    let made = raw::reserve(&file, length).and_then(|()| Mapping::new(&file, length as usize));
    let made = made.and_then(|memory| {
        raw::lock(&file);
        let ring = Ring::create(memory, &owner, dir);
        write_name(dir, &path, &owner.id)?;
        RingBuffer::start(dir, ring, file, vec![dir.join(FILE), path.clone()], head)
    });
    if made.is_err() {
        let _ = fs::remove_file(&path);
    }
    made.map(Some)
}

/// Removes rings of killed processes whose folder was removed afterwards, or was opened by a process that could not
/// see the ring: they are never used again, and occupy memory.
fn remove_forgotten(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_forgotten(&path) {
            log::info!(target: "STORAGE", id = 7_702_018, ring = path.display().to_string();
                "Removing the ring buffer of a data directory that does not exist");
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_forgotten(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    let Ok(file) = opened else { return false };
    let Ok(data) = file.metadata() else { return false };
    if data.len() < HEADER_BYTES as u64 || !raw::lock(&file) {
        return false;
    }
    let Ok(memory) = Mapping::new(&file, HEADER_BYTES) else { return false };
    let Some(dir) = ring::folder(&memory) else { return false };
    match fs::metadata(&dir) {
        // The folder is visible on its own file system, so its `SPOOL` tells if the ring is still used.
        Ok(found) if found.dev() == ring::device(&memory) => {
            match fs::read_to_string(dir.join(FILE)) {
                Ok(text) => parse(&text).is_none_or(|(named, _)| named != path),
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            }
        }
        Err(_) if is_removed(&dir, ring::device(&memory)) => true,
        // The folder may be visible only to other processes. After a day without use the ring is removed.
        _ => data.modified().is_ok_and(|m| m.elapsed().is_ok_and(|age| age > FORGOTTEN_AFTER)),
    }
}

/// Returns true if the folder was removed from a file system that still exists: the remaining part of its path is
/// on the same device.
fn is_removed(dir: &Path, device: u64) -> bool {
    let left = dir.ancestors().find_map(|path| fs::metadata(path).ok());
    !dir.exists() && left.is_some_and(|data| data.dev() == device)
}

fn recover(dir: &Path, head: u64) -> io::Result<()> {
    let name = dir.join(FILE);
    let text = match fs::read_to_string(&name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if let Some((path, id)) = parse(&text) {
        recover_ring(dir, &path, id, head)?;
    }
    fs::remove_file(&name)?;
    File::open(dir)?.sync_all()
}

fn recover_ring(dir: &Path, path: &Path, id: [u8; 16], head: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    let Ok(file) = opened else {
        // The machine was restarted: synced data is in the log.
        return Ok(());
    };
    let length = file.metadata()?.len() as usize;
    let attached =
        Mapping::new(&file, length).and_then(|memory| Ring::attach(memory, &owner(dir, id)?));
    let ring = match attached {
        Ok(ring) => ring,
        Err(error) => {
            // The folder is a copy, or part of one: the ring belongs to the original.
            log::warn!(target: "STORAGE", id = 7_702_015, ring = path.display().to_string(),
                error:% = error; "A ring buffer of the journal is not used");
            return Ok(());
        }
    };
    if !raw::lock_soon(&file) {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("another process holds the lock of {}", dir.display()),
        ));
    }
    // Outlives the ring until the log was recovered, however many attempts that takes.
    if let Some(mark) = ring.mark() {
        wal::keep(dir, &mark)?;
    }
    match replay(dir, &ring, head) {
        Ok(bytes) => {
            log::info!(target: "STORAGE", id = 7_702_016, bytes = bytes;
                "The journal was completed from the ring buffer of a process that did not exit \
                 cleanly");
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            log::error!(target: "STORAGE", id = 7_702_017, error:% = error;
                "The ring buffer of the journal is damaged; the records before the damage were used");
        }
        Err(error) => return Err(error),
    }
    fs::remove_file(path)
}

fn owner(dir: &Path, id: [u8; 16]) -> io::Result<Owner> {
    let data = fs::metadata(dir)?;
    Ok(Owner { id, device: data.dev(), inode: data.ino() })
}

fn write_name(dir: &Path, ring: &Path, id: &[u8; 16]) -> io::Result<()> {
    let temporary = dir.join("SPOOL.tmp");
    fs::write(&temporary, format!("ring: {}\nid: {}\n", ring.display(), hex(id)))?;
    File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

fn parse(text: &str) -> Option<(PathBuf, [u8; 16])> {
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let digits = field("id:")?;
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut id = [0; 16];
    for (index, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some((PathBuf::from(field("ring:")?), id))
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn new_id() -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(id)
}
