//! Finds a whole record after a place where there is none.
//!
//! The length of a damaged record is unknown, so the next record may begin at any byte. At each offset the cheapest
//! tests come first: stamps, length and first change of a record's head. Only then the checksum is computed.
//!
//! The bytes between two records come from clients, so they may look like the heads of a million records, each of
//! which claims to be as long as the rest of the file. So a checksum never reads the bytes that it covers: the CRC
//! of a range is computed from the CRCs of the prefixes that end at its two ends, and the prefix CRCs at block
//! boundaries are computed in one pass over the file. An offset costs at most one block, whatever length it claims.

use std::{fs, io, os::unix::fs::FileExt};

use super::{
    record::{CHANGE_HEAD_BYTES, RECORD_HEAD_BYTES, RecordHead, is_change},
    segment::BODY_BYTES_MAX,
};

/// Bytes of a read.
const WINDOW_BYTES: usize = 1 << 20;
/// Distance between two offsets for which the prefix CRC is stored.
const BLOCK_BYTES: usize = 4096;
/// Zeroes that are skipped at once.
const ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
/// Stamps are times: this is a hundred days' worth of them. A segment is hardly ever written for longer, and a
/// record is not written later than that after the previous one.
const STAMPS_AHEAD_MAX: u64 = 1 << 55;
/// Smaller stamps are counters of stores from before stamps were times.
const FIRST_TIME: u64 = 1 << 48;
/// Bytes of a record's head and of the head of its first change.
const LOOK_BYTES: usize = RECORD_HEAD_BYTES + CHANGE_HEAD_BYTES;

/// Counters of work done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Work {
    /// Offsets whose head was plausible.
    pub(super) checksums: u64,
    /// Bytes read, for heads and for checksums.
    pub(super) bytes: u64,
}

/// The search within one segment; it is independent of other segments.
#[derive(Default)]
pub(super) struct Search {
    pub(super) salt: u64,
    pub(super) first_stamp: u64,
    pub(super) file_bytes: u64,
    /// CRC-32C of everything before each block; empty until the first plausible head needs one.
    sums: Vec<u32>,
    /// Number and bytes of the block in which the last range began, and of the one in which it ended: consecutive
    /// heads begin in one block and may claim the same end.
    blocks: [Option<(u64, Vec<u8>)>; 2],
    work: Work,
}

impl Search {
    pub(super) fn new(salt: u64, first_stamp: u64, file_bytes: u64) -> Search {
        Search { salt, first_stamp, file_bytes, ..Search::default() }
    }

    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// The offset of the next whole record, at or after `from`.
    pub(super) fn next(&mut self, file: &fs::File, from: u64) -> io::Result<Option<u64>> {
        let mut window = vec![0; WINDOW_BYTES + LOOK_BYTES];
        let mut at = from;
        while at + RECORD_HEAD_BYTES as u64 <= self.file_bytes {
            let most = window.len().min((self.file_bytes - at) as usize);
            let bytes = &mut window[..most];
            file.read_exact_at(bytes, at)?;
            self.work.bytes += most as u64;
            // The change of the last heads of a window is in the next window.
            let places = match at + most as u64 == self.file_bytes {
                true => most + 1 - RECORD_HEAD_BYTES,
                false => most + 1 - LOOK_BYTES,
            };
            if let Some(place) = self.in_window(file, bytes, places, at)? {
                return Ok(Some(at + place as u64));
            }
            at += places as u64;
        }
        Ok(None)
    }

    fn in_window(
        &mut self,
        file: &fs::File,
        bytes: &[u8],
        places: usize,
        at: u64,
    ) -> io::Result<Option<usize>> {
        let mut place = 0;
        while place < places {
            // No record is all zeroes, but a file that was allocated ahead is.
            if bytes[place] == 0 && bytes[place..].starts_with(&ZEROES) {
                place += ZEROES.len() + 1 - RECORD_HEAD_BYTES;
                continue;
            }
            let head = bytes[place..].first_chunk().expect("as long as a head");
            if let Some(head) =
                self.plausible(head, &bytes[place + RECORD_HEAD_BYTES..], at + place as u64)
                && self.matches(
                    file,
                    &head,
                    &bytes[place..place + RECORD_HEAD_BYTES],
                    at + place as u64,
                )?
            {
                return Ok(Some(place));
            }
            place += 1;
        }
        Ok(None)
    }

