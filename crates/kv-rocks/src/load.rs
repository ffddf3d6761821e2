//! Bulk loads: sorted in memory a piece at a time, written as table files, taken in past the log.
//!
//! A load of less than `SMALL_BYTES` goes through the log like a commit: a file of its own would
//! cost more. Pieces may overlap; of one key the later entry counts.

use std::{fs, path::Path};

use nagi_kv::{Next, Result, Space};

use crate::db::{Batch, Db, TableFile};

const SMALL_BYTES: usize = 256 << 10;

/// Entries collected for one file.
#[derive(Default)]
pub(crate) struct Piece {
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl Piece {
    /// Reads entries until the source ends or `bytes_max` are here; true if there may be more.
    pub(crate) fn fill(&mut self, bytes_max: usize, next: &mut Next<'_>) -> Result<bool> {
        self.arena.clear();
        self.entries.clear();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while self.arena.len() < bytes_max {
            if !next(&mut key, &mut value)? {
                return Ok(false);
            }
            self.entries.push(Entry {
                start: self.arena.len(),
                key_bytes: u32::try_from(key.len()).expect("keys are bounded"),
                value_bytes: u32::try_from(value.len()).expect("values are bounded"),
            });
            self.arena.extend_from_slice(&key);
            self.arena.extend_from_slice(&value);
        }
        Ok(true)
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.arena.len()
    }

    pub(crate) fn is_small(&self) -> bool {
        self.arena.len() < SMALL_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn stage(&self, db: &Db, batch: &mut Batch, space: Space) {
        for entry in &self.entries {
            db.put_batch(batch, space, self.key(entry), self.value(entry));
        }
    }

    /// Writes the entries as a file at `path` and moves it into the database.
    pub(crate) fn ingest(&mut self, db: &Db, space: Space, path: &Path) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        // A stable sort keeps entries of one key in order of arrival.
        entries.sort_by(|a, b| self.key(a).cmp(self.key(b)));
        let result = self.write(db, space, path, &entries).and_then(|()| db.ingest(space, path));
        self.entries = entries;
        let _ = fs::remove_file(path);
        result
    }

    fn write(&self, db: &Db, space: Space, path: &Path, entries: &[Entry]) -> Result<()> {
        let mut file = TableFile::create(db, space, path)?;
        for (index, entry) in entries.iter().enumerate() {
            let newer =
                entries.get(index + 1).is_some_and(|next| self.key(next) == self.key(entry));
            if !newer {
                file.put(self.key(entry), self.value(entry))?;
            }
        }
        file.finish()
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.arena[entry.start..entry.start + entry.key_bytes as usize]
    }

    fn value(&self, entry: &Entry) -> &[u8] {
        let start = entry.start + entry.key_bytes as usize;
        &self.arena[start..start + entry.value_bytes as usize]
    }
}
