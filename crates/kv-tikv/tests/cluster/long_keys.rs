//! Index keys that are longer than the store's: cut and hashed there, whole and in their order here.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included},
};

use nagi_kv::{Cursor, Durability, Engine, Error, Maintenance as _, Space, TxnOptions};

use crate::cluster::{engine, get, new_prefix, node, split};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key of `length` bytes, most of them equal, with two that differ at its end.
fn key(first: u8, length: usize, last: u8) -> Vec<u8> {
    let mut key = vec![7; length];
    key[0] = first;
    key[length - 2..].copy_from_slice(&[last / 7, last]);
    key
}

/// Keys around the limit and beyond, of several groups, with others before, between and behind them.
fn keys() -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for first in [1, 3] {
        keys.extend([vec![first], vec![first; 100], vec![first, 255]]);
        for length in [6112, 6113, 6114, 6115, 6143, 6144, 6145, 6146, 9000, 60_000] {
            keys.extend((0..4).map(|n| key(first, length, n * 60)));
        }
    }
    keys.push(vec![2]);
    keys
}

fn filled(engine: &dyn Engine) -> Model {
    let model: Model = keys().into_iter().zip(0_u32..).map(|(k, n)| (k, value(n))).collect();
    // Not in order.
    let mut left: Vec<_> = model.iter().collect();
    left.sort_by_key(|(key, _)| key.iter().rev().copied().collect::<Vec<u8>>());
    for part in left.chunks(40) {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for (key, value) in part {
            txn.put_exclusive(Space::Index, key, value).expect("staged");
        }
        txn.commit(Durability::Synced).expect("commits");
    }
    model
}

fn value(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn walk(cursor: &mut dyn Cursor, mut found: bool, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    while found {
        seen.push((cursor.key().to_vec(), cursor.value().to_vec()));
        found = if forward { cursor.next() } else { cursor.prev() }.expect("moves");
    }
    seen
}

fn check(engine: &dyn Engine, model: &Model) {
    let cursor = |start: &[u8], end: &[u8]| {
        engine.latest().cursor(Space::Index, start, end).expect("a cursor")
    };
    let all: Vec<_> = model.clone().into_iter().collect();
    let mut whole = cursor(b"", b"");
    let found = whole.seek(b"").expect("seeks");
    assert!(walk(&mut *whole, found, true) == all, "forward");
    let found = whole.seek_back(b"").expect("seeks");
    let backward: Vec<_> = all.iter().rev().cloned().collect();
    assert!(walk(&mut *whole, found, false) == backward, "backward");
    let mut probes: Vec<Vec<u8>> = model.keys().step_by(3).cloned().collect();
    probes.extend(model.keys().step_by(7).map(|key| [key, &[0][..]].concat()));
    probes.extend(model.keys().step_by(5).map(|key| key[..key.len() - 1].to_vec()));
    probes.retain(|probe| !probe.is_empty());
    for probe in &probes {
        let expected = model.range::<Vec<u8>, _>(probe..).next().map(|(key, _)| key.clone());
        let found = whole.seek(probe).expect("seeks").then(|| whole.key().to_vec());
        assert!(found == expected, "seek");
        let mut fresh = cursor(b"", b"");
        let before = model.range::<Vec<u8>, _>(..probe).next_back().map(|(key, _)| key.clone());
        for cursor in [&mut whole, &mut fresh] {
            let found = cursor.seek_back(probe).expect("seeks").then(|| cursor.key().to_vec());
            assert!(found == before, "seek back");
        }
        // It turns.
        if whole.seek(probe).expect("seeks") && whole.prev().expect("moves") {
            assert!(Some(whole.key()) == before.as_deref());
            assert!(whole.next().expect("moves") && Some(whole.key()) == expected.as_deref());
        }
        assert!(get(engine.latest(), Space::Index, probe).as_ref() == model.get(probe));
    }
    for pair in probes.windows(2) {
        let (start, end) =
            (pair[0].clone().min(pair[1].clone()), pair[0].clone().max(pair[1].clone()));
        let expected: Vec<_> = model
            .range::<Vec<u8>, _>((Included(&start), Excluded(&end)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut part = cursor(&start, &end);
        let found = part.seek(b"").expect("seeks");
        assert!(walk(&mut *part, found, true) == expected, "a range forward");
        let found = part.seek_back(b"").expect("seeks");
        let expected: Vec<_> = expected.into_iter().rev().collect();
        assert!(walk(&mut *part, found, false) == expected, "a range backward");
    }
}

#[test]
fn cursors_keep_the_order_of_whole_keys() {
    let prefix = new_prefix();
    let own = engine(&prefix);
    let mut model = filled(&*own);
    check(&*own, &model);
    // Within groups, and between them.
    for at in [2, 20, 30] {
        let key = model.keys().nth(at).expect("a key");
        split(&[prefix.as_bytes(), &[0, 1, 2], &key[..key.len().min(6144)]].concat());
    }
    check(&*node(&prefix), &model);
    let gone: Vec<Vec<u8>> = model.keys().step_by(2).cloned().collect();
    let mut txn = own.begin(TxnOptions::default()).expect("begins");
    for key in &gone {
        txn.delete_exclusive(Space::Index, key).expect("staged");
        model.remove(key);
    }
    txn.commit(Durability::Synced).expect("commits");
    check(&*own, &model);
    own.drop_range(Space::Index, b"", b"").expect("drops");
    let mut cursor = own.latest().cursor(Space::Index, b"", b"").expect("a cursor");
    assert!(!cursor.seek(b"").expect("seeks"));
    let refused = own.drop_range(Space::Index, &[1; 7000], b"");
    assert!(matches!(refused, Err(Error::KeyTooLong(7000, _))), "{refused:?}");
}

/// A transaction sees its own long keys among those of the store; two transactions conflict at one.
#[test]
fn transactions_write_and_lock_long_keys() {
    let engine = engine(&new_prefix());
    let model = filled(&*engine);
    let mut txn =
        engine.begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() }).expect("begins");
    let new = key(3, 9000, 7);
    assert!(!model.contains_key(&new));
    assert_eq!(get(&*txn, Space::Index, &new), None);
    txn.put(Space::Index, &new, b"new").expect("staged");
    let mut cursor = txn.cursor(Space::Index, b"", b"").expect("a cursor");
    assert!(cursor.seek(&new).expect("seeks") && cursor.key() == new && cursor.value() == b"new");
    let after = model.range(new.clone()..).next().expect("there are more").0;
    assert!(cursor.next().expect("moves") && cursor.key() == after);
    drop(cursor);
    let mut other =
        engine.begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() }).expect("begins");
    assert_eq!(get(&*other, Space::Index, &new), None);
    other.put(Space::Index, &new, b"other").expect("staged");
    txn.commit(Durability::Synced).expect("commits");
    assert!(matches!(other.commit(Durability::Synced), Err(Error::Conflict)));
    let found = engine.latest().get_many(Space::Index, &[&new, b"none"], &mut |at, value| {
        assert_eq!((at == 0).then_some(&b"new"[..]), value);
    });
    found.expect("reads");
}
