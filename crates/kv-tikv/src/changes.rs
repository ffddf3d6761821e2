//! From the writes of a transaction to the changes of a commit.
//!
//! A write of a value over a large one must remove pieces that the new value does not have, so the length of the old
//! value has to be known. The transaction knows it for keys that it has read; the heads of the others are read in
//! batches, at the timestamp of the transaction. That is exact: if another transaction changes one of them after that,
//! the commit is a conflict. Spaces without large values need none of this.

use std::collections::{BTreeSet, HashMap};

use nagi_kv::{
    Error, Result, Space,
    overlay::{Op, Overlay, add_counters},
};

use crate::{
    client::Change,
    core::Core,
    layout::{Head, PIECE_BYTES, has_small_values, head_for, head_of, pieces_of},
};

/// Heads that are read at once: at most 8 MiB.
const BATCH_KEYS: usize = 128;
/// Bytes of keys whose values' lengths a transaction remembers.
const KNOWN_BYTES_MAX: usize = 1 << 20;

/// Keys with their spaces.
pub(crate) type Keys = BTreeSet<(Space, Vec<u8>)>;

/// The number of pieces of values that a transaction has read.
#[derive(Default)]
pub(crate) struct Known {
    pieces: HashMap<(Space, Vec<u8>), u32>,
    bytes: usize,
}

impl Known {
    /// The transaction has read this value, or that there is none.
    pub(crate) fn note(&mut self, space: Space, key: &[u8], value: Option<&[u8]>) {
        // An entry has some 60 bytes beside its key.
        if self.bytes + key.len() + 60 <= KNOWN_BYTES_MAX {
            self.bytes += key.len() + 60;
            let pieces = value.map_or(0, |value| pieces_of(value.len()));
            self.pieces.insert((space, key.to_vec()), pieces);
        }
    }
}

/// What is in the store before a commit.
#[derive(Default)]
struct Old {
    /// Pieces of large values, by the keys of their heads.
    pieces: HashMap<Vec<u8>, u32>,
    counters: HashMap<Vec<u8>, Vec<u8>>,
}

/// The changes of a transaction with this timestamp. Locked keys that it does not write become locks.
pub(crate) fn changes(
    core: &Core,
    version: u64,
    (overlay, locked, known): (&Overlay, &Keys, &Known),
) -> Result<Vec<Change>> {
    let old = read_old(core, version, (overlay, known))?;
    let mut changes = Vec::with_capacity(overlay.write_count() + locked.len());
    let mut sum = Vec::new();
    for write in overlay.writes() {
        let head = core.layout.head(write.space, write.key);
        let had = old.pieces.get(&head).copied().unwrap_or_default();
        let place = (write.space, write.key);
        match write.op {
            Op::Put(value) => put(core, (place, had), value, &mut changes),
            Op::Add(deltas) => {
                sum.clear();
                sum.extend_from_slice(old.counters.get(&head).map_or(&[], Vec::as_slice));
                add_counters(&mut sum, deltas);
                put(core, (place, had), &sum, &mut changes);
            }
            Op::Delete => {
                changes.push(Change::Delete(head));
                remove_pieces(core, place, 0..had, &mut changes);
            }
            Op::Append { .. } => return Err(no_logs()),
        }
    }
    let unwritten = locked.iter().filter(|(space, key)| overlay.get(*space, key).is_none());
    changes.extend(unwritten.map(|(space, key)| Change::Lock(core.layout.head(*space, key))));
    Ok(changes)
}

fn no_logs() -> Error {
    Error::other("TiKV tells the stamp of a commit only after it: no logs by stamp")
}

fn put(
    core: &Core,
    ((space, key), had): ((Space, &[u8]), u32),
    value: &[u8],
    changes: &mut Vec<Change>,
) {
    let head = head_for(space, key, value);
    changes.push(Change::Put(core.layout.head(space, key), head));
    let pieces = pieces_of(value.len());
    if pieces > 0 {
        for (number, piece) in (0..).zip(value.chunks(PIECE_BYTES)) {
            changes.push(Change::Put(core.layout.piece(space, key, number), piece.to_vec()));
        }
    }
    remove_pieces(core, (space, key), pieces..had, changes);
}

fn remove_pieces(
    core: &Core,
    (space, key): (Space, &[u8]),
    numbers: std::ops::Range<u32>,
    changes: &mut Vec<Change>,
) {
    changes.extend(numbers.map(|number| Change::Delete(core.layout.piece(space, key, number))));
}

fn read_old(core: &Core, version: u64, (overlay, known): (&Overlay, &Known)) -> Result<Old> {
    let mut old = Old::default();
    let mut heads = Vec::new();
    for write in overlay.writes() {
        let adds = match write.op {
            Op::Append { .. } => return Err(no_logs()),
            Op::Add(_) => true,
            Op::Put(_) | Op::Delete => false,
        };
        let head = core.layout.head(write.space, write.key);
        match known.pieces.get(&(write.space, write.key.to_vec())) {
            Some(0) if !adds => {}
            Some(pieces) if !adds => drop(old.pieces.insert(head, *pieces)),
            None if !adds && has_small_values(write.space) => {}
            _ => heads.push((head, adds)),
        }
    }
    for batch in heads.chunks(BATCH_KEYS) {
        let keys = batch.iter().map(|(head, _)| head.clone()).collect();
        let adds: HashMap<&[u8], bool> =
            batch.iter().map(|(head, adds)| (head.as_slice(), *adds)).collect();
        for (key, stored) in core.client.get_many(version, keys)? {
            match head_of(&stored)? {
                Head::Large(bytes) => drop(old.pieces.insert(key, pieces_of(bytes))),
                Head::Inline(value) if adds.get(key.as_slice()) == Some(&true) => {
                    drop(old.counters.insert(key, value.to_vec()));
                }
                Head::Inline(_) => {}
            }
        }
    }
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = Known::default();
        for n in 0..100_000_u32 {
            known.note(Space::Records, &n.to_be_bytes(), Some(&[0; 100]));
        }
        assert!((10_000..20_000).contains(&known.pieces.len()), "{}", known.pieces.len());
        assert_eq!(known.pieces.get(&(Space::Records, vec![0, 0, 0, 7])), Some(&0));
    }
}
