//! Reads a range of keys that an iterator cannot read, key by key.
//!
//! An iterator merges all tables, so a damaged block of one of them hides every key between the block's first and its
//! last, whichever table these keys are in. A table of differences has a few keys of each range, so its blocks are
//! wide. A point read needs only the blocks that its key may be in: filters exclude the others. The keys to read are
//! taken from each table by itself. A key of which a newer version may be in a damaged block is an error of its read,
//! so no older version is taken for the newest.

use std::{path::Path, sync::Arc};

use nagi_kv::Space;

use super::number;
use crate::db::{Db, Step, TableKeys};

/// The keys of all tables of a space in a range, in order, each of them once.
pub(super) struct Apart {
    tables: Vec<Table>,
    /// The end of the range, exclusive; none: the last key.
    end: Option<Vec<u8>>,
}

/// A table and the next key in it.
struct Table {
    keys: TableKeys,
    next: Vec<u8>,
}

impl Apart {
    /// `folder`: where the files of `db` are. Memtables must be empty.
    pub(super) fn new(
        db: &Arc<Db>,
        folder: &Path,
        space: Space,
        from: &[u8],
        end: Option<Vec<u8>>,
    ) -> Apart {
        let ends_behind = |largest: &[u8]| largest >= from;
        let begins_before = |smallest: &[u8]| end.as_deref().is_none_or(|end| smallest < end);
        let files = db.live_files().into_iter().filter(|file| {
            file.space == space && ends_behind(&file.largest) && begins_before(&file.smallest)
        });
        let tables = files.filter_map(|file| {
            let mut keys = TableKeys::open(db, &folder.join(file.name))?;
            let next = readable(&mut keys, Some(from), from)?;
            Some(Table { keys, next })
        });
        Apart { tables: tables.collect(), end }
    }

    /// The next key.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let key = self.tables.iter().map(|table| &table.next).min()?.clone();
        if self.end.as_ref().is_some_and(|end| key >= *end) {
            return None;
        }
        self.tables.retain_mut(|table| {
            while table.next == key {
                match readable(&mut table.keys, None, &key) {
                    Some(next) => table.next = next,
                    None => return false,
                }
            }
            true
        });
        Some(key)
    }
}

/// The first key at or behind `to`, or behind the position `at`, past blocks that cannot be read.
fn readable(keys: &mut TableKeys, to: Option<&[u8]>, at: &[u8]) -> Option<Vec<u8>> {
    let mut step = match to {
        Some(to) => keys.seek(to),
        None => keys.next(),
    };
    if step == Step::Unreadable {
        let from = number::first(at, |key| keys.seek(key) != Step::Unreadable)?;
        step = keys.seek(&from);
    }
    match step {
        Step::Key(key) => Some(key),
        Step::End | Step::Unreadable => None,
    }
}
