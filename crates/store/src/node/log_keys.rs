//! Keys and values of the change log of nodes: entries, lists of commits, and horizons. All numbers are big-endian.
//!
//! ```text
//!   Changes   bucket (1, 00 to 0F) | seat (2) | bound (8) | number (8) | part (2)
//!                 01 | length (4) entry | length (4) entry | ...       the entries of a commit
//!   Changes   40 | slice (8) | seat (2) | written (8) | part (2)
//!                 01 | stamp (8) bound (8) number (8) parts (2) bytes (4) | ...       commits of a node
//!   Counters  HORIZONS (4) | seat (2)         01 00 horizon (8)     the node is at work
//!                                             01 01                 it is not
//!   Counters  HORIZONS (4) | FF FF            01 first (8)          of the log: all commits from here on are there
//! ```
//!
//! `slice` is the stamp of the commits in it without its last 24 bits, `written` the snapshot of the transaction that
//! has written the list. See `listing` for what they mean.

use std::ops::Range;

use nagi_kv::{Error, Read, Result, Space};

use crate::ident::Ident;

/// Commits are distributed over so many ranges of keys, so that those of one moment are not written to one region. A
/// part of the stored format.
pub(crate) const BUCKETS: u8 = 16;
/// Entries are put together up to about this size: a value that an engine stores in one piece.
const PART_BYTES: usize = 48 << 10;
/// The bytes of a list.
const LIST_BYTES: usize = 48 << 10;
const LISTS: u8 = 0x40;
const SLICE_BITS: u32 = 24;
const ENTRY_KEY_BYTES: usize = 21;
const ITEM_BYTES: usize = 30;
const FORMAT: u8 = 1;
/// In the place of a seat: the key of the log's beginning.
const FIRST: u16 = u16::MAX;

/// A commit with entries in the log, in the order of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Listed {
    pub(crate) stamp: u64,
    /// A stamp that is less than that of the commit, and that was known before it.
    pub(crate) bound: u64,
    pub(crate) seat: u16,
    /// Of the commits of its node.
    pub(crate) number: u64,
    /// The keys of its entries.
    pub(crate) parts: u16,
    /// The size of their values.
    pub(crate) bytes: u32,
}

/// How far the log is complete, as of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status {
    /// All commits with entries from this stamp on are there; `None` if there never was a log.
    pub(crate) first: Option<u64>,
    /// All commits up to this stamp are listed.
    pub(crate) horizon: u64,
}

/// The horizon of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Horizon {
    /// Its commits up to this stamp are listed.
    At(u64),
    /// All of them are, and it makes none before it has written a horizon.
    Idle,
}

impl Listed {
    /// The first key of its entries.
    pub(crate) fn key(&self, part: u16) -> [u8; ENTRY_KEY_BYTES] {
        let mut key = [0; ENTRY_KEY_BYTES];
        // Consecutive commits of a node are in different buckets.
        key[0] = (self.number % u64::from(BUCKETS)) as u8;
        key[1..3].copy_from_slice(&self.seat.to_be_bytes());
        key[3..11].copy_from_slice(&self.bound.to_be_bytes());
        key[11..19].copy_from_slice(&self.number.to_be_bytes());
        key[19..].copy_from_slice(&part.to_be_bytes());
        key
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes.get(at..at + N).and_then(|found| found.try_into().ok()).ok_or_else(damaged)
}

#[cold]
fn damaged() -> Error {
    Error::Corrupt("a key of the change log is damaged".into())
}

fn check_format(value: &[u8]) -> Result<&[u8]> {
    match value.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((other, _)) => Err(Error::other(format!(
            "the change log has version {other}, this server reads version {FORMAT}"
        ))),
        None => Err(damaged()),
    }
}

/// The values of the entries of a commit, with as many entries in each as fit.
pub(super) fn parts<'e>(entries: impl Iterator<Item = &'e [u8]>) -> Result<Vec<Vec<u8>>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for entry in entries {
        let has_room = |part: &&mut Vec<u8>| part.len() + entry.len() <= PART_BYTES;
        let length = u32::try_from(entry.len()).map_err(|_| Error::MemoryFull)?;
        let part = match parts.last_mut().filter(has_room) {
            Some(part) => part,
            None => {
                parts.push(vec![FORMAT]);
                parts.last_mut().ok_or_else(damaged)?
            }
        };
        part.extend_from_slice(&length.to_be_bytes());
        part.extend_from_slice(entry);
    }
    match u16::try_from(parts.len()) {
        Ok(_) => Ok(parts),
        Err(_) => Err(Error::MemoryFull),
    }
}

