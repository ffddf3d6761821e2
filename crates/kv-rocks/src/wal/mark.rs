//! Marks: the part of the log that was known to be durable at some moment.
//!
//! A log that ends early looks the same if a crash tore it and if a byte of it changed later. They are
//! distinguished by the synced position: a crash cannot remove anything before it. So after each sync of the log a
//! mark is stored, in three places:
//!
//!   in the log     at the beginning of the next batch, as data that RocksDB ignores
//!   in the ring    which survives a process that is killed (ring_buffer/ring.rs)
//!   `SYNCED`       the mark of such a ring, until the log has been recovered
//!
//!   bytes          "NSYN" | log, u64 | offset, u64 | previous log, u64 | its size, u64

use std::{fs, io, path::Path};

use nagi_kv::Result;

pub(crate) const MARK_BYTES: usize = 36;
const MAGIC: &[u8; 4] = b"NSYN";
const FILE: &str = "SYNCED";
/// Header of a batch: sequence number and count.
const BATCH_HEADER: usize = 12;
/// RocksDB's tag of data that is not a write.
const LOG_DATA: u8 = 3;

/// The durable part of the log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Mark {
    pub(crate) log: u64,
    /// All bytes of `log` before this offset, which is the end of a batch.
    pub(crate) offset: u64,
    /// The previous log, which is durable as a whole: 0 if there was none since the start.
    pub(crate) previous: u64,
    pub(crate) previous_bytes: u64,
}

impl Mark {
    pub(crate) fn bytes(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        let fields = [self.log, self.offset, self.previous, self.previous_bytes];
        for (place, field) in bytes[4..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn parse(bytes: &[u8; MARK_BYTES]) -> Option<Mark> {
        let field =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| bytes[4 + at * 8 + n]));
        let (log, offset, previous, previous_bytes) = (field(0), field(1), field(2), field(3));
        bytes.starts_with(MAGIC).then_some(Mark { log, offset, previous, previous_bytes })
    }

    /// The mark at the beginning of a batch.
    pub(super) fn of_batch(payload: &[u8]) -> Option<Mark> {
        let rest = payload.get(BATCH_HEADER..)?;
        let rest = rest.strip_prefix(&[LOG_DATA, MARK_BYTES as u8])?;
        Mark::parse(rest.first_chunk()?)
    }

    /// The durable size of each log.
    pub(crate) fn logs(&self) -> [(u64, u64); 2] {
        [(self.log, self.offset), (self.previous, self.previous_bytes)]
    }
}

/// Stores a mark until `forget`. Durable on return.
pub(crate) fn keep(files: &Path, mark: &Mark) -> io::Result<()> {
    let mut bytes = mark.bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let temporary = files.join("SYNCED.tmp");
    fs::write(&temporary, bytes)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, files.join(FILE))?;
    fs::File::open(files)?.sync_all()
}

/// The stored mark, if it can be read.
pub(super) fn kept(files: &Path) -> Option<Mark> {
    let bytes = fs::read(files.join(FILE)).ok()?;
    let (mark, sum) = bytes.split_first_chunk::<MARK_BYTES>()?;
    (*sum == crc32c::crc32c(mark).to_le_bytes()).then(|| Mark::parse(mark)).flatten()
}

/// Removes the mark after the log was recovered.
pub(crate) fn forget(files: &Path) -> Result<()> {
    match fs::remove_file(files.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_at_the_beginning_of_a_batch_only() {
        let mark = Mark { log: 7, offset: 4711, previous: 5, previous_bytes: 99 };
        assert_eq!(Mark::parse(&mark.bytes()), Some(mark));
        let mut batch = vec![9; BATCH_HEADER];
        assert_eq!(Mark::of_batch(&batch), None);
        batch.extend_from_slice(&[LOG_DATA, MARK_BYTES as u8]);
        assert_eq!(Mark::of_batch(&batch), None);
        batch.extend_from_slice(&mark.bytes());
        assert_eq!(Mark::of_batch(&batch), Some(mark));
        assert_eq!(Mark::of_batch(&batch[1..]), None);
    }
}
