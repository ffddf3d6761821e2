//! Entries of single values of an index whose keys have stripes.
//!
//! A seek of a cursor over such an index is a seek in each stripe, but a value is in one of them. So where all values
//! are known, their entries are read at once, and the cursor moves in memory. Where the entries are records, which may
//! be large, there is a cursor for each value instead, and some of them begin to read at once.

use nagi_error::Result;
use nagi_kv::Cursor;

use super::reader::Reader;
use crate::{Index, IndexCursor, engine_error::engine, keystring};

/// Values that are read at once; their entries have some dozens of bytes.
const VALUES_MAX: usize = 1024;
/// Values of records: each has a cursor.
const RECORDS_MAX: usize = 256;
/// So many of these cursors begin to read at once.
const BEGUN_AT_ONCE: usize = 32;

impl Reader<'_> {
    /// A cursor over the entries of these values, key strings that ascend, in an index where each has one entry at the
    /// most. None if a cursor over a range is as good, or if there are too many. One batch of gets; in a clustered
    /// collection a request for each value.
    pub fn index_cursor_at(
        &self,
        index: &Index,
        forward: bool,
        values: &[&[u8]],
    ) -> Result<Option<IndexCursor>> {
        let (space, ident) = index.place();
        let most = match index.is_of_records() {
            // Of the newest commits each cursor would see others.
            true if self.is_snapshot() => RECORDS_MAX,
            false if index.keyed_alone => VALUES_MAX,
            _ => return Ok(None),
        };
        if ident.stripes_power() == 0 || !(1..=most).contains(&values.len()) {
            return Ok(None);
        }
        let keys: Vec<Vec<u8>> =
            values.iter().map(|value| [&ident.bytes(), *value].concat()).collect();
        if index.is_of_records() {
            let open = |key: Vec<u8>| {
                let behind = [&key[..], &[keystring::AFTER]].concat();
                let cursor = self.read.cursor(space, &key, &behind).map_err(engine)?;
                Ok(One { key, behind, cursor, begun: false })
            };
            let ones = keys.into_iter().map(open).collect::<Result<_>>()?;
            let cursor = Box::new(OneByOne { ones, at: None });
            return Ok(Some(IndexCursor::over(cursor, index, forward)));
        }
        let mut entries = Vec::with_capacity(keys.len());
        for keys in keys.chunks(self.read.keys_at_once()) {
            let lent: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let visit = &mut |at: usize, value: Option<&[u8]>| {
                entries.extend(value.map(|value| (keys[at].clone(), value.to_vec())));
            };
            self.read.get_many(space, &lent, visit).map_err(engine)?;
        }
        let known = Box::new(Known { entries, at: None });
        Ok(Some(IndexCursor::over(known, index, forward)))
    }
}

/// A cursor over the entry of a value.
struct One {
    key: Vec<u8>,
    /// Greater than the key, and not than any other one.
    behind: Vec<u8>,
    cursor: Box<dyn Cursor>,
    begun: bool,
}

/// A cursor over the entries of values, which ascend.
struct OneByOne {
    ones: Vec<One>,
    at: Option<usize>,
}

impl OneByOne {
    /// Moves to the first entry of these values that is there.
    fn first_of(
        &mut self,
        values: impl Iterator<Item = usize> + Clone,
        forward: bool,
    ) -> nagi_kv::Result<bool> {
        self.at = None;
        for (number, at) in values.clone().enumerate() {
            if number % BEGUN_AT_ONCE == 0 {
                for ahead in values.clone().skip(number).take(BEGUN_AT_ONCE) {
                    self.ones[ahead].begin(forward);
                }
            }
            if self.ones[at].seek(forward)? {
                self.at = Some(at);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl One {
    fn begin(&mut self, forward: bool) {
        if !std::mem::replace(&mut self.begun, true) {
            let target = if forward { &self.key } else { &self.behind };
            self.cursor.prepare(target, forward);
        }
    }

    fn seek(&mut self, forward: bool) -> nagi_kv::Result<bool> {
        match forward {
            true => self.cursor.seek(&self.key),
            false => self.cursor.seek_back(&self.behind),
        }
    }
}

impl Cursor for OneByOne {
    fn seek(&mut self, key: &[u8]) -> nagi_kv::Result<bool> {
        let first = self.ones.partition_point(|one| one.key.as_slice() < key);
        self.first_of(first..self.ones.len(), true)
    }

    fn seek_back(&mut self, key: &[u8]) -> nagi_kv::Result<bool> {
        let before = match key {
            [] => self.ones.len(),
            key => self.ones.partition_point(|one| one.key.as_slice() < key),
        };
        self.first_of((0..before).rev(), false)
    }

    fn next(&mut self) -> nagi_kv::Result<bool> {
        match self.at {
            Some(at) => self.first_of(at + 1..self.ones.len(), true),
            None => Ok(false),
        }
    }

    fn prev(&mut self) -> nagi_kv::Result<bool> {
        match self.at {
            Some(at) => self.first_of((0..at).rev(), false),
            None => Ok(false),
        }
    }

    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |at| self.ones[at].cursor.key())
    }

    fn value(&self) -> &[u8] {
        self.at.map_or(&[], |at| self.ones[at].cursor.value())
    }
}

/// A cursor over entries in memory.
struct Known {
    /// In the order of their keys.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    at: Option<usize>,
}

impl Known {
    fn place(&mut self, at: Option<usize>) -> nagi_kv::Result<bool> {
        self.at = at.filter(|at| *at < self.entries.len());
        Ok(self.at.is_some())
    }
}

impl Cursor for Known {
    fn seek(&mut self, key: &[u8]) -> nagi_kv::Result<bool> {
        self.place(Some(self.entries.partition_point(|(own, _)| own.as_slice() < key)))
    }

    fn seek_back(&mut self, key: &[u8]) -> nagi_kv::Result<bool> {
        let before = match key {
            [] => self.entries.len(),
            key => self.entries.partition_point(|(own, _)| own.as_slice() < key),
        };
        self.place(before.checked_sub(1))
    }

    fn next(&mut self) -> nagi_kv::Result<bool> {
        self.place(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> nagi_kv::Result<bool> {
        self.place(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |at| &self.entries[at].0)
    }

    fn value(&self) -> &[u8] {
        self.at.map_or(&[], |at| &self.entries[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_as_other_cursors_do() {
        let entries = [b"b", b"d", b"f"].map(|key| (key.to_vec(), b"v".to_vec())).to_vec();
        let mut cursor = Known { entries, at: None };
        for (key, at) in [(&b""[..], &b"b"[..]), (b"b", b"b"), (b"c", b"d"), (b"g", b"")] {
            assert_eq!(cursor.seek(key).expect("moves"), !at.is_empty());
            assert_eq!(cursor.key(), at);
        }
        for (key, at) in [(&b""[..], &b"f"[..]), (b"f", b"d"), (b"c", b"b"), (b"b", b"")] {
            assert_eq!(cursor.seek_back(key).expect("moves"), !at.is_empty());
            assert_eq!((cursor.key(), cursor.value().is_empty()), (at, at.is_empty()));
        }
        assert!(!cursor.next().expect("moves"), "it has no position");
        assert!(cursor.seek(b"d").expect("moves") && cursor.next().expect("moves"));
        assert!(!cursor.next().expect("moves") && cursor.key().is_empty());
        assert!(cursor.seek(b"d").expect("moves") && cursor.prev().expect("moves"));
        assert!(!cursor.prev().expect("moves") && cursor.key().is_empty());
    }
}
