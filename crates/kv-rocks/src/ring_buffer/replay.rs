//! Replay: writes the content of a killed process's ring to the log's files.
//!
//! Records are executed again from `head` on. The first one may have been executed before, which is harmless: a
//! created file is created again (nothing was written to it afterwards), a renamed file is found under its new
//! name, and bytes are written at their offset.

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

/// Executes the records in the ring. Returns the number of log bytes written. `head`: bytes of the header of each log.
///
/// # Errors
/// `InvalidData` if a record is damaged; the records before it were executed. Errors of the file system.
pub(super) fn replay(dir: &Path, ring: &Ring, head: u64) -> io::Result<u64> {
    let mut files: HashMap<u64, LogFile> = HashMap::new();
    let (mut position, tail, mut bytes) = (ring.head(), ring.tail(), 0);
    let mut current = None;
    let ahead = files::ahead(ring.capacity());
    while let Some(record) = ring.peek(position, tail)? {
        let number = record.number;
        match record.kind {
            Kind::Pad => {}
            Kind::Create => {
                files.insert(number, LogFile::create(dir, number, ahead, head)?);
            }
            Kind::Reuse => {
                let file = LogFile::reuse(dir, number, record.argument, ahead, head)?;
                files.insert(number, file);
            }
            Kind::Data => {
                if let Entry::Vacant(place) = files.entry(number) {
                    match LogFile::open(dir, number, head) {
                        Ok(file) => drop(place.insert(file)),
                        // It was closed, became obsolete and was removed before the process ended.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
                // The same order as in the thread: see `turn_to` there.
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
