//! A segment: consecutive entries of the log in one file of the archive.
//!
//! ```text
//!   0    "NAGI-LOG"
//!   8    format, 4 bytes: 2
//!   12   id of the replica set whose log it is, 12 bytes
//!   24   stamp after which the segment begins: the last entry of the one before
//!   32   stamp of its first entry
//!   40   stamp of its last entry
//!   48   number of entries, 4 bytes
//!   52   length of the entries
//!   60   length of the body
//!   68   SHA-256 of the bytes before and of the body
//!   100  body: the entries one after the other, compressed with zstd
//! ```
//!
//! Numbers are little-endian, of 8 bytes where nothing else is said. An entry is a document of `local.oplog.rs`, so
//! it begins with its own length. The file of an encrypted server is encrypted as a whole, behind a header. The name
//! tells the range: `log/<after>_<last>.nagilog`. A file is written as a whole, so what a killed program leaves has
//! no such name.

use nagi_bson::Doc;
use nagi_encryption::{HEADER_BYTES as HEADER, MasterKey};
use sha2::{Digest, Sha256};

use crate::backup::moment::{SetId, Stamp};

/// The folder of the segments.
pub(crate) const FOLDER: &str = "log";
const MAGIC: &[u8; 8] = b"NAGI-LOG";
const FORMAT: u32 = 2;
const SUMMED_BYTES: usize = 68;
const HEADER_BYTES: usize = 100;
/// Larger lengths are not believed: a segment ends at 16 MiB, and its last entry may be large too.
const BODY_BYTES_MAX: u64 = 256 << 20;
/// Larger files are not read: what cannot be compressed becomes a little longer.
pub(crate) const FILE_BYTES_MAX: u64 = BODY_BYTES_MAX + (1 << 20) + HEADER as u64;
const ZSTD_LEVEL: i32 = 3;

/// The range of a segment, as its name tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) after: Stamp,
    pub(crate) last: Stamp,
}

impl Range {
    pub(crate) fn name(self) -> String {
        format!("{FOLDER}/{}_{}.nagilog", self.after.name(), self.last.name())
    }

    /// The range of a file in the folder; `None` for other files.
    pub(crate) fn parse(name: &str) -> Option<Range> {
        let (after, last) = name.strip_suffix(".nagilog")?.split_once('_')?;
        let range = Range { after: Stamp::parse_name(after)?, last: Stamp::parse_name(last)? };
        (range.after < range.last).then_some(range)
    }
}

/// The end of the unbroken sequence of segments that begins at `from`.
pub(crate) fn end_of_chain(ranges: &[Range], from: Stamp) -> Stamp {
    chain(ranges, from, Stamp(u64::MAX)).last().map_or(from, |range| range.last)
}

/// The unbroken sequence of segments that begins at `from`, until one ends behind `to`. Segments may overlap: two
/// programs may have archived the same entries.
pub(crate) fn chain(ranges: &[Range], from: Stamp, to: Stamp) -> Vec<Range> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut rest = sorted.into_iter().peekable();
    let (mut chain, mut at) = (Vec::new(), from);
    while at <= to {
        let fitting = std::iter::from_fn(|| rest.next_if(|range| range.after <= at));
        match fitting.max_by_key(|range| range.last) {
            Some(next) if next.last > at => {
                at = next.last;
                chain.push(next);
            }
            _ => break,
        }
    }
    chain
}

/// Collects entries for a segment.
pub(crate) struct Builder {
    set: SetId,
    after: Stamp,
    first: Option<Stamp>,
    last: Stamp,
    count: u32,
    entries: Vec<u8>,
}

impl Builder {
    pub(crate) fn new(set: SetId, after: Stamp) -> Builder {
        Builder { set, after, first: None, last: after, count: 0, entries: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.entries.len()
    }

    /// The stamp of the last entry, or the one after which the segment begins.
    pub(crate) fn last(&self) -> Stamp {
        self.last
    }

    pub(crate) fn range(&self) -> Range {
        Range { after: self.after, last: self.last }
    }

    /// Adds an entry, which must be later than the ones before.
    pub(crate) fn push(&mut self, entry: Doc<'_>) -> Result<(), String> {
        let stamp = Stamp::of(entry.get("ts")).ok_or("an entry of the log has no ts")?;
        if stamp <= self.last {
            return Err(format!("the log is not in order: {stamp} after {}", self.last));
        }
        self.first.get_or_insert(stamp);
        (self.last, self.count) = (stamp, self.count + 1);
        self.entries.extend_from_slice(entry.as_bytes());
        Ok(())
    }

    /// The bytes of the file.
    pub(crate) fn finish(&self) -> Result<Vec<u8>, String> {
        let body = zstd::bulk::compress(&self.entries, ZSTD_LEVEL)
            .map_err(|error| format!("a segment cannot be compressed: {error}"))?;
        let mut file = Vec::with_capacity(HEADER_BYTES + body.len());
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&FORMAT.to_le_bytes());
        file.extend_from_slice(&self.set.0);
        for stamp in [self.after, self.first.unwrap_or(self.last), self.last] {
            file.extend_from_slice(&stamp.0.to_le_bytes());
        }
        file.extend_from_slice(&self.count.to_le_bytes());
        for length in [self.entries.len(), body.len()] {
            file.extend_from_slice(&(length as u64).to_le_bytes());
        }
        let sum = checksum(&file, &body);
        file.extend_from_slice(&sum);
        file.extend_from_slice(&body);
        Ok(file)
    }
}