/// The entries of such a value.
pub(crate) fn entries(value: &[u8]) -> Result<Vec<&[u8]>> {
    let (mut rest, mut all) = (check_format(value)?, Vec::new());
    while !rest.is_empty() {
        let length = u32::from_be_bytes(number(rest, 0)?) as usize;
        all.push(rest.get(4..4 + length).ok_or_else(damaged)?);
        rest = &rest[4 + length..];
    }
    Ok(all)
}

fn slice(stamp: u64) -> u64 {
    stamp >> SLICE_BITS
}

/// The keys and values of lists with these commits. `written`: the snapshot of the transaction that writes them.
pub(super) fn lists(seat: u16, written: u64, items: &mut [Listed]) -> Vec<(Vec<u8>, Vec<u8>)> {
    items.sort_unstable();
    let mut all = Vec::new();
    for of_slice in items.chunk_by(|a, b| slice(a.stamp) == slice(b.stamp)) {
        for (part, some) in of_slice.chunks(LIST_BYTES / ITEM_BYTES).enumerate() {
            let mut key = vec![LISTS];
            key.extend_from_slice(&slice(some[0].stamp).to_be_bytes());
            key.extend_from_slice(&seat.to_be_bytes());
            key.extend_from_slice(&written.to_be_bytes());
            key.extend_from_slice(&(part as u16).to_be_bytes());
            let mut value = vec![FORMAT];
            for item in some {
                value.extend_from_slice(&item.stamp.to_be_bytes());
                value.extend_from_slice(&item.bound.to_be_bytes());
                value.extend_from_slice(&item.number.to_be_bytes());
                value.extend_from_slice(&item.parts.to_be_bytes());
                value.extend_from_slice(&item.bytes.to_be_bytes());
            }
            all.push((key, value));
        }
    }
    all
}

/// Where the parts begin to which commits of one moment are distributed, and where the lists do.
pub(super) fn starts() -> Vec<Vec<u8>> {
    (0..BUCKETS).chain([LISTS]).map(|part| vec![part]).collect()
}

/// The range of the lists that may have commits from this stamp on.
pub(crate) fn lists_from(stamp: u64) -> Range<Vec<u8>> {
    [&[LISTS][..], &slice(stamp).to_be_bytes()].concat()..vec![LISTS + 1]
}

/// The greatest stamp of the slice of a list.
pub(crate) fn slice_end(key: &[u8]) -> Result<u64> {
    let slice = u64::from_be_bytes(number(key, 1)?);
    Ok(slice << SLICE_BITS | ((1 << SLICE_BITS) - 1))
}

/// Adds the commits of a list.
pub(crate) fn read_list((key, value): (&[u8], &[u8]), into: &mut Vec<Listed>) -> Result<()> {
    let seat = u16::from_be_bytes(number(key, 9)?);
    for item in check_format(value)?.chunks(ITEM_BYTES) {
        into.push(Listed {
            stamp: u64::from_be_bytes(number(item, 0)?),
            bound: u64::from_be_bytes(number(item, 8)?),
            seat,
            number: u64::from_be_bytes(number(item, 16)?),
            parts: u16::from_be_bytes(number(item, 24)?),
            bytes: u32::from_be_bytes(number(item, 26)?),
        });
    }
    Ok(())
}

/// The ranges of the entries of a seat whose bound is at least this one.
pub(super) fn entries_from(seat: u16, bound: u64) -> impl Iterator<Item = Range<Vec<u8>>> {
    (0..BUCKETS).map(move |bucket| {
        let start = [&[bucket][..], &seat.to_be_bytes(), &bound.to_be_bytes()].concat();
        let end = [&[bucket][..], &(seat + 1).to_be_bytes()].concat();
        start..end
    })
}

/// The commit of the key of an entry: its seat, bound and number.
pub(super) fn commit_of(key: &[u8]) -> Result<(u16, u64, u64)> {
    let seat = u16::from_be_bytes(number(key, 1)?);
    Ok((seat, u64::from_be_bytes(number(key, 3)?), u64::from_be_bytes(number(key, 11)?)))
}

