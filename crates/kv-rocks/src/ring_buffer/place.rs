//! The location of the ring, and how it is found again.
//!
//! The file `SPOOL` in the database's folder names the ring and its id. It exists while a process has the folder
//! open. If it exists at an open, the last process did not shut down in order.
//!
//! A ring of another folder may hold writes that its server has acknowledged, while that folder is not visible: its
//! disk is not mounted, or it is in another container that shares `/dev/shm`. So it is removed only if its folder is
//! there and does not name it, or after [`FORGOTTEN_AFTER`].

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    found::{self, Found, Trusted},
    raw::{self, Mapping},
    replay::replay,
    ring::{self, HEADER_BYTES, Owner, Ring},
    thread::RingBuffer,
};
use crate::wal;

const FILE: &str = "SPOOL";
/// Prefix of a ring's file name.
const PREFIX: &str = "nagi-";
/// A ring that no process has used for this time is removed although its folder cannot be seen. A process sets the
/// ring's time of modification each hour (`RingBuffer::touch`).
const FORGOTTEN_AFTER: Duration = Duration::from_hours(7 * 24);
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

/// Removes rings of killed processes that are never used again, and occupy memory.
fn remove_forgotten(place: &Path) {
    for path in rings(place) {
        if is_forgotten(&path) {
            log::info!(target: "STORAGE", id = 7_702_018, ring = path.display().to_string();
                "Removing a ring buffer that no data directory uses");
            let _ = fs::remove_file(&path);
        }
    }
}

/// The files that have the name of a ring.
fn rings(place: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    named.map(|entry| entry.path())
}

fn is_forgotten(path: &Path) -> bool {
    let Found::Ring(file) = found::open(path, Trusted::own()) else { return false };
    let Ok(data) = file.metadata() else { return false };
    if data.len() < HEADER_BYTES as u64 || !raw::lock(&file) {
        return false;
    }
    let Ok(memory) = Mapping::new(&file, HEADER_BYTES) else { return false };
    let Some(dir) = ring::folder(&memory) else { return false };
    match fs::metadata(&dir) {
        // The folder itself is visible, so its `SPOOL` tells if the ring is still used. A folder of another container
        // may have the same path and device, but not the same inode.
        Ok(found) if ring::is_of(&memory, &found) => match fs::read(dir.join(FILE)) {
            Ok(text) => parse(&text).is_some_and(|(named, _)| named != path),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        },
        _ => data.modified().is_ok_and(|m| m.elapsed().is_ok_and(|age| age > FORGOTTEN_AFTER)),
    }
}

fn recover(dir: &Path, head: u64) -> io::Result<()> {
    let name = dir.join(FILE);
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", name.display()));
    let text = match fs::read(&name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(named(error)),
    };
    let about = fs::metadata(&name).map_err(named)?;
    if let Some((path, id)) = parse(&text).or_else(|| search(dir, &name, &about)) {
        recover_ring(dir, &path, id, Trusted::of(&about), head)?;
    }
    fs::remove_file(&name)?;
    File::open(dir)?.sync_all()
}

/// `SPOOL` is damaged: searches the ring by the folder that its header names.
fn search(dir: &Path, name: &Path, about: &Metadata) -> Option<(PathBuf, [u8; 16])> {
    let folder = fs::metadata(dir).ok()?;
    let ring_of = |path: PathBuf| {
        let Found::Ring(file) = found::open(&path, Trusted::of(about)) else { return None };
        if file.metadata().ok()?.len() < HEADER_BYTES as u64 {
            return None;
        }
        let memory = Mapping::new(&file, HEADER_BYTES).ok()?;
        (ring::folder(&memory).is_some() && ring::is_of(&memory, &folder))
            .then(|| (path, ring::id(&memory)))
    };
    let found = PLACES.iter().flat_map(|place| rings(Path::new(place))).find_map(ring_of);
    let ring =
        found.as_ref().map_or_else(|| "none".to_owned(), |(path, _)| path.display().to_string());
    log::warn!(target: "STORAGE", id = 8_200_261, file = name.display().to_string(), ring = ring;
        "The file that names the ring buffer of the journal is damaged; the ring buffer was searched by its directory");
    found
}

fn recover_ring(
    dir: &Path,
    path: &Path,
    id: [u8; 16],
    trusted: Trusted,
    head: u64,
) -> io::Result<()> {
    let file = match found::open(path, trusted) {
        Found::Ring(file) => file,
        // The machine was restarted: synced data is in the log.
        Found::Missing => return Ok(()),
        Found::Refused(refused) => {
            let (owner, mode) = refused.owner_and_mode();
            log::warn!(target: "STORAGE", id = 8_200_260, ring = path.display().to_string(), ringId = hex(&id),
                owner = owner, mode = mode, error = refused.reason;
                "A file in the place of the journal's ring buffer is not used: only a regular file of the server's \
                 user that no other user can open is. Commits that were only in the ring buffer are lost");
            return Ok(());
        }
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

/// The ring and its id in the text of `SPOOL`; `None` if it is damaged.
fn parse(text: &[u8]) -> Option<(PathBuf, [u8; 16])> {
    let text = str::from_utf8(text).ok()?;
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
