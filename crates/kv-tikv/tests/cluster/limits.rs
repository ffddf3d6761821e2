//! Sizes: of keys, values, transactions; pieces of large values.

use std::time::Duration;

use nagi_kv::{Durability, Engine, Error, Maintenance as _, Space, TxnOptions};
use nagi_kv_tikv::{Options, open};

use crate::cluster::{engine, get, new_prefix, options, put, stat};

#[test]
fn the_longest_keys_and_values_are_stored() {
    let engine = engine(&new_prefix());
    let limits = engine.limits();
    for byte in [0, 255] {
        let key = vec![byte; limits.key_bytes_max];
        let value: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        put(&*engine, Space::Records, &key, &value);
        assert!(get(&*engine, Space::Records, &key) == Some(value));
    }
    // The largest document of MongoDB; the store of these tests does not stand 32 MiB.
    let largest = vec![7; 16 << 20];
    put(&*engine, Space::Records, b"k", &largest);
    assert!(get(&*engine, Space::Records, b"k") == Some(largest));
}

#[test]
fn what_is_too_large_is_refused_before_the_store_sees_it() {
    let engine = engine(&new_prefix());
    let limits = engine.limits();
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    let long = vec![1; limits.key_bytes_max + 1];
    assert!(matches!(txn.put(Space::Records, &long, b""), Err(Error::KeyTooLong(..))));
    assert!(matches!(txn.delete(Space::Records, &long), Err(Error::KeyTooLong(..))));
    assert!(matches!(txn.lock(Space::Records, &long), Err(Error::KeyTooLong(..))));
    let large = vec![1; limits.value_bytes_max + 1];
    assert!(matches!(txn.put(Space::Records, b"k", &large), Err(Error::Io(_))));
    let large = vec![1; (64 << 10) + 1];
    assert!(matches!(txn.put(Space::Counters, b"k", &large), Err(Error::Io(_))));
    drop(txn);
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    let part = vec![1; 8 << 20];
    let staged = (1..=20_u8).find(|n| txn.put(Space::Records, &[*n], &part).is_err());
    assert_eq!(staged, Some(8), "64 MiB are not exceeded");
    assert!(matches!(txn.put(Space::Records, &[99], &part), Err(Error::MemoryFull)));
    drop(txn);
    assert_eq!(stat(&*engine, "commits"), 1, "only the version of the format");
    assert_eq!(get(&*engine, Space::Records, &[1]), None);
}

/// A value that shrinks, is deleted, or is replaced leaves no pieces behind, whether it was read before or not.
#[test]
fn pieces_end_with_their_value() {
    let large = vec![7; 3 << 20];
    let small = b"small".to_vec();
    for (second, reads) in
        [(Some(&small), false), (Some(&small), true), (None, false), (None, true)]
    {
        let engine = engine(&new_prefix());
        put(&*engine, Space::Records, b"k", &large);
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        if reads {
            assert!(get(&*txn, Space::Records, b"k").as_ref() == Some(&large));
        }
        match second {
            Some(value) => txn.put(Space::Records, b"k", value).expect("staged"),
            None => txn.delete(Space::Records, b"k").expect("staged"),
        }
        txn.commit(Durability::Buffered).expect("commits");
        assert_eq!(get(&*engine, Space::Records, b"k").as_ref(), second);
        let size = engine.approximate_size(Space::Records, &[], &[]).expect("a size");
        assert!(size < 100, "{size} bytes are left");
    }
    let engine = engine(&new_prefix());
    put(&*engine, Space::Records, b"k", &large);
    assert!(engine.approximate_size(Space::Records, &[], &[]).expect("a size") > 3 << 20);
    engine.drop_range(Space::Records, b"k", b"l").expect("drops");
    assert_eq!(engine.approximate_size(Space::Records, &[], &[]).expect("a size"), 0);
}

/// A key that its own transaction has deleted is new, but its pieces are there.
#[test]
fn pieces_of_a_deleted_value_end_when_its_key_is_put_anew() {
    for reads in [false, true] {
        let engine = engine(&new_prefix());
        put(&*engine, Space::Records, b"k", &vec![7; 3 << 20]);
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        if reads {
            get(&*txn, Space::Records, b"k");
        }
        txn.delete(Space::Records, b"k").expect("staged");
        txn.put_new(Space::Records, b"k", b"small").expect("staged");
        txn.commit(Durability::Buffered).expect("commits");
        assert_eq!(get(&*engine, Space::Records, b"k").as_deref(), Some(&b"small"[..]));
        let size = engine.approximate_size(Space::Records, &[], &[]).expect("a size");
        assert!(size < 100, "{size} bytes are left");
    }
}

#[test]
fn a_snapshot_ends_before_the_store_removes_its_versions() {
    let options = Options { snapshot_age_max: Duration::ZERO, ..options(&new_prefix()) };
    let engine = open(&options).expect("opens");
    assert_eq!(engine.limits().snapshot_age_ms_max, Some(0));
    let mut buf = Vec::new();
    let read = engine.latest().get(Space::Records, b"k", &mut buf).map(|_| ());
    assert!(matches!(read, Err(Error::SnapshotTooOld)), "{read:?}");
    let mut cursor = engine.latest().cursor(Space::Records, b"", b"").expect("a cursor");
    assert!(matches!(cursor.seek(b""), Err(Error::SnapshotTooOld)));
}
