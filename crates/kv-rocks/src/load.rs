//! Bulk loads: entries are written as table files and ingested, bypassing the log.
//!
//! Entries in ascending order are written to files as they arrive. From the first entry that is out of order, they
//! are sorted in memory a piece at a time. A load of less than `SMALL_BYTES` goes through the log like a commit,
//! because a file of its own would cost more. Pieces may overlap; the last entry of a key wins.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nagi_kv::{Next, Result, Space};

use crate::db::{Batch, Db, TableFile};

/// Entries that are collected before it is decided if they go to a file.
pub(crate) const SMALL_BYTES: usize = 256 << 10;
/// The end of the names of table files that are not part of the database yet.
pub(crate) const PIECE_SUFFIX: &str = ".piece";

/// Removes table files that were not part of the database yet when the process crashed.
pub(crate) fn remove_pieces(files: &Path) -> Result<()> {
    for entry in fs::read_dir(files)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(PIECE_SUFFIX) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Limit of a file of ascending entries. Files are synced one by one, and other syncs wait meanwhile.
const FILE_BYTES: usize = 32 << 20;

/// Entries of one file.
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
    /// Reads entries until the source is exhausted or `bytes_max` is reached. Returns true if there may be more.
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

    /// Returns true if the entries are strictly ascending and all after `last`.
    pub(crate) fn ascends_behind(&self, last: &[u8]) -> bool {
        let keys = self.entries.iter().map(|entry| self.key(entry));
        let first = self.entries.first().is_some_and(|entry| self.key(entry) > last);
        first && keys.is_sorted_by(|a, b| a < b)
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

/// Writes ascending entries to table files, without keeping them in memory.
pub(crate) struct Ascending<'d> {
    db: &'d Db,
    space: Space,
    file: Option<(TableFile, PathBuf)>,
    bytes: usize,
    last: Vec<u8>,
}

impl<'d> Ascending<'d> {
    pub(crate) fn new(db: &'d Db, space: Space) -> Ascending<'d> {
        Ascending { db, space, file: None, bytes: 0, last: Vec::new() }
    }

    /// Returns true if a file has entries that are not ingested yet.
    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The last key so far.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Adds entries that ascend after the last key; `path` gives the path of the next file.
    pub(crate) fn put(&mut self, piece: &Piece, path: impl FnOnce() -> PathBuf) -> Result<()> {
        if self.file.is_none() {
            let path = path();
            self.file = Some((TableFile::create(self.db, self.space, &path)?, path));
        }
        if let Some((file, _)) = &mut self.file {
            for entry in &piece.entries {
                file.put(piece.key(entry), piece.value(entry))?;
            }
        }
        if let Some(last) = piece.entries.last() {
            self.last.clear();
            self.last.extend_from_slice(piece.key(last));
        }
        self.bytes += piece.byte_count();
        match self.bytes >= FILE_BYTES {
            true => self.take_in(),
            false => Ok(()),
        }
    }

    /// Ingests the entries written so far.
    pub(crate) fn take_in(&mut self) -> Result<()> {
        self.bytes = 0;
        let Some((file, path)) = self.file.take() else { return Ok(()) };
        let done = file.finish().and_then(|()| self.db.ingest(self.space, &path));
        let _ = fs::remove_file(path);
        done
    }
}

impl Drop for Ascending<'_> {
    fn drop(&mut self) {
        if let Some((file, path)) = self.file.take() {
            drop(file);
            let _ = fs::remove_file(path);
        }
    }
}
