//! Format of a segment: a head, then records one after another.
//!
//!   "NAGIJRNL" | version, u32 | zero, u32 | number, u64 | first stamp, u64 | salt, u64 | CRC-32C of the
//!   40 bytes before, u32 | zero, u32; together 48 bytes, little-endian, zeroes up to 64
//!
//! The salt differs with each use of a file.

use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use nagi_kv::Result;

use super::{
    record::{Changes, RECORD_HEAD_BYTES, RecordHead},
    search::{Search, Work},
};

pub(super) const HEAD_BYTES: u64 = 64;
const MAGIC: &[u8; 8] = b"NAGIJRNL";
const VERSION: u32 = 1;
/// Bytes of the fields and the checksum.
const HEAD_FIELDS: usize = 44;
/// Twice the limit of what a transaction may stage, and more.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 30;

/// The head at the beginning of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) number: u64,
    pub(super) first_stamp: u64,
    pub(super) salt: u64,
}

impl Head {
    pub(super) fn new(number: u64, first_stamp: u64) -> Head {
        // A new hasher has new random keys.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(number);
        Head { number, first_stamp, salt: hasher.finish() }
    }

    pub(super) fn bytes(&self) -> [u8; HEAD_BYTES as usize] {
        let mut bytes = [0; HEAD_BYTES as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_stamp.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..40]);
        bytes[40..44].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns none if these are not the bytes of a head of this version.
    pub(super) fn parse(bytes: &[u8; HEAD_BYTES as usize]) -> Option<Head> {
        let u64_at =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| bytes[at + n]));
        let sum = u32::from_le_bytes([40, 41, 42, 43].map(|at| bytes[at]));
        let version = u32::from_le_bytes([8, 9, 10, 11].map(|at| bytes[at]));
        let ours = bytes.starts_with(MAGIC) && version == VERSION;
        (ours && sum == crc32c::crc32c(&bytes[..40])).then(|| Head {
            number: u64_at(16),
            first_stamp: u64_at(24),
            salt: u64_at(32),
        })
    }

    /// Corrects a single flipped bit. Returns none if more bits differ.
    fn corrected(bytes: &[u8; HEAD_BYTES as usize]) -> Option<Head> {
        (0..HEAD_FIELDS * 8).find_map(|bit| {
            let mut bytes = *bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            Head::parse(&bytes)
        })
    }

    /// Returns true if these bytes were a head of the segment `number`. A crash leaves only the head, zeroes, or
    /// the previous contents of the file.
    fn was_one(bytes: &[u8; HEAD_BYTES as usize], number: u64) -> bool {
        bytes.starts_with(MAGIC) || bytes[16..24] == number.to_le_bytes()
    }
}

/// The result of opening a segment's file.
pub(super) enum Opened {
    Segment(Reader),
    /// Not (yet) a segment of this number: no record was written to it.
    Unused,
    /// It was a segment, and its head cannot be read any more.
    Damaged,
}

/// Reads the whole records of a segment.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<fs::File>,
    file_bytes: u64,
    head: Head,
    position: u64,
    record: Vec<u8>,
    search: Box<Search>,
}

/// The result of reading at a position.
pub(super) enum Found {
    Record(RecordHead),
    /// No whole record.
    End,
}

impl Reader {
    /// Opens a segment's file.
    pub(super) fn open(path: &Path, number: u64) -> Result<Opened> {
        let file = fs::File::open(path)?;
        let file_bytes = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut bytes = [0; HEAD_BYTES as usize];
        match file.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Opened::Unused);
            }
            result => result?,
        }
        let head = match Head::parse(&bytes) {
            Some(head) if head.number != number => return Ok(Opened::Unused),
            Some(head) => head,
            None if !Head::was_one(&bytes, number) => return Ok(Opened::Unused),
            None => match Head::corrected(&bytes).filter(|head| head.number == number) {
                Some(head) => {
                    log::error!(target: "STORAGE", id = 7_703_009, file = path.display().to_string(),
                        offset = 0; "Data corruption detected: a bit of the journal's head has \
                        changed; it was corrected with the checksum");
                    head
                }
                None => return Ok(Opened::Damaged),
            },
        };
        let (path, position) = (path.to_owned(), HEAD_BYTES);
        let search = Box::new(Search::new(head.salt, head.first_stamp, file_bytes));
        let record = Vec::new();
        Ok(Opened::Segment(Reader { path, file, file_bytes, head, position, record, search }))
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of the record that `next` reads.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next record.
    pub(super) fn next(&mut self) -> Result<Found> {
        let left = self.file_bytes.saturating_sub(self.position);
        let mut bytes = [0; RECORD_HEAD_BYTES];
        if left < RECORD_HEAD_BYTES as u64 {
            return Ok(Found::End);
        }
        self.file.read_exact(&mut bytes)?;
        let head = RecordHead::parse(&bytes);
        let body = head.body_bytes as u64;
        if body > BODY_BYTES_MAX || body > left - RECORD_HEAD_BYTES as u64 {
            return Ok(Found::End);
        }
        self.record.clear();
        self.record.extend_from_slice(&bytes);
        self.record.resize(RECORD_HEAD_BYTES + head.body_bytes, 0);
        self.file.read_exact(&mut self.record[RECORD_HEAD_BYTES..])?;
        if head.first > head.last || !head.matches(self.head.salt, &self.record) {
            return Ok(Found::End);
        }
        self.position += RECORD_HEAD_BYTES as u64 + body;
        Ok(Found::Record(head))
    }

    /// The changes of the record that `next` found.
    pub(super) fn changes(&self) -> Changes<'_> {
        Changes { rest: &self.record[RECORD_HEAD_BYTES..] }
    }

    /// Moves to the next whole record after a place where there is none. Returns false if none follows.
    pub(super) fn skip(&mut self) -> Result<bool> {
        let before = self.search.work();
        let found = self.search.next(self.file.get_ref(), self.position + 1)?;
        let Work { checksums, bytes } = self.search.work();
        log::debug!(target: "STORAGE", id = 7_703_013, file = self.path.display().to_string(),
            from = self.position, to:? = found, checksums = checksums - before.checksums,
            bytes = bytes - before.bytes; "Searched the journal after its last complete record");
        let Some(at) = found else { return Ok(false) };
        self.position = at;
        self.file.seek(SeekFrom::Start(at))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_as_it_was_written_and_no_other_bytes_do() {
        let head = Head::new(5, 77);
        let bytes = head.bytes();
        assert_eq!(Head::parse(&bytes), Some(head));
        assert_ne!(Head::new(5, 77).salt, head.salt);
        for at in 0..44 {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert_eq!(Head::parse(&bytes), None, "byte {at}");
            assert_eq!(Head::corrected(&bytes), Some(head), "byte {at}");
            assert!(Head::was_one(&bytes, 5));
            bytes[(at + 7) % 44] ^= 0x81;
            assert_eq!(Head::corrected(&bytes), None, "byte {at}");
        }
    }
}
