//! Keys of any length, and checksums, on top of LMDB's keys of at most 511 bytes.
//!
//! A key of up to `CHUNK` bytes is stored as it is. Of a longer key, the first `CHUNK` bytes and a zero byte are
//! the key of a *pointer* to a node (a number). The rest of the key is stored in the database `long`, after the
//! node's eight bytes, by the same rule. Keys with a common beginning share the node.
//!
//!   space   [short key]              -> value
//!           [500 bytes | 00]         -> node 7
//!   long    [7 | rest]               -> value
//!           [7 | 500 bytes | 00]     -> node 9
//!
//! The order of keys is preserved: only pointers are stored under more than `CHUNK` bytes, and a key is split only
//! if it is longer than `CHUNK`. So a pointer sorts after the key that equals its chunk and before every greater
//! key. A node is never empty: when its last key is deleted, its pointer is deleted too.
//!
//! Each value is followed by a CRC-32C of its whole key and the value.

use std::{borrow::Cow, sync::Arc};

use nagi_kv::{Error, Result};

use super::{
    Db,
    ffi::{ReadTxn, WriteTxn},
    number,
    raw::RawCursor,
};

/// Bytes of a key that are stored in one piece.
pub(crate) const CHUNK: usize = 500;
const NODE_BYTES: usize = 8;
const SUM_BYTES: usize = 4;
/// More levels than the longest key of the engine needs; a deeper chain is damage.
const DEPTH_MAX: usize = (128 << 10) / CHUNK;
const NODE_KEY: &[u8] = b"node";

fn sum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

fn unseal<'v>(env: &str, key: &[u8], sealed: &'v [u8]) -> Result<&'v [u8]> {
    if let Some((value, stored)) = sealed.split_last_chunk::<SUM_BYTES>()
        && u32::from_le_bytes(*stored) == sum(key, value)
    {
        return Ok(value);
    }
    Err(damaged(env, key))
}

#[cold]
fn damaged(env: &str, key: &[u8]) -> Error {
    let name: String = key.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    Error::Corrupt(format!("{env}: the entry of key {name} ({} bytes) is damaged", key.len()))
}

/// The place of a key: its database and stored key, and the pointers that lead there.
struct Place {
    db: Db,
    stored: Vec<u8>,
    pointers: Vec<(Db, Vec<u8>)>,
}

/// Follows the pointers of a long key. `step` is called with each pointer's database and key and returns its node;
/// none stops the walk.
fn walk(
    root: Db,
    key: &[u8],
    mut step: impl FnMut(Db, &[u8]) -> Result<Option<u64>>,
) -> Result<Option<Place>> {
    let (mut db, mut node, mut rest) = (root, None, key);
    let mut pointers = Vec::new();
    loop {
        let mut stored = node.map_or(Vec::new(), |node: u64| node.to_be_bytes().to_vec());
        if rest.len() <= CHUNK {
            stored.extend_from_slice(rest);
            return Ok(Some(Place { db, stored, pointers }));
        }
        stored.extend_from_slice(&rest[..CHUNK]);
        stored.push(0);
        let Some(next) = step(db, &stored)? else { return Ok(None) };
        pointers.push((db, stored));
        (db, node, rest) = (Db::Long, Some(next), &rest[CHUNK..]);
    }
}

/// The value of a key, borrowed from the map.
pub(crate) fn get<'t>(txn: &'t ReadTxn, root: Db, key: &[u8]) -> Result<Option<&'t [u8]>> {
    let sealed = if key.len() <= CHUNK {
        txn.get(root, key)?
    } else {
        let place = walk(root, key, |db, stored| Ok(number(txn.get(db, stored)?)))?;
        match place {
            Some(place) => txn.get(place.db, &place.stored)?,
            None => None,
        }
    };
    sealed.map(|sealed| unseal(txn.env().name(), key, sealed)).transpose()
}

/// Sets a key. Returns the size of its old value in bytes, if it had one.
pub(crate) fn put(txn: &mut WriteTxn, root: Db, key: &[u8], value: &[u8]) -> Result<Option<usize>> {
    let seal = sum(key, value).to_le_bytes();
    let old = |sealed: Option<&[u8]>| sealed.map(|sealed| sealed.len().saturating_sub(SUM_BYTES));
    if key.len() <= CHUNK {
        let old = old(txn.get(root, key)?);
        txn.put_parts(root, key, [value, &seal])?;
        return Ok(old);
    }
    let place = walk(root, key, |db, stored| {
        if let Some(node) = number(txn.get(db, stored)?) {
            return Ok(Some(node));
        }
        let node = number(txn.get(Db::Meta, NODE_KEY)?).unwrap_or(0) + 1;
        txn.put(Db::Meta, NODE_KEY, &node.to_le_bytes())?;
        txn.put(db, stored, &node.to_le_bytes())?;
        Ok(Some(node))
    })?;
    let Some(place) = place else { unreachable!("missing nodes are made on the way") };
    let old = old(txn.get(place.db, &place.stored)?);
    txn.put_parts(place.db, &place.stored, [value, &seal])?;
    Ok(old)
}

