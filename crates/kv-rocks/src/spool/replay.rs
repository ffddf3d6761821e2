//! What a killed process left in its ring goes to the log's files.
//!
//! Records are done again from `head` on. The first may have been done already: a file that was
//! created is created again (nothing was written to it after that), a renamed one is found under its
//! new name, bytes are written where they stand.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    io,
    path::Path,
};

use super::{
    files::{self, LogFile},
    ring::{Kind, Ring},
};

/// Does what is left in the ring; the bytes of the log that were written.
///
/// # Errors
/// `InvalidData` if a record is damaged: what stands before it was done. Others from the file system.
pub(super) fn replay(dir: &Path, ring: &Ring) -> io::Result<u64> {
    let mut files: HashMap<u64, LogFile> = HashMap::new();
    let (mut position, tail, mut bytes) = (ring.head(), ring.tail(), 0);
    let mut current = None;
    let ahead = files::ahead(ring.capacity());
    while let Some(record) = ring.peek(position, tail)? {
        let number = record.number;
        match record.kind {
            Kind::Pad => {}
            Kind::Create => {
                files.insert(number, LogFile::create(dir, number, ahead)?);
            }
            Kind::Reuse => {
                files.insert(number, LogFile::reuse(dir, number, record.argument, ahead)?);
            }
            Kind::Data => {
                if let Entry::Vacant(place) = files.entry(number) {
                    match LogFile::open(dir, number) {
                        Ok(file) => drop(place.insert(file)),
                        // Closed, no longer needed and removed before the process ended.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
                // In the order of the thread: see `turn_to` there.
                if let Some(before) = current.replace(number).filter(|before| *before != number)
                    && let Some(file) = files.get(&before)
                {
                    file.sync()?;
                }
                if let Some(file) = files.get_mut(&number) {
                    file.write(record.argument, record.bytes)?;
                    bytes += record.bytes.len() as u64;
                }
            }
            Kind::Close => {
                if let Some(file) = files.get(&number) {
                    file.finish()?;
                }
            }
        }
        position = record.next;
    }
    for file in files.values() {
        file.sync()?;
    }
    File::open(dir)?.sync_all()?;
    Ok(bytes)
}
