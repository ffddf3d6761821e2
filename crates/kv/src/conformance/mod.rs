//! The contract as a test suite that every engine runs: `run(&|| open a new, empty engine)`.
//!
//! Each point of the contract is one function, which panics if the point is broken. `model` compares random
//! histories with a sorted map; `crash` kills a process under load. Engines add their own tests of reopening and
//! damage.
//!
//! Sentences that need a capability (`Capabilities`) are tested on engines that have it; what is left of them without
//! it is tested on the others.

pub mod crash;

mod batches;
mod concurrent;
mod conflicts;
mod counters;
mod cursors;
mod maintain;
mod model;
mod reads;
mod stamps;

use std::sync::Arc;

pub use model::{Step, check_steps};

use crate::{Batch, Cursor, Durability, Engine, Error, Read, Space, Txn, TxnOptions};

type Check = fn(&Arc<dyn Engine>);

/// Runs every point of the contract, each on an engine of its own.
///
/// # Panics
/// If a point is broken.
pub fn run(open: &dyn Fn() -> Arc<dyn Engine>) {
    let points: &[&[Check]] = &[
        reads::POINTS,
        cursors::POINTS,
        batches::POINTS,
        conflicts::POINTS,
        counters::POINTS,
        maintain::POINTS,
        concurrent::POINTS,
        stamps::POINTS,
    ];
    for check in points.iter().copied().flatten() {
        check(&open());
    }
    for seed in 1..=12 {
        check_steps(&open(), &Step::random(seed, 400));
    }
}

fn begin(engine: &Arc<dyn Engine>) -> Box<dyn Txn> {
    engine
        .begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() })
        .expect("a transaction begins")
}

fn commit(txn: Box<dyn Txn>) -> u64 {
    txn.commit(Durability::Buffered).expect("no transaction conflicts").0
}

fn put(engine: &Arc<dyn Engine>, space: Space, key: &[u8], value: &[u8]) -> u64 {
    let mut txn = begin(engine);
    txn.put(space, key, value).expect("no transaction holds the key");
    commit(txn)
}

fn get(read: &(impl Read + ?Sized), space: Space, key: &[u8]) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    read.get(space, key, &mut buf).expect("reads succeed").map(<[u8]>::to_vec)
}

/// All entries in `[start, end)`, read in both directions, by steps and by batches, which must agree.
fn scan(read: &(impl Read + ?Sized), space: Space, start: &[u8], end: &[u8]) -> Pairs {
    let mut cursor = read.cursor(space, start, end).expect("a cursor opens");
    let mut pairs = Vec::new();
    let mut found = cursor.seek(start).expect("seek");
    while found {
        pairs.push(pair(&*cursor));
        found = cursor.next().expect("next");
    }
    assert!(cursor.key().is_empty(), "a cursor beyond its range has no key");
    let mut back = Vec::new();
    let mut found = cursor.seek_back(end).expect("seek_back");
    while found {
        back.push(pair(&*cursor));
        found = cursor.prev().expect("prev");
    }
    back.reverse();
    assert_eq!(pairs, back, "both directions see the same");
    assert_eq!(pairs, scan_batches(&mut *cursor, start, true), "batches see the same");
    back.reverse();
    assert_eq!(back, scan_batches(&mut *cursor, end, false), "and backwards");
    pairs
}

/// All entries from the target of a seek for `key`, in batches of increasing size.
fn scan_batches(cursor: &mut dyn Cursor, key: &[u8], forward: bool) -> Pairs {
    let (mut pairs, mut batch, mut entries) = (Pairs::new(), Batch::default(), 1);
    let mut found = if forward { cursor.seek(key) } else { cursor.seek_back(key) }.expect("seek");
    while found {
        found = match forward {
            true => cursor.next_batch(entries, 1 << 10, &mut batch),
            false => cursor.prev_batch(entries, 1 << 10, &mut batch),
        }
        .expect("a batch");
        assert!((1..=entries).contains(&batch.len()), "one entry to as many as were asked for");
        pairs.extend(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        entries += 1;
    }
    pairs
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pair(cursor: &dyn Cursor) -> (Vec<u8>, Vec<u8>) {
    (cursor.key().to_vec(), cursor.value().to_vec())
}

fn keys(pairs: &Pairs) -> Vec<&[u8]> {
    pairs.iter().map(|(key, _)| key.as_slice()).collect()
}

fn conflicts<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Conflict))
}