/// Removes a key. Returns the size of its value in bytes, if it existed.
pub(crate) fn delete(txn: &mut WriteTxn, root: Db, key: &[u8]) -> Result<Option<usize>> {
    let place = walk(root, key, |db, stored| Ok(number(txn.get(db, stored)?)))?;
    let Some(mut place) = place else { return Ok(None) };
    let Some(sealed) = txn.get(place.db, &place.stored)? else { return Ok(None) };
    let bytes = sealed.len().saturating_sub(SUM_BYTES);
    txn.delete(place.db, &place.stored)?;
    while let Some((db, pointer)) = place.pointers.pop() {
        if txn.has_prefix(Db::Long, &place.stored[..NODE_BYTES])? {
            break;
        }
        txn.delete(db, &pointer)?;
        place.stored = pointer;
    }
    Ok(Some(bytes))
}

/// A position among the keys of a space within `[start, end)`.
pub(crate) struct TreeCursor {
    txn: Arc<ReadTxn>,
    root: RawCursor,
    /// The nodes from the root to the current key; empty if the key is short.
    levels: Vec<Level>,
    /// The current key, if it is long.
    long: Vec<u8>,
    start: Vec<u8>,
    end: Vec<u8>,
    valid: bool,
}

struct Level {
    cursor: RawCursor,
    node: [u8; NODE_BYTES],
    /// Bytes of `TreeCursor::long` before this level's part.
    before: usize,
}

impl Level {
    fn chunk(&self) -> &[u8] {
        self.cursor.key().get(NODE_BYTES..).unwrap_or_default()
    }

    /// Returns true if the cursor is still in this node.
    fn holds(&self, found: bool) -> bool {
        found && self.cursor.key().starts_with(&self.node)
    }

    fn seek(&mut self, rest: &[u8]) -> Result<bool> {
        let found = self.cursor.seek(&[&self.node, rest].concat())?;
        Ok(self.holds(found))
    }

    /// Moves to the last stored key before `rest`.
    fn seek_before(&mut self, rest: &[u8]) -> Result<bool> {
        let found = match self.cursor.seek(&[&self.node, rest].concat())? {
            true => self.cursor.prev()?,
            false => self.cursor.last()?,
        };
        Ok(self.holds(found))
    }

    fn last(&mut self) -> Result<bool> {
        let after = (u64::from_be_bytes(self.node) + 1).to_be_bytes();
        let found = match self.cursor.seek(&after)? {
            true => self.cursor.prev()?,
            false => self.cursor.last()?,
        };
        Ok(self.holds(found))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

impl TreeCursor {
    pub(crate) fn open(
        txn: &Arc<ReadTxn>,
        root: Db,
        start: &[u8],
        end: &[u8],
    ) -> Result<TreeCursor> {
        Ok(TreeCursor {
            root: RawCursor::open(txn, root)?,
            txn: Arc::clone(txn),
            levels: Vec::new(),
            long: Vec::new(),
            start: start.to_vec(),
            end: end.to_vec(),
            valid: false,
        })
    }

    /// Moves to the first key that is `key` or greater.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let start = std::mem::take(&mut self.start);
        let found = self.seek_stored(if key < start.as_slice() { &start } else { key });
        self.start = start;
        let found = found?;
        self.settle(found, Direction::Forward)
    }

    /// Moves to the last key that is less than `key`; with an empty `key`, to the last of all.
    pub(crate) fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        let end = std::mem::take(&mut self.end);
        let beyond = key.is_empty() || (!end.is_empty() && key > end.as_slice());
        let found = self.seek_stored_before(if beyond { &end } else { key });
        self.end = end;
        let found = found?;
        self.settle(found, Direction::Back)
    }

    pub(crate) fn next(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        let found = self.step(Direction::Forward)?;
        self.settle(found, Direction::Forward)
    }

    pub(crate) fn prev(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        let found = self.step(Direction::Back)?;
        self.settle(found, Direction::Back)
    }

    /// The current key; empty if the cursor has no position.
    pub(crate) fn key(&self) -> &[u8] {
        match (self.valid, self.levels.is_empty()) {
            (false, _) => &[],
            (true, true) => self.root.key(),
            (true, false) => &self.long,
        }
    }

    /// The current value, borrowed from the map.
    pub(crate) fn value(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        let sealed = self.sealed();
        &sealed[..sealed.len().saturating_sub(SUM_BYTES)]
    }

    fn sealed(&self) -> &[u8] {
        self.levels.last().map_or(self.root.value(), |level| level.cursor.value())
    }