/// The same encrypted: the header of an encrypted file, whose key the master key has wrapped, and the file.
pub(crate) fn encrypted(file: &[u8], master: &MasterKey) -> Result<Vec<u8>, String> {
    let (header, cipher) = master.new_file().map_err(|error| error.to_string())?;
    let mut encrypted = Vec::with_capacity(header.len() + file.len());
    encrypted.extend_from_slice(&header[..]);
    encrypted.extend_from_slice(file);
    cipher.apply(0, &mut encrypted[header.len()..]);
    Ok(encrypted)
}

/// The file in an encrypted one; what is not encrypted is returned as it is.
pub(crate) fn decrypted(mut file: Vec<u8>, masters: &[MasterKey]) -> Result<Vec<u8>, String> {
    if !nagi_encryption::is_encrypted(&file) {
        return Ok(file);
    }
    for master in masters {
        if let Some(cipher) = master.open_file(&file).map_err(|error| error.to_string())? {
            file.drain(..HEADER);
            cipher.apply(0, &mut file);
            return Ok(file);
        }
    }
    let given: Vec<String> = masters.iter().map(MasterKey::id).collect();
    Err(match given.is_empty() {
        true => "it is encrypted: --encryptionKeyFile must name the master key".to_owned(),
        false => format!("it is encrypted with another master key than {}", given.join(", ")),
    })
}

fn checksum(head: &[u8], body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(head);
    hash.update(body);
    hash.finalize().into()
}

/// Reads a file whose name tells `range`, of the log of a replica set. Returns the entries one after the other.
pub(crate) fn read(file: &[u8], set: SetId, range: Range) -> Result<Vec<u8>, String> {
    let Some((head, body)) = file.split_at_checked(HEADER_BYTES) else {
        return Err(format!("it is too short: {} bytes", file.len()));
    };
    let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let small = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if &head[..8] != MAGIC {
        return Err("it is not a segment of a log".to_owned());
    }
    if small(8) != FORMAT {
        return Err(format!("its format is {}, this version reads {FORMAT}", small(8)));
    }
    if number(60) != body.len() as u64 {
        return Err(format!("its body has {} bytes instead of {}", body.len(), number(60)));
    }
    if head[SUMMED_BYTES..] != checksum(&head[..SUMMED_BYTES], body) {
        return Err("it is damaged: the checksum does not match".to_owned());
    }
    let of = SetId(head[12..].first_chunk().map_or([0; 12], |id| *id));
    if of != set {
        return Err(format!(
            "it is of the replica set with the id {of}, and the base copy of {set}"
        ));
    }
    let found = Range { after: Stamp(number(24)), last: Stamp(number(40)) };
    if found != range {
        return Err(format!("it has another name: {}", found.name()));
    }
    let length = number(52);
    if length > BODY_BYTES_MAX {
        return Err(format!("its entries have {length} bytes, which is too much"));
    }
    let entries = zstd::bulk::decompress(body, length as usize)
        .map_err(|error| format!("its body cannot be decompressed: {error}"))?;
    check_entries(&entries, found, small(48))?;
    Ok(entries)
}

fn check_entries(entries: &[u8], range: Range, count: u32) -> Result<(), String> {
    let (mut found, mut last) = (0, range.after);
    for entry in Entries(entries) {
        let stamp = Stamp::of(entry?.get("ts")).ok_or("an entry has no ts")?;
        if stamp <= last {
            return Err(format!("its entries are not in order: {stamp} after {last}"));
        }
        (found, last) = (found + 1, stamp);
    }
    match (found, last) == (count, range.last) {
        true => Ok(()),
        false => Err(format!(
            "it has {found} entries up to {last} instead of {count} up to {}",
            range.last
        )),
    }
}

