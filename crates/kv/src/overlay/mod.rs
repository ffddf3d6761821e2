//! The overlay: staged writes of a transaction that is not committed yet, over an engine's snapshot.
//!
//! Engines whose own transactions are missing or too expensive (all of them so far) stage writes here, detect
//! conflicts with `Conflicts`, and write everything in one batch at commit. So read-your-writes, savepoints,
//! counters and log appends behave in the same way on every engine.
//!
//! Layout: all keys and values are stored one after another in an arena. `writes` lists them in the order of
//! arrival. Each space has a list of the newest write of each key, sorted by key, in chunks, so that an insertion
//! moves at most one chunk.
//!
//!   arena   | key value | key value | key ...
//!   writes  [ {space, key, value, older} ... ]        older: the write it hides, for rollback
//!   sorted  [ [3 0 5] [1 4] ]                         indexes into writes, by key
//!
//! The overlay does not know conflicts or engines.

mod counter;
mod cursor;
mod txn;

use std::ops::Range;

pub use counter::add_counters;
pub use cursor::Merged;
pub use txn::{Base, Ledger, SharedOverlay, Staged};

use crate::{Space, difference};

const CHUNK_ENTRIES_MAX: usize = 512;
/// The arena grows by what a larger value needs. Otherwise its size would double, also for a few bytes behind the
/// value.
const LARGE_BYTES: usize = 1 << 20;
/// What the arena gets in addition then, for small writes that follow.
const SPARE_BYTES: usize = 64 << 10;

/// The kind of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    Put(&'a [u8]),
    Delete,
    /// Little-endian i64 deltas, summed over the transaction.
    Add(&'a [u8]),
    /// A log entry; its key is built at commit ([`crate::LogKeys`]).
    Append {
        value: &'a [u8],
        joined: bool,
    },
}

/// A staged write, as an engine sees it at commit.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    pub space: Space,
    pub key: &'a [u8],
    pub op: Op<'a>,
    /// For a `Put`: what has changed since the newest committed value, see [`crate::difference`]. Empty if that is not
    /// known, or is no less than the value.
    pub difference: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    Delete,
    Add,
    Append,
    /// A log entry that is joined to the one before it.
    Join,
}

struct Entry {
    space: Space,
    kind: Kind,
    /// True if it is the newest write of its key.
    newest: bool,
    key: Range<usize>,
    value: Range<usize>,
    /// The end of the difference, which follows the value.
    end: usize,
    /// The write of the same key that is hidden by this one.
    older: Option<u32>,
}

/// The staged writes of one transaction.
#[derive(Default)]
pub struct Overlay {
    arena: Vec<u8>,
    writes: Vec<Entry>,
    sorted: [Sorted; Space::ALL.len()],
    /// Log entries that are not joined to another one.
    appended: u64,
    /// Buffer in which `add` sums.
    scratch: Vec<u8>,
}

#[derive(Default)]
struct Sorted {
    chunks: Vec<Vec<u32>>,
    /// An empty chunk kept for the next transaction.
    spare: Vec<u32>,
}

impl Overlay {
    pub fn new() -> Overlay {
        Overlay::default()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.writes.clear();
        self.appended = 0;
        self.sorted.iter_mut().for_each(Sorted::clear);
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Number of staged writes, including hidden ones.
    pub fn write_count(&self) -> usize {
        self.writes.len()
    }

    /// The number of stamps that the commit takes.
    pub fn stamps(&self) -> u64 {
        self.appended.max(1)
    }

    /// Bytes of staged keys and values, including hidden ones.
    pub fn staged_bytes(&self) -> usize {
        self.arena.len()
    }

    /// Returns true if any key of the space was written.
    pub fn has(&self, space: Space) -> bool {
        !self.sorted[space as usize].chunks.is_empty()
    }

    pub fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.push(space, Kind::Put, key, value);
    }

    /// As `put`, with the difference to `old`, which must be the newest committed value. It is not recorded if the
    /// transaction has written the key before: then it would be one to a value that is never committed.
    pub fn put_over(&mut self, space: Space, key: &[u8], old: &[u8], new: &[u8]) {
        self.push(space, Kind::Put, key, new);
        if let Some(entry) = self.writes.last_mut().filter(|entry| entry.older.is_none())
            && difference::append(old, new, &mut self.arena)
        {
            entry.end = self.arena.len();
        }
    }