    /// Parses the bytes as a head, if they can be one at this offset.
    fn plausible(
        &self,
        bytes: &[u8; RECORD_HEAD_BYTES],
        behind: &[u8],
        at: u64,
    ) -> Option<RecordHead> {
        // Nearly every offset fails here: zeroes, older stamps, or other bytes.
        let first = u64::from_le_bytes(*bytes[8..].first_chunk().expect("a head is longer"));
        let ahead = first.wrapping_add(1).wrapping_sub(self.first_stamp);
        // The first segment of a new store, or of one whose stamps were counters, changes over to times.
        let is_first_time = self.first_stamp < FIRST_TIME && first >= FIRST_TIME;
        if (ahead > STAMPS_AHEAD_MAX && !is_first_time) || bytes.iter().all(|byte| *byte == 0) {
            return None;
        }
        let head = RecordHead::parse(bytes);
        let left = self.file_bytes - at - RECORD_HEAD_BYTES as u64;
        let fits = head.first <= head.last
            && (head.last - head.first < STAMPS_AHEAD_MAX || head.first < FIRST_TIME)
            && head.synced <= head.last
            && head.body_bytes as u64 <= left.min(BODY_BYTES_MAX);
        let is_whole = fits && (head.body_bytes == 0 || is_change(behind, head.body_bytes));
        is_whole.then_some(head)
    }

    fn matches(
        &mut self,
        file: &fs::File,
        head: &RecordHead,
        bytes: &[u8],
        at: u64,
    ) -> io::Result<bool> {
        self.work.checksums += 1;
        let length = RECORD_HEAD_BYTES - 8 + head.body_bytes;
        let before = crc32c::crc32c_append(crc32c::crc32c(&self.salt.to_le_bytes()), &bytes[..4]);
        let start = self.sum_before(file, at + 8, 0)?;
        let end = self.sum_before(file, at + 8 + length as u64, 1)?;
        // The prefix contributes to the CRC by a linear function of the range's length. So the file's bytes before
        // the range are cancelled, and salt and length are put in, in one step.
        Ok(crc32c::crc32c_combine(before ^ start, end, length) == head.checksum)
    }

    /// CRC-32C of all bytes of the file before this offset. `side` selects the cached block: the start's or the
    /// end's.
    fn sum_before(&mut self, file: &fs::File, at: u64, side: usize) -> io::Result<u32> {
        if self.sums.is_empty() {
            self.sum_blocks(file)?;
        }
        let (number, part) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
        let sum = self.sums[number as usize];
        if part == 0 {
            return Ok(sum);
        }
        let block = &mut self.blocks[side];
        if block.as_ref().is_none_or(|(known, _)| *known != number) {
            let start = number * BLOCK_BYTES as u64;
            let (_, mut bytes) = block.take().unwrap_or_default();
            bytes.resize(BLOCK_BYTES.min((self.file_bytes - start) as usize), 0);
            file.read_exact_at(&mut bytes, start)?;
            self.work.bytes += bytes.len() as u64;
            *block = Some((number, bytes));
        }
        let (_, bytes) = block.as_ref().expect("it was read");
        Ok(crc32c::crc32c_append(sum, &bytes[..part]))
    }

    fn sum_blocks(&mut self, file: &fs::File) -> io::Result<()> {
        let mut window = vec![0; WINDOW_BYTES];
        let (mut at, mut sum) = (0, 0);
        self.sums.push(sum);
        while at < self.file_bytes {
            let most = window.len().min((self.file_bytes - at) as usize);
            file.read_exact_at(&mut window[..most], at)?;
            for block in window[..most].chunks(BLOCK_BYTES) {
                sum = crc32c::crc32c_append(sum, block);
                self.sums.push(sum);
            }
            at += most as u64;
        }
        self.work.bytes += self.file_bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nagi_kv::Space;
    use nagi_testkit::Scratch;

    use super::{
        super::record::{Change, Record},
        *,
    };

    const SALT: u64 = 77;
    const FIRST: u64 = 0x6A12_3456_0000_03E8;

    /// Pseudo-random numbers below `end`, the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    fn record(stamp: u64, value: &[u8]) -> Vec<u8> {
        let mut record = Record::default();
        record.begin(stamp);
        record.push(Space::Records, Change::Put(b"key", value));
        record.seal(SALT, stamp - 1).to_vec()
    }