/// Iterates over entries one after the other.
pub(crate) struct Entries<'e>(pub(crate) &'e [u8]);

impl<'e> Iterator for Entries<'e> {
    type Item = Result<Doc<'e>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let length = self.0.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
        let Some((entry, rest)) = self.0.split_at_checked(length.max(1)) else {
            self.0 = &[];
            return Some(Err("an entry is cut off".to_owned()));
        };
        self.0 = rest;
        Some(Doc::parse(entry).map_err(|error| format!("an entry is no document: {error:?}")))
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::{DocBuf, Value};

    use super::*;

    const SET: SetId = SetId([7; 12]);

    fn stamp(number: u64) -> Stamp {
        Stamp(5 << 32 | number)
    }

    fn entry(number: u64) -> DocBuf {
        DocBuf::build(|w| {
            w.put("op", "i");
            w.put("ts", Value::Timestamp(stamp(number).0));
        })
    }

    fn segment(after: u64, numbers: &[u64]) -> (Range, Vec<u8>) {
        let mut builder = Builder::new(SET, stamp(after));
        assert!(builder.is_empty());
        numbers.iter().for_each(|n| builder.push(entry(*n).as_doc()).unwrap());
        (builder.range(), builder.finish().unwrap())
    }

    #[test]
    fn encrypted_segments_need_their_key() {
        let key = |byte: u8| MasterKey::from_bytes(&[byte; 32], "").unwrap();
        let plain = b"NAGI-LOG and more".to_vec();
        let file = encrypted(&plain, &key(1)).unwrap();
        assert!(!file.windows(8).any(|bytes| bytes == MAGIC));
        assert_eq!(decrypted(file.clone(), &[key(2), key(1)]).unwrap(), plain);
        assert_eq!(decrypted(plain.clone(), &[]).unwrap(), plain);
        for (masters, says) in
            [(&[][..], "--encryptionKeyFile must name"), (&[key(2)], "another master key than ")]
        {
            let error = decrypted(file.clone(), masters).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let mut damaged = file.clone();
        damaged[70] ^= 1;
        assert!(decrypted(damaged, &[key(1)]).unwrap_err().contains("damaged"));
        assert!(decrypted(file[..100].to_vec(), &[key(1)]).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let (range, file) = segment(1, &[2, 5, 6]);
        assert_eq!(range, Range { after: stamp(1), last: stamp(6) });
        assert_eq!(Range::parse(range.name().strip_prefix("log/").unwrap()), Some(range));
        let entries = read(&file, SET, range).unwrap();
        let stamps: Vec<_> =
            Entries(&entries).map(|e| Stamp::of(e.unwrap().get("ts")).unwrap().0).collect();
        assert_eq!(stamps, [2, 5, 6].map(|n| stamp(n).0));
        let mut builder = Builder::new(SET, stamp(3));
        assert!(builder.push(entry(3).as_doc()).is_err(), "not after the stamp before");
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let (range, file) = segment(1, &[2, 5, 6]);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged, SET, range).is_err(), "byte {at}");
            assert!(read(&file[..at], SET, range).is_err(), "cut at {at}");
        }
        let other = Range { after: stamp(0), ..range };
        assert!(read(&file, SET, other).unwrap_err().contains("another name"));
        assert!(read(&file, SetId([8; 12]), range).unwrap_err().contains("of the replica set"));
    }

    #[test]
    fn chains_end_at_gaps_and_may_overlap() {
        let range = |after, last| Range { after: stamp(after), last: stamp(last) };
        let ranges = [range(1, 3), range(3, 6), range(4, 9), range(10, 12)];
        assert_eq!(end_of_chain(&ranges, stamp(1)), stamp(9));
        assert_eq!(end_of_chain(&ranges, stamp(2)), stamp(9));
        assert_eq!(end_of_chain(&ranges, stamp(9)), stamp(9));
        assert_eq!(end_of_chain(&ranges, stamp(10)), stamp(12));
        assert_eq!(chain(&ranges, stamp(3), stamp(20)), [range(3, 6), range(4, 9)]);
        assert_eq!(chain(&ranges, stamp(3), stamp(5)), [range(3, 6)]);
        assert_eq!(chain(&ranges, stamp(0), stamp(20)), []);
        let nested = [range(2, 3), range(1, 9), range(9, 10), range(4, 5)];
        assert_eq!(chain(&nested, stamp(1), stamp(20)), [range(1, 9), range(9, 10)]);
        for bad in ["x", "a_b.nagilog", "0000000005-0000000002_0000000005-0000000002.nagilog"] {
            assert_eq!(Range::parse(bad), None, "{bad}");
        }
    }
}
