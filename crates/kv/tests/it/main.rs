//! The memory engine under the conformance suite, random histories and injected faults.

use std::{io, sync::Arc};

use nagi_kv::{
    Capabilities, Durability, Engine, Error, Faults, Faulty, Maintenance as _, Memory, Minimal,
    Point, Space, TxnOptions, conformance,
};
use proptest::prelude::*;

fn memory() -> Arc<dyn Engine> {
    Arc::new(Memory::new())
}

#[test]
fn memory_keeps_the_contract() {
    conformance::run(&memory);
}

#[test]
fn the_minimal_engine_keeps_the_contract_and_promises_no_more() {
    conformance::run(&|| Arc::new(Minimal::new()));
    assert_eq!(Minimal::new().capabilities(), Capabilities::NONE);
}

#[test]
fn a_faulty_engine_without_faults_keeps_the_contract() {
    conformance::run(&|| Arc::new(Faulty::new(memory(), Faults::default())));
}

#[test]
fn faults_fire_where_and_when_they_are_armed() {
    let faults = Faults::default();
    let engine = Faulty::new(memory(), faults.clone());
    faults.arm(Point::Commit, 1, 1, || Error::Full);
    let commit = |key: &[u8]| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, key, b"v").expect("free");
        txn.commit(Durability::Synced)
    };
    assert!(commit(b"a").is_ok());
    assert!(matches!(commit(b"b"), Err(Error::Full)));
    assert!(commit(b"c").is_ok());
    faults.arm(Point::Get, 0, 1, || Error::Io(io::Error::other("disk")));
    let mut buf = Vec::new();
    assert!(matches!(engine.latest().get(Space::Records, b"a", &mut buf), Err(Error::Io(_))));
    assert!(matches!(engine.latest().get(Space::Records, b"b", &mut buf), Ok(None)));
    assert!(matches!(engine.latest().get(Space::Records, b"a", &mut buf), Ok(Some(b"v"))));
}

#[test]
fn old_versions_are_forgotten() {
    let engine = memory();
    let snapshot = engine.snapshot().expect("a snapshot");
    for round in 0..1000_u32 {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        let key = (round % 10 + 1).to_be_bytes();
        match round % 3 {
            0 => txn.delete(Space::Records, &key),
            _ => txn.put(Space::Records, &key, &[0; 100]),
        }
        .expect("free");
        txn.commit(Durability::Buffered).expect("commits");
    }
    drop(snapshot);
    for key in 1..=10_u32 {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.delete(Space::Records, &key.to_be_bytes()).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
    }
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Index, b"k", b"").expect("free");
    txn.commit(Durability::Buffered).expect("commits");
    engine.stats(&mut |name, value| {
        if name == "keys" {
            assert_eq!(value, 1, "only the last key is left");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_history_reads_like_a_sorted_map(bits in prop::collection::vec(any::<u64>(), 1..200)) {
        let steps: Vec<_> = bits.into_iter().map(conformance::Step::from_bits).collect();
        conformance::check_steps(&memory(), &steps);
    }
}

#[test]
fn a_full_memory_refuses_what_grows_and_lets_go() {
    let engine = Memory::with_limit(1 << 20);
    let write = |key: u32, value: Option<&[u8]>| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        match value {
            Some(value) => txn.put(Space::Records, &key.to_be_bytes(), value).expect("free"),
            None => txn.delete(Space::Records, &key.to_be_bytes()).expect("free"),
        }
        txn.commit(Durability::Buffered)
    };
    let fill = |from: u32| (from..).find(|key| write(*key, Some(&[1; 1000])).is_err());
    let full = fill(0).expect("some write is refused");
    assert!((800..1048).contains(&full), "{full}");
    assert!(matches!(write(full, Some(&[1; 1000])), Err(Error::MemoryFull)));
    for key in 0..full / 2 {
        write(key, None).expect("deleting needs no capacity");
    }
    let again = fill(full).expect("some write is refused");
    assert!(again - full >= full / 2 - 2, "what was deleted is free: {again}");
    engine.drop_range(Space::Records, &[], &[]).expect("drops");
    assert!(fill(0).expect("some write is refused") >= full - 2);
}