    fn search(bytes: &[u8]) -> (Vec<u64>, Work) {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path()).unwrap();
        let path = scratch.path().join("segment");
        fs::File::create(&path).unwrap().write_all(bytes).unwrap();
        let file = fs::File::open(&path).unwrap();
        let mut search = Search::new(SALT, FIRST, bytes.len() as u64);
        let (mut found, mut from) = (Vec::new(), 0);
        while let Some(at) = search.next(&file, from).unwrap() {
            found.push(at);
            from = at + 1;
        }
        (found, search.work())
    }

    #[test]
    fn every_whole_record_is_found_wherever_it_stands() {
        let mut rng = Random(11);
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for n in 0..400_u64 {
            // Gaps around the boundaries of blocks and windows, filled with zeroes or with other bytes.
            let gap = rng.below(if n % 20 == 0 { 9000 } else { 60 }) as usize;
            bytes.extend((0..gap).map(|_| if n % 3 == 0 { 0 } else { rng.below(256) as u8 }));
            expected.push(bytes.len() as u64);
            bytes.extend(record(FIRST + n, &vec![n as u8; rng.below(12_000) as usize]));
        }
        assert!(bytes.len() > 2 * WINDOW_BYTES);
        assert_eq!(search(&bytes).0, expected);
        // Records of another salt, or with a byte changed, are not found.
        for at in expected.iter().step_by(2) {
            bytes[*at as usize + 4] ^= 1;
        }
        let kept: Vec<u64> = expected.into_iter().skip(1).step_by(2).collect();
        assert_eq!(search(&bytes).0, kept);
    }

    #[test]
    fn a_record_at_the_very_end_is_found_and_one_that_is_cut_off_is_not() {
        let mut bytes = vec![0; 3 * BLOCK_BYTES];
        bytes.extend(record(FIRST, b""));
        let mut empty = Record::default();
        empty.begin(FIRST);
        bytes.extend_from_slice(empty.seal(SALT, FIRST));
        let at = (bytes.len() - RECORD_HEAD_BYTES) as u64;
        assert_eq!(search(&bytes).0, [3 * BLOCK_BYTES as u64, at]);
        bytes.pop();
        assert_eq!(search(&bytes).0, [3 * BLOCK_BYTES as u64]);
    }

    /// Bytes stored by a client may look like heads, each of which claims to reach to the end of the file.
    #[test]
    fn the_work_does_not_grow_with_what_false_heads_claim() {
        let heads = 50_000;
        let total = heads * LOOK_BYTES;
        let mut bytes = Vec::with_capacity(total);
        while bytes.len() < total - LOOK_BYTES {
            let left = total - bytes.len() - RECORD_HEAD_BYTES;
            bytes.extend_from_slice(&(left as u32).to_le_bytes());
            bytes.extend_from_slice(&[7; 4]);
            for stamp in [FIRST, FIRST, FIRST] {
                bytes.extend_from_slice(&stamp.to_le_bytes());
            }
            bytes.extend_from_slice(&[1, 1]);
            bytes.extend_from_slice(&3_u32.to_le_bytes());
            bytes.extend_from_slice(&((left - CHANGE_HEAD_BYTES - 3) as u32).to_le_bytes());
        }
        bytes.resize(total, 9);
        let (found, work) = search(&bytes);
        assert!(found.is_empty());
        assert_eq!(work.checksums, heads as u64 - 1);
        // Checksums over everything that is claimed would read 50 GB.
        assert!(work.bytes <= 4 * total as u64, "{work:?} of {total}");
    }

    #[test]
    fn zeroes_and_records_of_an_earlier_use_cost_one_pass() {
        let mut bytes = vec![0; 64 << 20];
        for n in 0..4000 {
            bytes.extend(record(FIRST - 900 + n % 800, &[n as u8; 500]));
        }
        let (found, work) = search(&bytes);
        assert!(found.is_empty());
        assert_eq!(work.checksums, 0, "{work:?}");
        let windows = bytes.len() / WINDOW_BYTES + 2;
        assert!(work.bytes <= (bytes.len() + windows * LOOK_BYTES) as u64, "{work:?}");
    }
}
