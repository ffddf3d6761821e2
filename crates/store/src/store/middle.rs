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
        if ident.stripes_power() > 0 {
            // Each estimate would be one for each stripe, and so would be the requests of a second cursor.
            return Ok(None);
        }
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
