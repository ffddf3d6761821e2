//! Forward scans of snapshots, compared with sorted maps: many versions of a key on both sides of a snapshot, deleted
//! keys and ranges, differences among plain values, and files that are replaced while a scan runs.

use std::{collections::BTreeMap, sync::Arc};

use nagi_kv::{Durability, Engine, Snapshot, Space, TxnOptions};
use nagi_kv_rocks::{Options, open};

use crate::Scratch;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 3_000;

struct History {
    engine: Arc<dyn Engine>,
    map: Map,
    snapshots: Vec<(Arc<dyn Snapshot>, Map)>,
    state: u64,
}

impl History {
    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }

    /// Short keys, keys of two words, and keys longer than what a scan holds without an allocation.
    fn key(number: u64) -> Vec<u8> {
        let mut key = (number / 4).to_be_bytes()[5..].to_vec();
        key.resize([3, 9, 16, 80][number as usize % 4], 1);
        key
    }

    fn put(&mut self, number: u64) {
        let (key, value) =
            (Self::key(number), vec![self.random(256) as u8; 200 + self.random(300) as usize]);
        let mut txn = self.engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, &key, &value).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
        self.map.insert(key, value);
    }

    fn change(&mut self, number: u64) {
        let key = Self::key(number);
        let Some(old) = self.map.get(&key).cloned() else { return };
        let mut new = old.clone();
        new[7] ^= 1;
        let mut txn = self.engine.begin(TxnOptions::default()).expect("begins");
        txn.put_over(Space::Records, &key, &old, &new).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
        self.map.insert(key, new);
    }

    fn delete(&mut self, number: u64) {
        let key = Self::key(number);
        let mut txn = self.engine.begin(TxnOptions::default()).expect("begins");
        txn.delete(Space::Records, &key).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
        self.map.remove(&key);
    }

    fn snapshot(&mut self) {
        let snapshot = self.engine.snapshot().expect("a snapshot");
        self.snapshots.push((snapshot, self.map.clone()));
    }

    /// Scans a part of each snapshot, with a move backward now and then.
    fn check(&mut self) {
        for (snapshot, map) in std::mem::take(&mut self.snapshots) {
            let from = Self::key(self.random(KEYS));
            let turns = self.random(7) == 0;
            let mut cursor = snapshot.cursor(Space::Records, &[], &[]).expect("a cursor");
            let mut there = cursor.seek(&from).expect("reads");
            for (at, (key, value)) in map.range(from.clone()..).enumerate() {
                assert!(there, "an entry is missing");
                assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                if turns && at % 100 == 99 {
                    assert!(cursor.prev().expect("reads") && cursor.next().expect("reads"));
                    assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                }
                there = cursor.next().expect("reads");
            }
            assert!(!there, "there is an entry too many");
            self.snapshots.push((snapshot, map));
        }
    }

    /// Scans a snapshot while the memtables and files below it are replaced.
    fn check_among_flushes(&mut self) {
        self.snapshots.clear();
        let snapshot = self.engine.snapshot().expect("a snapshot");
        let map = self.map.clone();
        let mut cursor = snapshot.cursor(Space::Records, &[], &[]).expect("a cursor");
        let mut there = cursor.seek(&[]).expect("reads");
        for (at, (key, value)) in map.iter().enumerate() {
            assert!(there, "an entry is missing");
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            if at % 500 == 250 {
                let (next, last) = (at as u64 + 1, KEYS - 1);
                (next..next + 9).for_each(|number| self.put(number.min(last)));
                self.delete((next + 20).min(last));
                self.change((next + 30).min(last));
                self.engine.flush().expect("flushes");
            }
            if at == 1_200 {
                self.engine.compact(Space::Records, &[], &[]).expect("compacts");
            }
            there = cursor.next().expect("reads");
        }
        assert!(!there, "there is an entry too many");
    }
}

#[test]
fn scans_find_what_a_snapshot_has() {
    for seed in 1..=3 {
        let scratch = Scratch::new();
        let options = Options { write_buffer_bytes: Some(1 << 20), ..Options::default() };
        let engine = open(scratch.path(), &options).expect("opens");
        let mut history = History { engine, map: Map::new(), snapshots: Vec::new(), state: seed };
        (0..KEYS).for_each(|number| history.put(number));
        for round in 0..24 {
            // A few keys get many versions, so that scans search behind them.
            let hot = history.random(KEYS);
            for _ in 0..30 {
                history.put(hot);
            }
            for _ in 0..60 {
                let number = history.random(KEYS);
                match history.random(10) {
                    0..=3 => history.put(number),
                    4..=6 => history.change(number),
                    _ => history.delete(number),
                }
            }
            if round % 5 == 2 {
                history.engine.flush().expect("flushes");
            }
            if round % 4 == 1 {
                history.snapshot();
            }
            history.check();
        }
        // With differences, then without: they keep the sequence numbers of versions.
        history.check_among_flushes();
        history.engine.compact(Space::Records, &[], &[]).expect("compacts");
        history.check_among_flushes();
        history.snapshots.clear();
        let (start, end) = (History::key(400), History::key(900));
        history.engine.drop_range(Space::Records, &start, &end).expect("drops");
        history.map.retain(|key, _| *key < start || *key >= end);
        history.put(500);
        history.snapshot();
        history.check();
        history.engine.compact(Space::Records, &[], &[]).expect("compacts");
        history.check();
    }
}