    pub fn delete(&mut self, space: Space, key: &[u8]) {
        self.push(space, Kind::Delete, key, &[]);
    }

    /// Adds to a value that this transaction has put or added before; otherwise stages the deltas.
    pub fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) {
        let mut sum = std::mem::take(&mut self.scratch);
        sum.clear();
        let kind = match self.find(space, key) {
            Some(write) => match self.writes[write as usize].kind {
                Kind::Add => {
                    sum.extend_from_slice(self.value(write));
                    Kind::Add
                }
                Kind::Delete => Kind::Put,
                Kind::Put | Kind::Append | Kind::Join => {
                    sum.extend_from_slice(self.value(write));
                    Kind::Put
                }
            },
            None => Kind::Add,
        };
        counter::add_deltas(&mut sum, deltas);
        self.push(space, kind, key, &sum);
        self.scratch = sum;
    }

    pub fn append(&mut self, log: Space, value: &[u8], joined: bool) {
        let joined = joined && self.appended > 0;
        self.appended += u64::from(!joined);
        self.make_room(value.len());
        let start = self.arena.len();
        self.arena.extend_from_slice(value);
        self.writes.push(Entry {
            space: log,
            kind: if joined { Kind::Join } else { Kind::Append },
            newest: true,
            key: start..start,
            value: start..self.arena.len(),
            end: self.arena.len(),
            older: None,
        });
    }

    /// The newest write of a key.
    pub fn get(&self, space: Space, key: &[u8]) -> Option<Op<'_>> {
        self.find(space, key).map(|write| self.op(write))
    }

    /// Undoes all but the first `write_count` writes.
    pub fn truncate(&mut self, write_count: usize) {
        while self.writes.len() > write_count {
            let write = self.writes.len() as u32 - 1;
            let entry = &self.writes[write as usize];
            let (space, older) = (entry.space, entry.older);
            if entry.kind == Kind::Append {
                self.appended -= 1;
            } else if entry.kind != Kind::Join {
                let (chunk, index) = match self.locate(space, &self.arena[entry.key.clone()]) {
                    Ok(place) => place,
                    Err(_) => unreachable!("every keyed write is in its space's list"),
                };
                let chunks = &mut self.sorted[space as usize].chunks;
                match older {
                    Some(older) => chunks[chunk][index] = older,
                    None => {
                        chunks[chunk].remove(index);
                        if chunks[chunk].is_empty() {
                            chunks.remove(chunk);
                        }
                    }
                }
            }
            if let Some(older) = older {
                self.writes[older as usize].newest = true;
            }
            let entry = self.writes.pop().expect("the loop checked that there is one");
            self.arena.truncate(entry.key.start);
        }
    }

    /// The writes to be applied, in the order of arrival; each key once.
    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        let newest = self.writes.iter().enumerate().filter(|(_, entry)| entry.newest);
        newest.map(|(index, _)| self.write(index as u32))
    }

    /// The same without appends, space by space in the order of the keys.
    pub fn writes_by_key(&self) -> impl Iterator<Item = Write<'_>> {
        let writes = self.sorted.iter().flat_map(|sorted| sorted.chunks.iter().flatten());
        writes.map(|write| self.write(*write))
    }

    /// The first staged key at or after `key`, or only after it if `after`.
    pub(crate) fn following(&self, space: Space, key: &[u8], after: bool) -> Option<Write<'_>> {
        let chunks = &self.sorted[space as usize].chunks;
        let (mut chunk, mut index) = match self.locate(space, key) {
            Ok((chunk, index)) => (chunk, index + usize::from(after)),
            Err(place) => place,
        };
        if chunk < chunks.len() && index >= chunks[chunk].len() {
            (chunk, index) = (chunk + 1, 0);
        }
        chunks.get(chunk).map(|chunk| self.write(chunk[index]))
    }

    /// The last staged key before `key` (the last of all if it is empty).
    pub(crate) fn preceding(&self, space: Space, key: &[u8]) -> Option<Write<'_>> {
        let chunks = &self.sorted[space as usize].chunks;
        if key.is_empty() {
            return chunks.last().map(|chunk| self.write(chunk[chunk.len() - 1]));
        }
        let (chunk, index) = match self.locate(space, key) {
            Ok(place) | Err(place) => place,
        };
        if index > 0 {
            return Some(self.write(chunks[chunk][index - 1]));
        }
        let chunk = &chunks[chunk.checked_sub(1)?];
        Some(self.write(chunk[chunk.len() - 1]))
    }

    fn make_room(&mut self, bytes: usize) {
        if bytes >= LARGE_BYTES {
            self.arena.reserve_exact(bytes + SPARE_BYTES);
        }
    }

    fn push(&mut self, space: Space, kind: Kind, key: &[u8], value: &[u8]) {
        let write = u32::try_from(self.writes.len()).expect("a transaction is bounded in bytes");
        self.make_room(key.len() + value.len());
        let key_start = self.arena.len();
        self.arena.extend_from_slice(key);
        let value_start = self.arena.len();
        self.arena.extend_from_slice(value);
        let mut entry = Entry {
            space,
            kind,
            newest: true,
            key: key_start..value_start,
            value: value_start..self.arena.len(),
            end: self.arena.len(),
            older: None,
        };
        match self.locate(space, key) {
            Ok((chunk, index)) => {
                let place = &mut self.sorted[space as usize].chunks[chunk][index];
                entry.older = Some(*place);
                self.writes[*place as usize].newest = false;
                *place = write;
            }
            Err((chunk, index)) => self.sorted[space as usize].insert(chunk, index, write),
        }
        self.writes.push(entry);
    }

    fn find(&self, space: Space, key: &[u8]) -> Option<u32> {
        let (chunk, index) = self.locate(space, key).ok()?;
        Some(self.sorted[space as usize].chunks[chunk][index])
    }

    /// The position of the key, or the position at which it would be inserted.
    fn locate(&self, space: Space, key: &[u8]) -> Result<(usize, usize), (usize, usize)> {
        let chunks = &self.sorted[space as usize].chunks;
        // Batches mostly write ascending keys.
        if let Some(last) = chunks.last()
            && last.last().is_some_and(|write| self.key(*write) < key)
        {
            return Err((chunks.len() - 1, last.len()));
        }
        let chunk = chunks.partition_point(|chunk| self.key(chunk[0]) <= key).saturating_sub(1);
        let Some(writes) = chunks.get(chunk) else { return Err((0, 0)) };
        match writes.binary_search_by(|write| self.key(*write).cmp(key)) {
            Ok(index) => Ok((chunk, index)),
            Err(index) => Err((chunk, index)),
        }
    }

    fn key(&self, write: u32) -> &[u8] {
        &self.arena[self.writes[write as usize].key.clone()]
    }

    fn value(&self, write: u32) -> &[u8] {
        &self.arena[self.writes[write as usize].value.clone()]
    }

    fn op(&self, write: u32) -> Op<'_> {
        let value = self.value(write);
        match self.writes[write as usize].kind {
            Kind::Put => Op::Put(value),
            Kind::Delete => Op::Delete,
            Kind::Add => Op::Add(value),
            Kind::Append => Op::Append { value, joined: false },
            Kind::Join => Op::Append { value, joined: true },
        }
    }

    fn write(&self, write: u32) -> Write<'_> {
        let entry = &self.writes[write as usize];
        let difference = &self.arena[entry.value.end..entry.end];
        Write { space: entry.space, key: self.key(write), op: self.op(write), difference }
    }
}

impl Sorted {
    fn clear(&mut self) {
        if let Some(mut chunk) = self.chunks.drain(..).next() {
            chunk.clear();
            self.spare = chunk;
        }
    }

    fn insert(&mut self, chunk: usize, index: usize, write: u32) {
        let Some(writes) = self.chunks.get_mut(chunk) else {
            let mut first = std::mem::take(&mut self.spare);
            first.push(write);
            self.chunks.push(first);
            return;
        };
        // Ascending keys start a new chunk, so that chunks are not left half full.
        if writes.len() >= CHUNK_ENTRIES_MAX && index == writes.len() {
            self.chunks.insert(chunk + 1, vec![write]);
            return;
        }
        writes.insert(index, write);
        if writes.len() > CHUNK_ENTRIES_MAX {
            let upper = writes.split_off(writes.len() / 2);
            self.chunks.insert(chunk + 1, upper);
        }
    }
}

#[cfg(test)]
mod tests;
