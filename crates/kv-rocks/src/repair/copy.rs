//! Reads a damaged space: yields every readable key, and records the unreadable ranges.
//!
//! RocksDB's iterator merges all levels, so it stops at a damaged block of any of them. That is correct, because an
//! older version from another level must not appear as the newest. The keys from the last one read to the first
//! readable one (`number`) are read one by one (`apart`); those of which that fails are lost.

use std::{path::Path, sync::Arc};

use nagi_kv::{Cursor, Error, Result, Space};

use super::{Lost, apart::Apart, number};
use crate::db::{Db, RocksCursor};

/// A space that is being read.
pub(super) struct Salvage<'a> {
    db: &'a Arc<Db>,
    /// Where the files of the database are; none: unreadable ranges are not read key by key.
    folder: Option<&'a Path>,
    space: Space,
    cursor: Option<RocksCursor>,
    /// The keys of the last range in `lost`, which are read one by one.
    apart: Option<Apart>,
    /// The position at which the next cursor begins.
    at: Vec<u8>,
    /// True if no key behind an unreadable range can be read.
    ended: bool,
    pub(super) entries: u64,
    pub(super) lost: Vec<Lost>,
}

impl<'a> Salvage<'a> {
    pub(super) fn new(db: &'a Arc<Db>, folder: Option<&'a Path>, space: Space) -> Salvage<'a> {
        let (at, lost) = (Vec::new(), Vec::new());
        Salvage { db, folder, space, cursor: None, apart: None, at, ended: false, entries: 0, lost }
    }

    /// Reads the next readable entry. Returns false after the last one.
    pub(super) fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        loop {
            if self.next_apart(key, value)? {
                self.entries += 1;
                return Ok(true);
            }
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
                Err(error) if is_damage(&error) => self.leave_out(&error),
                Err(error) => return Err(error),
            }
        }
    }

    /// Notes that an iterator cannot read on, and prepares to read the range key by key.
    fn leave_out(&mut self, error: &Error) {
        // After an error a cursor yields nothing more.
        self.cursor = None;
        let seeks =
            |key: &[u8]| RocksCursor::new(self.db, None, self.space, key, &[]).seek(key).is_ok();
        let next = number::first(&self.at, seeks);
        self.apart = self
            .folder
            .map(|folder| Apart::new(self.db, folder, self.space, &self.at, next.clone()));
        self.lost.push(Lost {
            space: self.space,
            from: self.at.clone(),
            to: next.clone(),
            saved: 0,
            error: error.to_string(),
        });
        match next {
            Some(next) => self.at = next,
            None => self.ended = true,
        }
    }

    /// Reads the next entry of a range that is read key by key.
    fn next_apart(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        while let Some(found) = self.apart.as_mut().and_then(Apart::next) {
            match self.db.get(None, self.space, &found, value) {
                Ok(false) => {}
                Ok(true) => {
                    *key = found;
                    if let Some(lost) = self.lost.last_mut() {
                        lost.saved += 1;
                    }
                    return Ok(true);
                }
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.apart = None;
        Ok(false)
    }

    fn advance(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if let Some(cursor) = &mut self.cursor {
            return cursor.next();
        }
        let cursor = RocksCursor::new(self.db, None, self.space, &self.at, &[]);
        self.cursor.insert(cursor).seek(&self.at)
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt(_) | Error::Io(_))
}
