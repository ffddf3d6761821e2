//! Reads a damaged space: yields every readable key, and records the unreadable ranges.
//!
//! RocksDB's iterator merges all levels, so it stops at a damaged block of any of them. That is correct, because an
//! older version from another level must not appear as the newest. The range from the last key read to the first
//! readable key is lost. To find that key, keys are treated as numbers: steps of 1, 2, 4, ... are tried until a
//! seek succeeds, then the interval is halved. A damaged block costs some two hundred seeks.

use std::sync::Arc;

use nagi_kv::{Cursor, Error, Result, Space};

use super::Lost;
use crate::db::{Db, RocksCursor};

/// Bytes of a key that are treated as a number; more than ident and record id.
const NUMBER_BYTES: usize = 16;

/// A space that is being read.
pub(super) struct Salvage<'a> {
    db: &'a Arc<Db>,
    space: Space,
    cursor: Option<RocksCursor>,
    /// The position at which the next cursor begins.
    at: Vec<u8>,
    pub(super) entries: u64,
    pub(super) lost: Vec<Lost>,
}

impl<'a> Salvage<'a> {
    pub(super) fn new(db: &'a Arc<Db>, space: Space) -> Salvage<'a> {
        Salvage { db, space, cursor: None, at: Vec::new(), entries: 0, lost: Vec::new() }
    }

    /// Reads the next readable entry. Returns false after the last one.
    pub(super) fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        loop {
            match self.advance() {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    let cursor = self.cursor.as_ref().expect("it has just moved");
                    key.clear();
                    key.extend_from_slice(cursor.key());
                    value.clear();
                    value.extend_from_slice(cursor.value());
                    self.at.clear();
                    self.at.extend_from_slice(cursor.key());
                    self.at.push(0);
                    self.entries += 1;
                    return Ok(true);
                }
                Err(error @ (Error::Corrupt(_) | Error::Io(_))) => {
                    // After an error a cursor yields nothing more.
                    self.cursor = None;
                    let next = first_readable(self.db, self.space, &self.at);
                    self.lost.push(Lost {
                        space: self.space,
                        from: self.at.clone(),
                        to: next.clone(),
                        error: error.to_string(),
                    });
                    match next {
                        Some(next) => self.at = next,
                        None => return Ok(false),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn advance(&mut self) -> Result<bool> {
        if let Some(cursor) = &mut self.cursor {
            return cursor.next();
        }
        let cursor = RocksCursor::new(self.db, None, self.space, &self.at, &[]);
        self.cursor.insert(cursor).seek(&self.at)
    }
}

/// The least key after `from` from which the space can be read, with the precision of numbers; none if it cannot be
/// read up to its end.
fn first_readable(db: &Arc<Db>, space: Space, from: &[u8]) -> Option<Vec<u8>> {
    let readable = |number: u128| {
        let key = number.to_be_bytes();
        RocksCursor::new(db, None, space, &key, &[]).seek(&key).is_ok()
    };
    let start = number(from);
    let mut step: u128 = 1;
    let (mut bad, mut good) = (
        start,
        loop {
            match start.checked_add(step) {
                Some(candidate) if readable(candidate) => break candidate,
                Some(_) => step = step.checked_mul(2)?,
                None => return None,
            }
        },
    );
    bad = bad.max(start + step / 2);
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match readable(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    Some(good.to_be_bytes().to_vec())
}

fn number(key: &[u8]) -> u128 {
    let mut bytes = [0; NUMBER_BYTES];
    let length = key.len().min(NUMBER_BYTES);
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}
