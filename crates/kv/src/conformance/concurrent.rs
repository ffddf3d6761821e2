//! Invariants under concurrent transactions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use super::{Check, begin, get, put, scan};
use crate::{Durability, Engine, Error, Read, Space, Txn};

const ACCOUNTS: u8 = 8;

pub(super) static POINTS: &[Check] = &[transfers_keep_the_sum, no_increment_is_lost];

fn number(read: &(impl Read + ?Sized), key: &[u8]) -> i64 {
    let value = get(read, Space::Records, key).unwrap_or_default();
    value.try_into().map_or(0, i64::from_le_bytes)
}

fn add(txn: &mut dyn Txn, key: &[u8], delta: i64) -> Result<(), Error> {
    let sum = number(txn, key) + delta;
    txn.put(Space::Records, key, &sum.to_le_bytes())
}

/// Writers move amounts between accounts, and every snapshot sees the same total.
fn transfers_keep_the_sum(engine: &Arc<dyn Engine>) {
    for account in 1..=ACCOUNTS {
        put(engine, Space::Records, &[account], &100_i64.to_le_bytes());
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|seed| {
                scope.spawn(move || {
                    for n in 0..400_u64 {
                        let from = (n * 7 + seed * 3) % u64::from(ACCOUNTS) + 1;
                        let to = (n * 5 + seed + 1) % u64::from(ACCOUNTS) + 1;
                        let mut txn = begin(engine);
                        let moved = add(&mut *txn, &[from as u8], -1)
                            .and_then(|()| add(&mut *txn, &[to as u8], 1));
                        if moved.is_ok() {
                            let _ = txn.commit(Durability::Buffered);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let snapshot = engine.snapshot().expect("a snapshot");
                let gets: i64 = (1..=ACCOUNTS).map(|n| number(&*snapshot, &[n])).sum();
                assert_eq!(gets, 100 * i64::from(ACCOUNTS));
                let pairs = scan(&*snapshot, Space::Records, b"", b"");
                let sum: i64 = pairs
                    .iter()
                    .map(|(_, value)| i64::from_le_bytes(value.as_slice().try_into().expect("8")))
                    .sum();
                assert_eq!(sum, gets);
            }
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, Relaxed);
    });
}

/// Increments of one key by many threads, with retries, are all counted.
fn no_increment_is_lost(engine: &Arc<dyn Engine>) {
    let at_once = engine.capabilities().conflicts_at_once;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    loop {
                        let mut txn = engine.begin(Default::default()).expect("begins");
                        let locked = txn.lock(Space::Records, b"n");
                        if locked.and_then(|()| add(&mut *txn, b"n", 1)).is_err() {
                            continue;
                        }
                        match txn.commit(Durability::Buffered) {
                            Ok(_) => break,
                            Err(Error::Conflict) if !at_once => {}
                            Err(error) => panic!("a locked key was not committed: {error}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(number(engine.latest(), b"n"), 400);
}
