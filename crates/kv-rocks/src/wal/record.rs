//! The format of records in RocksDB's log.
//!
//!   file     blocks of 32 KiB; no record crosses a block boundary, so a large batch has several parts
//!   record   CRC-32C, masked (4) | payload length (2) | type (1) | log number (4) | payload
//!
//! The checksum covers type, log number and payload. The log number exists because files are reused: records left
//! from an older log have an older number. Types without a number (below 5, and 9: the compressor) belong to logs
//! whose files are not reused.

pub(super) const BLOCK: usize = 32 << 10;
pub(super) const HEADER: usize = 7;
pub(super) const NUMBERED_HEADER: usize = 11;
/// A shorter rest of a block is filled with zeroes.
pub(super) const TRAILER_MAX: usize = NUMBERED_HEADER;

const FULL: u8 = 1;
const LAST: u8 = 4;
const NUMBERED_FULL: u8 = 5;
const NUMBERED_LAST: u8 = 8;
pub(super) const COMPRESSOR: u8 = 9;
const NUMBERED_TIMESTAMPS: u8 = 11;
const NUMBERED_PREDECESSOR: u8 = 131;

/// The part of a batch in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Full,
    First,
    Middle,
    Last,
    /// No part of a batch: metadata of the log.
    Other,
}

/// A whole record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) kind: u8,
    pub(super) payload: &'a [u8],
    /// Size including the header.
    pub(super) byte_count: usize,
}

impl Record<'_> {
    pub(super) fn part(&self) -> Part {
        match self.kind {
            1 | 5 => Part::Full,
            2 | 6 => Part::First,
            3 | 7 => Part::Middle,
            4 | 8 => Part::Last,
            _ => Part::Other,
        }
    }
}

/// Parses the record of the log `number` at the beginning of `bytes`, which end with their block. If
/// `only_numbered`, records without a log number are rejected: one in twenty byte values of an older log's data is
/// such a type, and computing their checksums is not worthwhile.
pub(super) fn parse(bytes: &[u8], number: u64, only_numbered: bool) -> Option<Record<'_>> {
    let header = bytes.first_chunk::<HEADER>()?;
    let kind = header[6];
    let is_numbered =
        matches!(kind, NUMBERED_FULL..=NUMBERED_LAST | NUMBERED_TIMESTAMPS | NUMBERED_PREDECESSOR);
    if !is_numbered && (only_numbered || !matches!(kind, FULL..=LAST | COMPRESSOR)) {
        return None;
    }
    let begin = if is_numbered { NUMBERED_HEADER } else { HEADER };
    let byte_count = begin + usize::from(u16::from_le_bytes([header[4], header[5]]));
    let whole = bytes.get(..byte_count)?;
    // Only the low half of the number is stored.
    if is_numbered && whole[HEADER..begin] != (number as u32).to_le_bytes() {
        return None;
    }
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let payload = &whole[begin..];
    (mask(crc32c::crc32c(&whole[6..])) == stored).then_some(Record { kind, payload, byte_count })
}

/// Appends a record without a number, with this type and payload.
pub(super) fn append(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let length = u16::try_from(payload.len()).expect("a record fits into a block");
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(payload);
    let sum = mask(crc32c::crc32c(&out[at + 6..]));
    out[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Masks a checksum as RocksDB does: a checksum over bytes that contain checksums would be weak.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written_and_no_other_bytes_do() {
        let mut bytes = Vec::new();
        append(&mut bytes, FULL, b"payload");
        let record = parse(&bytes, 3, false).expect("whole");
        assert_eq!((record.payload, record.byte_count), (&b"payload"[..], bytes.len()));
        assert_eq!(record.part(), Part::Full);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(parse(&other, 3, false).is_none(), "byte {at}");
        }
        assert!(parse(&bytes[..bytes.len() - 1], 3, false).is_none());
        assert!(parse(&[], 3, false).is_none());
        assert!(parse(&bytes, 3, true).is_none(), "it does not name its log");
    }
}
