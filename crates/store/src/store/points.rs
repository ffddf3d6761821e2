//! Entries of single values of an index whose keys have stripes.
//!
//! A seek of a cursor over such an index is a seek in each stripe, but a value is in one of them. So where all values
//! are known, their entries are read at once, and the cursor moves in memory.

use nagi_error::Result;
use nagi_kv::Cursor;

use super::reader::Reader;
use crate::{Index, IndexCursor, engine_error::engine};

/// Values that are read at once; their entries have some dozens of bytes.
const VALUES_MAX: usize = 1024;

impl Reader<'_> {
    /// A cursor over the entries of these values, key strings that ascend, in an index where each has one entry at the
    /// most. None if a cursor over a range is as good, or if there are too many. One batch of gets.
    pub fn index_cursor_at(
        &self,
        index: &Index,
        forward: bool,
        values: &[&[u8]],
    ) -> Result<Option<IndexCursor>> {
        let (space, ident) = index.place();
        let is_one_get = index.keyed_alone && !index.is_of_records();
        if ident.stripes_power() == 0 || !is_one_get || !(1..=VALUES_MAX).contains(&values.len()) {
            return Ok(None);
        }
        let keys: Vec<Vec<u8>> =
            values.iter().map(|value| [&ident.bytes(), *value].concat()).collect();
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