    fn seek_stored(&mut self, key: &[u8]) -> Result<bool> {
        self.levels.clear();
        let mut rest = key;
        let mut found = self.root.seek(&head(rest))?;
        while found && self.is_pointer_of(rest) {
            self.push()?;
            rest = &rest[CHUNK..];
            let level = self.levels.last_mut().expect("one was pushed");
            found = level.seek(&head(rest))?;
            if !found {
                // This node has no key that great; the entry after its pointer is greater.
                self.levels.pop();
                return self.step(Direction::Forward);
            }
        }
        Ok(found)
    }

    fn seek_stored_before(&mut self, key: &[u8]) -> Result<bool> {
        self.levels.clear();
        if key.is_empty() {
            return self.root.last();
        }
        let mut rest = key;
        let mut found = self.root.seek(&head(rest))?;
        while found && self.is_pointer_of(rest) {
            self.push()?;
            rest = &rest[CHUNK..];
            let level = self.levels.last_mut().expect("one was pushed");
            if rest.len() <= CHUNK {
                if level.seek_before(rest)? {
                    return Ok(true);
                }
                // This node has no key before it; the entry before its pointer is less.
                self.levels.pop();
                return self.step(Direction::Back);
            }
            found = level.seek(&head(rest))?;
        }
        // The position is the first stored key that is not before `key`, or past the last.
        match (found, self.levels.last_mut()) {
            (true, _) => self.step(Direction::Back),
            (false, None) => self.root.last(),
            (false, Some(level)) => level.last(),
        }
    }

    /// Moves to the next stored key in one direction, and out of nodes that have no further key.
    fn step(&mut self, direction: Direction) -> Result<bool> {
        while let Some(level) = self.levels.last_mut() {
            let moved = match direction {
                Direction::Forward => level.cursor.next()?,
                Direction::Back => level.cursor.prev()?,
            };
            if level.holds(moved) {
                return Ok(true);
            }
            self.levels.pop();
        }
        match direction {
            Direction::Forward => self.root.next(),
            Direction::Back => self.root.prev(),
        }
    }

    /// Follows pointers down to a whole key; then checks bounds and checksum.
    fn settle(&mut self, found: bool, direction: Direction) -> Result<bool> {
        self.valid = false;
        if !found {
            return Ok(false);
        }
        while self.is_pointer() {
            self.push()?;
            let level = self.levels.last_mut().expect("one was pushed");
            let found = match direction {
                Direction::Forward => level.seek(&[])?,
                Direction::Back => level.last()?,
            };
            if !found {
                return Err(damaged(self.txn.env().name(), &self.long));
            }
        }
        if let Some(level) = self.levels.last() {
            self.long.truncate(level.before);
            self.long.extend_from_slice(level.chunk());
        }
        self.valid = true;
        let key = self.key();
        let inside = match direction {
            Direction::Forward => self.end.is_empty() || key < self.end.as_slice(),
            Direction::Back => key >= self.start.as_slice(),
        };
        self.valid = inside;
        // A damaged entry is an error but still a position: the next entry may be intact.
        if inside {
            let key = if self.levels.is_empty() { self.root.key() } else { &self.long };
            unseal(self.txn.env().name(), key, self.sealed())?;
        }
        Ok(inside)
    }

    fn chunk(&self) -> &[u8] {
        self.levels.last().map_or(self.root.key(), Level::chunk)
    }

    fn is_pointer(&self) -> bool {
        self.chunk().len() > CHUNK
    }

    /// Returns true if the current stored key is the pointer for a long key's first chunk.
    fn is_pointer_of(&self, rest: &[u8]) -> bool {
        rest.len() > CHUNK && self.is_pointer() && self.chunk()[..CHUNK] == rest[..CHUNK]
    }

    /// Enters the node of the current pointer; the new level has no position yet.
    fn push(&mut self) -> Result<()> {
        let before = self.levels.last().map_or(0, |level| level.before);
        let mut long = std::mem::take(&mut self.long);
        long.truncate(before);
        long.extend_from_slice(&self.chunk()[..CHUNK]);
        self.long = long;
        let Some(node) = number(Some(self.sealed())).filter(|_| self.levels.len() < DEPTH_MAX)
        else {
            return Err(damaged(self.txn.env().name(), &self.long));
        };
        self.levels.push(Level {
            cursor: RawCursor::open(&self.txn, Db::Long)?,
            node: node.to_be_bytes(),
            before: before + CHUNK,
        });
        Ok(())
    }
}

/// The stored key that a seek looks for at one level: the rest of the key, or its pointer.
fn head(rest: &[u8]) -> Cow<'_, [u8]> {
    match rest.len() > CHUNK {
        true => Cow::Owned([&rest[..CHUNK], &[0]].concat()),
        false => Cow::Borrowed(rest),
    }
}
