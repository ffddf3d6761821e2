//! Keys longer than LMDB's limit, compared with a sorted map: in layers, in the file, after reopening.

use std::{collections::BTreeMap, sync::Arc};

use nagi_kv::{Durability, Engine, Space, TxnOptions};
use nagi_kv_lmdb::open;

use crate::{Scratch, options};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// Keys with lengths around `CHUNK`, many with a common beginning.
fn key(random: &mut Random) -> Vec<u8> {
    let mut key = vec![b'a' + random.below(2) as u8];
    for _ in 0..random.below(4) {
        let byte = [0, 1, b'x', 255][random.below(4) as usize];
        let length = [1, 2, 498, 499, 500, 501][random.below(6) as usize];
        key.resize(key.len() + length, byte);
    }
    key
}

fn check(engine: &Arc<dyn Engine>, map: &Map, random: &mut Random) {
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut buf = Vec::new();
    for (key, value) in map {
        let found = snapshot.get(Space::Index, key, &mut buf).expect("reads");
        assert_eq!(found, Some(value.as_slice()));
    }
    let mut cursor = snapshot.cursor(Space::Index, &[], &[]).expect("a cursor");
    let mut found = cursor.seek(&[]).expect("seeks");
    for (key, value) in map {
        assert!(found && cursor.key() == key && cursor.value() == value);
        found = cursor.next().expect("moves");
    }
    assert!(!found);
    let mut found = cursor.seek_back(&[]).expect("seeks");
    for (key, value) in map.iter().rev() {
        assert!(found && cursor.key() == key && cursor.value() == value);
        found = cursor.prev().expect("moves");
    }
    assert!(!found);
    for _ in 0..300 {
        let key = key(random);
        let found = cursor.seek(&key).expect("seeks");
        let next = map.range(key.clone()..).next();
        assert_eq!(found.then(|| cursor.key()), next.map(|(key, _)| key.as_slice()));
        let found = cursor.seek_back(&key).expect("seeks");
        let before = map.range(..key).next_back();
        assert_eq!(found.then(|| cursor.key()), before.map(|(key, _)| key.as_slice()));
    }
}

#[test]
fn keys_of_any_length_are_in_order() {
    let scratch = Scratch::new();
    let mut random = Random(0x5eed_0bad_cafe);
    let mut map = Map::new();
    for round in 0..6_u8 {
        let engine = open(scratch.path(), &options()).expect("opens");
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for n in 0..150_u8 {
            let key = key(&mut random);
            if random.below(3) == 0 {
                txn.delete(Space::Index, &key).expect("free");
                map.remove(&key);
            } else {
                txn.put(Space::Index, &key, &[round, n]).expect("free");
                map.insert(key, vec![round, n]);
            }
        }
        txn.commit(Durability::Buffered).expect("commits");
        check(&engine, &map, &mut random);
        if round % 2 == 0 {
            engine.compact(Space::Index, &[], &[]).expect("everything goes to the file");
            check(&engine, &map, &mut random);
        }
        if round == 4 {
            engine.drop_range(Space::Index, b"a", b"b").expect("drops");
            map.retain(|key, _| key[0] != b'a');
            check(&engine, &map, &mut random);
        }
    }
    let engine = open(scratch.path(), &options()).expect("opens");
    check(&engine, &map, &mut random);
    engine.drop_range(Space::Index, &[], &[]).expect("drops all");
    engine.compact(Space::Index, &[], &[]).expect("everything goes to the file");
    check(&engine, &Map::new(), &mut random);
    engine.stats(&mut |name, value| {
        assert!(name != "keys_estimate" || value == 0, "no pointer is left: {value}");
    });
}

#[test]
fn the_longest_key_there_is() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &options()).expect("opens");
    let key = vec![7; engine.limits().key_bytes_max];
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Index, &key, b"value").expect("free");
    txn.commit(Durability::Synced).expect("commits");
    engine.compact(Space::Index, &[], &[]).expect("everything goes to the file");
    let mut buf = Vec::new();
    let found = engine.latest().get(Space::Index, &key, &mut buf).expect("reads");
    assert_eq!(found, Some(&b"value"[..]));
}

#[test]
fn a_write_of_the_data_file_is_counted() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &options()).expect("opens");
    let count = || {
        let mut found = -1;
        engine.stats(&mut |name, value| {
            if name == "checkpoints" {
                found = value;
            }
        });
        found
    };
    let before = count();
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Index, b"key", b"value").expect("free");
    txn.commit(Durability::Synced).expect("commits");
    engine.compact(Space::Index, &[], &[]).expect("everything goes to the file");
    assert!(before >= 0 && count() > before, "{before}");
}
