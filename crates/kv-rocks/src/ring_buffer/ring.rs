//! The ring: records in shared memory. One producer appends, and one consumer removes them in order.
//!
//!   header (4096 bytes)     magic (8) | id (16) | device (8) | inode (8) | capacity (8)
//!                           at 64: head (8), at 128: tail (8), at 144 and 184: a mark of the synced
//!                           position (36) and its CRC-32C (4), written alternately
//!                           at 256: length (8) and path of the folder
//!   records (capacity)      kind (4) | length (4) | number (8) | argument (8) | bytes, padded to 8
//!
//! Head and tail count bytes since the beginning and only grow; a position is taken modulo the capacity. A record
//! never wraps: the rest at the end is filled with a padding record. `tail` is stored after the record is complete,
//! and `head` after the record was executed. So a process that is killed at any moment leaves complete records, of
//! which the first may have been executed already.

use std::{
    ffi::OsStr,
    fs::Metadata,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::raw::Mapping;
use crate::wal::{MARK_BYTES, Mark};

const MAGIC: &[u8; 8] = b"NAGISPL1";
pub(super) const HEADER_BYTES: usize = 4096;
const ID_AT: usize = 8;
const DEVICE_AT: usize = 24;
const INODE_AT: usize = 32;
const CAPACITY_AT: usize = 40;
const HEAD_AT: usize = 64;
const TAIL_AT: usize = 128;
const MARKS_AT: [usize; 2] = [144, 184];
const FOLDER_AT: usize = 256;
const FOLDER_BYTES_MAX: usize = HEADER_BYTES - FOLDER_AT - 8;
const RECORD_HEADER: usize = 24;

/// The owner of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub(super) id: [u8; 16],
    /// Device and inode of the database's folder, so that a copy of the folder does not count as the owner.
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// The operation of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// `None`: padding at the end of the ring.
    Pad = 0,
    /// A new log file.
    Create = 1,
    /// The log file `argument` is renamed to `number`.
    Reuse = 2,
    /// Bytes of the log `number` at offset `argument`.
    Data = 3,
    /// The log is complete, with the size `argument`.
    Close = 4,
}

impl Kind {
    fn from_code(code: u32) -> Option<Kind> {
        [Kind::Pad, Kind::Create, Kind::Reuse, Kind::Data, Kind::Close]
            .into_iter()
            .find(|kind| *kind as u32 == code)
    }
}

/// A record, borrowed from the ring.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) argument: u64,
    pub(super) bytes: &'a [u8],
    /// The position after the record.
    pub(super) next: u64,
}

/// The ring over a mapping.
pub(super) struct Ring {
    memory: Mapping,
    capacity: u64,
}

/// Returns true if a ring was created for this folder.
pub(super) fn is_of(memory: &Mapping, folder: &Metadata) -> bool {
    (memory.load(DEVICE_AT), memory.load(INODE_AT)) == (folder.dev(), folder.ino())
}

/// The id of a ring.
pub(super) fn id(memory: &Mapping) -> [u8; 16] {
    memory.read(ID_AT, 16).try_into().expect("sixteen bytes")
}