pub(super) fn horizon_key(seat: u16) -> Vec<u8> {
    [&Ident::HORIZONS.bytes()[..], &seat.to_be_bytes()].concat()
}

/// The key of the log's beginning, in the space of counters.
pub(crate) fn first_key() -> Vec<u8> {
    horizon_key(FIRST)
}

pub(crate) fn first_value(first: u64) -> Vec<u8> {
    [&[FORMAT][..], &first.to_be_bytes()].concat()
}

impl Horizon {
    pub(super) fn value(self) -> Vec<u8> {
        match self {
            Horizon::At(stamp) => [&[FORMAT, 0][..], &stamp.to_be_bytes()].concat(),
            Horizon::Idle => vec![FORMAT, 1],
        }
    }

    pub(super) fn parse(value: &[u8]) -> Result<Horizon> {
        match check_format(value)?.split_first() {
            Some((0, stamp)) => Ok(Horizon::At(u64::from_be_bytes(number(stamp, 0)?))),
            Some((1, [])) => Ok(Horizon::Idle),
            _ => Err(damaged()),
        }
    }
}

/// Reads how far the log is complete in a snapshot with this stamp. A scan of as many entries as there are nodes.
pub(crate) fn status(read: &dyn Read, stamp: u64) -> Result<Status> {
    let (start, end) = (Ident::HORIZONS.bytes(), Ident::HORIZONS.end());
    let mut status = Status { first: None, horizon: stamp };
    let mut cursor = read.cursor(Space::Counters, &start, &end)?;
    let mut found = cursor.seek(&start)?;
    while found {
        let seat = u16::from_be_bytes(number(cursor.key(), 4)?);
        if seat == FIRST {
            let first = number(check_format(cursor.value())?, 0)?;
            status.first = Some(u64::from_be_bytes(first));
        } else if let Horizon::At(listed) = Horizon::parse(cursor.value())? {
            status.horizon = status.horizon.min(listed);
        }
        found = cursor.next()?;
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(stamp: u64, number: u64) -> Listed {
        Listed { stamp, bound: stamp - 1, seat: 3, number, parts: 2, bytes: 70_000 }
    }

    #[test]
    fn lists_are_read_as_they_were_written() {
        let second = 1 << 32;
        let mut items: Vec<_> = (0..4000).map(|n| listed(second + 4000 - n, n)).collect();
        items.push(listed(3 * second, 5000));
        let written = lists(3, 77, &mut items);
        assert_eq!(written.len(), 4, "three parts of a slice, and another slice");
        assert!(written.is_sorted());
        let mut found = Vec::new();
        for (key, value) in &written {
            read_list((key, value), &mut found).expect("it parses");
            assert!(slice_end(key).expect("it parses") >= found.last().expect("one").stamp);
            assert!(lists_from(second).contains(key));
        }
        assert!(!lists_from(2 * second).contains(&written[0].0));
        assert_eq!(found, items);
        assert!(read_list((&written[0].0, &[2]), &mut found).is_err());
        assert!(read_list((&written[0].0, &written[0].1[..9]), &mut found).is_err());
    }

    #[test]
    fn entries_share_parts_up_to_their_size() {
        let entries = [vec![1; 40 << 10], vec![2; 10 << 10], vec![3; 9], vec![4; 60 << 10]];
        let parts = parts(entries.iter().map(Vec::as_slice)).expect("they fit");
        assert_eq!(parts.len(), 3);
        let mut found = Vec::new();
        for part in &parts {
            found.extend(super::entries(part).expect("it parses"));
        }
        assert_eq!(found, entries);
        assert!(super::entries(&parts[0][..100]).is_err());
    }

    #[test]
    fn a_horizon_is_read_as_it_was_written() {
        for horizon in [Horizon::At(1 << 40), Horizon::Idle] {
            assert_eq!(Horizon::parse(&horizon.value()).expect("it parses"), horizon);
        }
        assert!(Horizon::parse(&[1, 2]).is_err());
        let commit = listed(9, 18);
        assert_eq!(commit_of(&commit.key(1)).expect("it parses"), (3, 8, 18));
        assert_eq!(commit.key(1)[0], 2, "the bucket");
        assert!(entries_from(3, 8).any(|range| range.contains(&commit.key(0).to_vec())));
    }
}
