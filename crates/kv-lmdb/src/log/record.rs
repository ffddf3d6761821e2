//! Format of a record: all changes of one or several commits that were written together.
//!
//!   length of what follows the head, u32 | CRC-32C, u32 | first stamp, u64 | last stamp, u64 |
//!   newest durable stamp, u64
//!   then for each change: kind, u8 | space, u8 | key length, u32 | value length, u32 | key | value
//!
//! Little-endian. The checksum covers the segment's salt and everything but itself, so a record left from an
//! earlier use of the file is not mistaken for one of this use.

use nagi_kv::{LogKeys, Space};

pub(crate) const RECORD_HEAD_BYTES: usize = 32;
pub(super) const CHANGE_HEAD_BYTES: usize = 10;

/// A change of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    /// Removes every key from the first up to, but not including, the second; if the second is empty, there is no
    /// upper bound.
    DropRange(&'a [u8], &'a [u8]),
}

/// A record that is being written or was read. Its buffer is reused.
#[derive(Default)]
pub(crate) struct Record {
    bytes: Vec<u8>,
    /// Number of log keys created in the current transaction.
    log_keys: LogKeys,
}

/// The fields of a record's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    pub(crate) body_bytes: usize,
    pub(super) checksum: u32,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) synced: u64,
}

impl RecordHead {
    pub(crate) fn parse(bytes: &[u8; RECORD_HEAD_BYTES]) -> RecordHead {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let u64_at =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| bytes[at + n]));
        RecordHead {
            body_bytes: u32_at(0) as usize,
            checksum: u32_at(4),
            first: u64_at(8),
            last: u64_at(16),
            synced: u64_at(24),
        }
    }

    /// Returns true if head and body have the checksum that they were written with under this salt.
    pub(crate) fn matches(&self, salt: u64, record: &[u8]) -> bool {
        self.checksum == checksum(salt, record)
    }
}

fn checksum(salt: u64, record: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&salt.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &record[..4]);
    crc32c::crc32c_append(sum, &record[8..])
}

impl Record {
    /// Starts a record whose first commit has this stamp.
    pub(crate) fn begin(&mut self, first: u64) {
        self.bytes.clear();
        self.bytes.resize(RECORD_HEAD_BYTES, 0);
        self.bytes[8..16].copy_from_slice(&first.to_le_bytes());
        self.set_last(first);
        self.log_keys = LogKeys::new(first);
    }

    /// Begins the next transaction of the record, with its first and its last stamp.
    pub(crate) fn begin_transaction(&mut self, first: u64, last: u64) {
        self.set_last(last);
        self.log_keys = LogKeys::new(first);
    }

    fn set_last(&mut self, stamp: u64) {
        self.bytes[16..24].copy_from_slice(&stamp.to_le_bytes());
    }

    pub(crate) fn first_stamp(&self) -> u64 {
        u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| self.bytes[8 + n]))
    }

    /// Size in the log, in bytes.
    pub(crate) fn byte_count(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn push(&mut self, space: Space, change: Change<'_>) {
        let (kind, key, value): (u8, _, &[u8]) = match change {
            Change::Put(key, value) => (1, key, value),
            Change::Delete(key) => (2, key, &[]),
            Change::DropRange(start, end) => (3, start, end),
        };
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a transaction is bounded");
        self.bytes.extend_from_slice(&[kind, space as u8]);
        self.bytes.extend_from_slice(&length(key).to_le_bytes());
        self.bytes.extend_from_slice(&length(value).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Adds an entry of a log space, see `Txn::append`.
    pub(crate) fn push_appended(&mut self, space: Space, joined: bool, value: &[u8]) {
        let key = self.log_keys.key(joined);
        self.push(space, Change::Put(&key, value));
    }

    /// Fills in the head. Returns all bytes to be written.
    pub(super) fn seal(&mut self, salt: u64, synced: u64) -> &[u8] {
        let body = u32::try_from(self.bytes.len() - RECORD_HEAD_BYTES)
            .expect("a record is bounded by the transactions in it");
        self.bytes[..4].copy_from_slice(&body.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&synced.to_le_bytes());
        let sum = checksum(salt, &self.bytes);
        self.bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }

    /// The changes, in order.
    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes { rest: &self.bytes[RECORD_HEAD_BYTES..] }
    }
}

/// The changes of a record's body; stops early at bytes that are not a valid change.
pub(crate) struct Changes<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Iterator for Changes<'a> {
    type Item = (Space, Change<'a>);

    fn next(&mut self) -> Option<(Space, Change<'a>)> {
        let (head, rest) = self.rest.split_first_chunk::<CHANGE_HEAD_BYTES>()?;
        let length = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n])) as usize;
        let space = *Space::ALL.get(head[1] as usize)?;
        let (key, rest) = rest.split_at_checked(length(2))?;
        let (value, rest) = rest.split_at_checked(length(6))?;
        let change = match head[0] {
            1 => Change::Put(key, value),
            2 => Change::Delete(key),
            3 => Change::DropRange(key, value),
            _ => return None,
        };
        self.rest = rest;
        Some((space, change))
    }
}

/// Returns true if the bytes can be, judging by their head, a change that fits into a body of `body_bytes`. A body
/// with fewer bytes than that head has no change.
pub(super) fn is_change(bytes: &[u8], body_bytes: usize) -> bool {
    let Some(head) = bytes.first_chunk::<CHANGE_HEAD_BYTES>() else { return false };
    let length = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n])) as usize;
    let whole = CHANGE_HEAD_BYTES + length(2) + length(6);
    matches!(head[0], 1..=3) && usize::from(head[1]) < Space::ALL.len() && whole <= body_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> (Record, Vec<u8>) {
        let mut record = Record::default();
        record.begin(7);
        record.push(Space::Records, Change::Put(b"key", b"value"));
        record.begin_transaction(8, 8);
        record.push(Space::Index, Change::Delete(b"gone"));
        record.push_appended(Space::Changes, false, b"entry");
        record.push(Space::Records, Change::DropRange(b"a", b""));
        let bytes = record.seal(3, 6).to_vec();
        (record, bytes)
    }

    fn head(bytes: &[u8]) -> RecordHead {
        RecordHead::parse(bytes[..RECORD_HEAD_BYTES].try_into().unwrap())
    }

    #[test]
    fn a_record_reads_as_it_was_made() {
        let (record, bytes) = sealed();
        let head = head(&bytes);
        assert_eq!((head.first, head.last, head.synced), (7, 8, 6));
        assert_eq!(head.body_bytes + RECORD_HEAD_BYTES, bytes.len());
        assert!(head.matches(3, &bytes) && !head.matches(4, &bytes));
        let changes: Vec<_> = record.changes().collect();
        assert_eq!(changes.len(), 4);
        assert_eq!(changes[0], (Space::Records, Change::Put(b"key", b"value")));
        assert_eq!(changes[2], (Space::Changes, Change::Put(&nagi_kv::log_key(8, 0), b"entry")));
        assert_eq!(changes[3], (Space::Records, Change::DropRange(b"a", b"")));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let (_, bytes) = sealed();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!head(&bytes).matches(3, &bytes), "bit {bit}");
        }
    }

    #[test]
    fn lengths_beyond_the_body_end_the_changes() {
        let (_, bytes) = sealed();
        for cut in RECORD_HEAD_BYTES..bytes.len() {
            let count = Changes { rest: &bytes[RECORD_HEAD_BYTES..cut] }.count();
            assert!(count < 4);
        }
    }
}