/// The folder for which a ring was created.
pub(super) fn folder(memory: &Mapping) -> Option<PathBuf> {
    let length = usize::try_from(memory.load(FOLDER_AT)).ok()?;
    if memory.read(0, 8) != MAGIC || length == 0 || length > FOLDER_BYTES_MAX {
        return None;
    }
    Some(PathBuf::from(OsStr::from_bytes(memory.read(FOLDER_AT + 8, length))))
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

impl Ring {
    /// An empty ring over the whole mapping.
    pub(super) fn create(memory: Mapping, owner: &Owner, dir: &Path) -> Ring {
        let capacity = ((memory.len() - HEADER_BYTES) / 8 * 8) as u64;
        memory.write(ID_AT, &owner.id);
        memory.store(DEVICE_AT, owner.device);
        memory.store(INODE_AT, owner.inode);
        memory.store(CAPACITY_AT, capacity);
        memory.store(HEAD_AT, 0);
        memory.store(TAIL_AT, 0);
        let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let folder = folder.as_os_str().as_bytes();
        if folder.len() <= FOLDER_BYTES_MAX {
            memory.write(FOLDER_AT + 8, folder);
            memory.store(FOLDER_AT, folder.len() as u64);
        }
        memory.write(0, MAGIC);
        Ring { memory, capacity }
    }

    /// Opens a ring that another process created. Every number in it is checked before it is used.
    pub(super) fn attach(memory: Mapping, owner: &Owner) -> io::Result<Ring> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if memory.len() < HEADER_BYTES + RECORD_HEADER || memory.read(0, 8) != MAGIC {
            return wrong("not a ring buffer of this version");
        }
        let found =
            Owner { id: id(&memory), device: memory.load(DEVICE_AT), inode: memory.load(INODE_AT) };
        if found != *owner {
            return wrong("the ring buffer of another directory");
        }
        let ring = Ring { capacity: memory.load(CAPACITY_AT), memory };
        let capacity = (ring.memory.len() - HEADER_BYTES) as u64;
        let (head, tail) = (ring.head(), ring.tail());
        if ring.capacity > capacity
            || !ring.capacity.is_multiple_of(8)
            || head > tail
            || tail - head > ring.capacity
        {
            return wrong("the ring buffer's positions are damaged");
        }
        Ok(ring)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn head(&self) -> u64 {
        self.memory.load(HEAD_AT)
    }

    pub(super) fn tail(&self) -> u64 {
        self.memory.load(TAIL_AT)
    }

    /// Limit of the bytes of a record; several records have to fit at once.
    pub(super) fn bytes_max(&self) -> usize {
        (self.capacity / 8) as usize - RECORD_HEADER
    }

    /// Appends a record. Returns false if there is no space at present. Only one thread may call it at a time.
    pub(super) fn push(&self, kind: Kind, number: u64, argument: u64, bytes: &[u8]) -> bool {
        let length = (RECORD_HEADER + padded(bytes.len())) as u64;
        let mut tail = self.tail();
        let left = self.capacity - tail % self.capacity;
        let pad = if left < length { left } else { 0 };
        if tail + pad + length > self.head() + self.capacity {
            return false;
        }
        if pad > 0 {
            // Less than a header may be left; then only the kind (zero) is written.
            self.memory.write(self.place(tail), &0_u64.to_le_bytes());
            tail += pad;
        }
        let at = self.place(tail);
        let mut header = [0; RECORD_HEADER];
        header[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&number.to_le_bytes());
        header[16..].copy_from_slice(&argument.to_le_bytes());
        self.memory.write(at, &header);
        self.memory.write(at + RECORD_HEADER, bytes);
        self.memory.store(TAIL_AT, tail + length);
        true
    }

    /// The record at a position; none at `tail`. Returns an error if the bytes there are no valid record.
    pub(super) fn peek(&self, mut position: u64, tail: u64) -> io::Result<Option<Record<'_>>> {
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "a record of the ring buffer is damaged");
        loop {
            if position >= tail {
                return Ok(None);
            }
            let at = self.place(position);
            let left = self.capacity - position % self.capacity;
            let word = |at: usize, n: usize| -> [u8; 4] {
                self.memory.read(at + n, 4).try_into().expect("four bytes")
            };
            let kind = Kind::from_code(u32::from_le_bytes(word(at, 0))).ok_or_else(damaged)?;
            if kind == Kind::Pad {
                position += left;
                continue;
            }
            let length = u32::from_le_bytes(word(at, 4)) as usize;
            let whole = (RECORD_HEADER + padded(length)) as u64;
            if whole > left || position + whole > tail {
                return Err(damaged());
            }
            let long = |n: usize| {
                u64::from_le_bytes(self.memory.read(at + n, 8).try_into().expect("eight bytes"))
            };
            return Ok(Some(Record {
                kind,
                number: long(8),
                argument: long(16),
                bytes: self.memory.read(at + RECORD_HEADER, length),
                next: position + whole,
            }));
        }
    }

    /// Writes the mark of the synced position to one of two places alternately, so that a process that is killed
    /// meanwhile leaves the other one intact. Only one thread may call it at a time.
    pub(super) fn set_mark(&self, mark: &Mark, turn: usize) {
        let at = MARKS_AT[turn % MARKS_AT.len()];
        let bytes = mark.bytes();
        self.memory.write(at, &bytes);
        self.memory.write(at + MARK_BYTES, &crc32c::crc32c(&bytes).to_le_bytes());
    }

    /// The newest valid mark.
    pub(super) fn mark(&self) -> Option<Mark> {
        let marks = MARKS_AT.iter().filter_map(|at| {
            let bytes = self.memory.read(*at, MARK_BYTES).first_chunk::<MARK_BYTES>()?;
            let sum = self.memory.read(at + MARK_BYTES, 4);
            (*sum == crc32c::crc32c(bytes).to_le_bytes()).then(|| Mark::parse(bytes)).flatten()
        });
        marks.max_by_key(|mark| (mark.log, mark.offset))
    }

    /// Stores that everything before this position was executed.
    pub(super) fn set_head(&self, position: u64) {
        self.memory.store(HEAD_AT, position);
    }

    fn place(&self, position: u64) -> usize {
        HEADER_BYTES + (position % self.capacity) as usize
    }
}
