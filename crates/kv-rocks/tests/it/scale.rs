//! Comparison with a sorted map, with enough data that most of it is in files: evenly distributed, clustered and
//! random keys (files are searched by interpolation).

use std::{collections::BTreeMap, sync::Arc};

use nagi_kv::{Durability, Engine, Space, TxnOptions};
use nagi_kv_rocks::{Options, open};

use crate::Scratch;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 3
    }
}

fn options() -> Options {
    Options { write_buffer_bytes: Some(1 << 20), cache_bytes: 8 << 20, ..Options::default() }
}

/// Keys of three kinds: evenly distributed, clustered with long common prefixes, random bytes of any length.
fn key(random: &mut Random) -> Vec<u8> {
    let number = random.next() % 20_000;
    match random.next() % 3 {
        0 => [&[1][..], &number.to_be_bytes()].concat(),
        1 => {
            let cluster = (number % 7 + 1) * 1_000_000_007;
            [&[2; 40][..], &cluster.to_be_bytes(), &(number / 70).to_be_bytes()].concat()
        }
        _ => {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut key = vec![3 + (mixed % 200) as u8];
            key.extend((0..number % 23).map(|at| (mixed >> (at % 8 * 8)) as u8));
            key
        }
    }
}

fn write(engine: &Arc<dyn Engine>, map: &mut Map, random: &mut Random) {
    for _ in 0..600 {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for _ in 0..50 {
            let key = key(random);
            if random.next().is_multiple_of(4) {
                txn.delete(Space::Records, &key).expect("free");
                map.remove(&key);
            } else {
                let value = vec![random.next() as u8; (random.next() % 400) as usize];
                txn.put(Space::Records, &key, &value).expect("free");
                map.insert(key, value);
            }
        }
        txn.commit(Durability::Buffered).expect("commits");
    }
}

fn check(engine: &Arc<dyn Engine>, map: &Map, random: &mut Random) {
    let read = engine.latest();
    let mut buf = Vec::new();
    for _ in 0..20_000 {
        let key = key(random);
        let value = read.get(Space::Records, &key, &mut buf).expect("reads");
        assert_eq!(value, map.get(&key).map(Vec::as_slice), "{key:?}");
    }
    let mut names: Vec<Vec<u8>> = (0..500).map(|_| key(random)).collect();
    names.sort();
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let mut visit = |at: usize, value: Option<&[u8]>| {
        assert_eq!(value, map.get(&names[at]).map(Vec::as_slice));
    };
    read.get_many(Space::Records, &keys, &mut visit).expect("reads");
    let mut cursor = read.cursor(Space::Records, &[], &[]).expect("a cursor");
    for _ in 0..2000 {
        let key = key(random);
        let found = cursor.seek(&key).expect("seeks");
        assert_eq!(found.then(|| cursor.key()), map.range(key.clone()..).next().map(|e| &**e.0));
        let found = cursor.seek_back(&key).expect("seeks");
        assert_eq!(found.then(|| cursor.key()), map.range(..key).next_back().map(|e| &**e.0));
    }
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
}

#[test]
fn files_read_like_a_sorted_map() {
    let scratch = Scratch::new();
    let mut random = Random(0x5eed_1234_5678);
    let mut map = Map::new();
    for round in 0..3 {
        let engine = open(scratch.path(), &options()).expect("opens");
        write(&engine, &mut map, &mut random);
        check(&engine, &map, &mut random);
        if round == 1 {
            engine.compact(Space::Records, &[], &[]).expect("compacts");
            check(&engine, &map, &mut random);
        }
        if round == 2 {
            engine.drop_range(Space::Records, &[2], &[3]).expect("drops");
            map.retain(|key, _| key[0] != 2);
            check(&engine, &map, &mut random);
        }
    }
    check(&open(scratch.path(), &options()).expect("opens"), &map, &mut random);
}
