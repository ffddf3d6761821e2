//! Finds a key that divides a range of an index into two parts of about the same size, for two threads.
//!
//! The bytes after the common prefix of the first and the last key are treated as a number, whose interval is halved
//! according to the engine's estimate of sizes. Each step continues with keys that are there.

use nagi_error::Result;
use nagi_kv::Cursor;

use super::Store;
use crate::{engine_error::engine, index::Index};

/// Less is read faster than a thread starts.
const RANGE_BYTES_MIN: u64 = 1 << 20;
const NUMBER_BYTES: usize = 8;
/// Each costs an estimate and a seek: some ten microseconds.
const STEPS_MAX: usize = 40;
/// The least share of a part, in percent: with less, a second thread does not pay.
const PART_PERCENT_MIN: u64 = 20;
/// A part of this share is good enough.
const PART_PERCENT_ENOUGH: u64 = 42;

impl Store {
    /// A key string between `start` and `end` that divides the entries in two parts of similar size; none if the range
    /// is small, or if one value has nearly all of it. An empty `end` means the end of the index.
    pub fn middle_of_index(
        &self,
        index: &Index,
        start: &[u8],
        end: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let (space, ident) = index.place();
        let first = [&ident.bytes(), start].concat();
        let last = match end {
            [] => ident.end().to_vec(),
            _ => [&ident.bytes(), end].concat(),
        };
        let mut cursor = self.engine.latest().cursor(space, &first, &last).map_err(engine)?;
        let (low, high) = (at_or_behind(&mut *cursor, &first)?, before(&mut *cursor, &last)?);
        let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
        let size =
            |from: &[u8], to: &[u8]| self.engine.approximate_size(space, from, to).map_err(engine);
        let whole = size(&low, &high)?;
        if whole < RANGE_BYTES_MIN {
            return Ok(None);
        }
        let begin = low.clone();
        let mut percent = |key: &[u8]| Ok(size(&begin, key)? * 100 / whole);
        let found = bisect(&mut *cursor, (low, high), &mut percent)?;
        Ok(found.map(|key| key[ident.bytes().len()..].to_vec()))
    }
}

fn at_or_behind(cursor: &mut dyn Cursor, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(cursor.seek(key).map_err(engine)?.then(|| cursor.key().to_vec()))
}

fn before(cursor: &mut dyn Cursor, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(cursor.seek_back(key).map_err(engine)?.then(|| cursor.key().to_vec()))
}

/// A key between the two that has about half of the range before it, if there is one. `percent`: how much is before
/// a key; it grows with the key.
fn bisect(
    cursor: &mut dyn Cursor,
    (mut low, mut high): (Vec<u8>, Vec<u8>),
    percent: &mut dyn FnMut(&[u8]) -> Result<u64>,
) -> Result<Option<Vec<u8>>> {
    let mut best = (0, Vec::new());
    for _ in 0..STEPS_MAX {
        if low >= high {
            break;
        }
        let prefix = low.iter().zip(&high).take_while(|(a, b)| a == b).count();
        let (from, to) = (number(&low[prefix..]), number(&high[prefix..]));
        // Rounded up: behind `low`, and not behind `high`.
        let middle = from + (to - from).div_ceil(2);
        let key = [&high[..prefix], &middle.to_be_bytes()].concat();
        let first = percent(&key)?.min(100);
        let part = first.min(100 - first);
        if part > best.0 {
            best = (part, key.clone());
        }
        if part >= PART_PERCENT_ENOUGH {
            break;
        }
        let (side, found) = match first < 50 {
            true => (&mut low, at_or_behind(cursor, &key)?),
            false => (&mut high, before(cursor, &key)?),
        };
        match found {
            Some(found) if found != *side => *side = found,
            _ => break,
        }
    }
    Ok((best.0 >= PART_PERCENT_MIN).then_some(best.1))
}

/// The first bytes of a key as a number; missing ones are zeros.
fn number(key: &[u8]) -> u64 {
    let mut bytes = [0; NUMBER_BYTES];
    let length = key.len().min(NUMBER_BYTES);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use nagi_kv::{Durability, Engine as _, Space, TxnOptions};

    use super::*;

    /// The share of the keys before the one that is found.
    fn part_of(keys: &mut [Vec<u8>]) -> Option<usize> {
        keys.sort();
        let engine = nagi_kv::Memory::new();
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        keys.iter().for_each(|key| txn.put(Space::Index, key, b"").expect("free"));
        txn.commit(Durability::Buffered).expect("commits");
        let mut cursor = engine.latest().cursor(Space::Index, &[], &[]).expect("a cursor");
        let ends = (keys[0].clone(), keys[keys.len() - 1].clone());
        let before = |key: &[u8]| keys.partition_point(|other| other.as_slice() < key);
        let mut percent = |key: &[u8]| Ok((before(key) * 100 / keys.len()) as u64);
        let found = bisect(&mut *cursor, ends, &mut percent).expect("nothing fails")?;
        Some(before(&found) * 100 / keys.len())
    }

    #[test]
    fn keys_are_divided_wherever_they_are_dense() {
        let near = |part: Option<usize>| part.is_some_and(|part| (40..=60).contains(&part));
        let mut even: Vec<Vec<u8>> = (0..1000_u64).map(|n| n.to_be_bytes().to_vec()).collect();
        assert!(near(part_of(&mut even)));
        // A long text that nearly all have in common, and a few far away.
        let text = b"a text that is longer than the number that the search uses ".to_vec();
        let mut long: Vec<Vec<u8>> =
            (0..1000_u64).map(|n| [&text[..], &n.to_be_bytes()].concat()).collect();
        assert!(near(part_of(&mut long.clone())));
        long.extend([vec![0; 3], vec![1], vec![0xff; 90]]);
        assert!(near(part_of(&mut long)));
        let mut words: Vec<Vec<u8>> =
            (0..900_u64).map(|n| [b"like", b"post", b"view"][n as usize % 3].to_vec()).collect();
        let part = part_of(&mut words);
        assert!(part.is_some_and(|part| (30..=70).contains(&part)), "{part:?}");
        assert_eq!(part_of(&mut vec![b"one".to_vec(); 1000]), None);
    }
}
