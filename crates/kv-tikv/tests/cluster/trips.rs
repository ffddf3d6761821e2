//! Round trips of each operation, as they arrive at the store and the oracle: counted, so that none is added unnoticed.
//! The table is in docs/scale-out.md.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use nagi_kv::{Batch, Durability, Engine, Read, Space, Txn, TxnOptions};
use nagi_kv_tikv::Tikv;

use crate::cluster::{calls, engine, get, new_prefix, put, split, stat};

const SETTLED: Duration = Duration::from_secs(5);

/// Requests that arrive while an operation runs, "3 timestamps, KvGet 1". `expected` may name requests that arrive
/// only after the operation has returned: the second phase of a commit of several keys.
pub(crate) fn check(engine: &Tikv, what: &str, expected: &str, operation: impl FnOnce()) {
    let (before, timestamps) = (calls(), stat(engine, "timestamps"));
    operation();
    let end = Instant::now() + SETTLED;
    loop {
        let taken = stat(engine, "timestamps") - timestamps;
        let seen = text(taken, &before, &calls());
        if seen == expected {
            return;
        }
        assert!(Instant::now() < end, "{what}: {seen}\nexpected: {expected}");
    }
}

/// The requests that have arrived when an operation returns.
pub(crate) fn counted(engine: &Tikv, operation: impl FnOnce()) -> String {
    let (before, timestamps) = (calls(), stat(engine, "timestamps"));
    operation();
    text(stat(engine, "timestamps") - timestamps, &before, &calls())
}

fn text(timestamps: i64, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> String {
    let mut parts = vec![format!("{timestamps} timestamps")];
    for (method, count) in after {
        let new = count - before.get(method).copied().unwrap_or_default();
        if new > 0 {
            parts.push(format!("{method} {new}"));
        }
    }
    parts.join(", ")
}

fn begin(engine: &Tikv) -> Box<dyn Txn> {
    engine.begin(TxnOptions::default()).expect("begins")
}

fn commit(txn: Box<dyn Txn>) {
    txn.commit(Durability::Synced).expect("commits");
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn filled(entries: u32) -> std::sync::Arc<Tikv> {
    let engine = engine(&new_prefix());
    let mut left = entries;
    let loaded = nagi_kv::Maintenance::load(&*engine, Space::Index, &mut |into, value| {
        into.clear();
        value.clear();
        into.extend_from_slice(&key(left));
        value.extend_from_slice(b"value");
        left = left.wrapping_sub(1);
        Ok(left != u32::MAX)
    });
    loaded.expect("loads");
    // Locks of the load's second phases end when its keys are read.
    let mut cursor = engine.latest().cursor(Space::Index, b"", b"").expect("a cursor");
    let mut found = cursor.seek(b"").expect("seeks");
    while found {
        found = cursor.next().expect("moves");
    }
    engine
}

#[test]
fn reads_take_these_round_trips() {
    let engine = filled(10_000);
    let seek = |entries: usize| {
        let mut cursor = engine.latest().cursor(Space::Index, b"", b"").expect("a cursor");
        assert!(cursor.seek(b"").expect("seeks"));
        let (mut batch, mut seen) = (Batch::default(), 0);
        while seen < entries {
            cursor.next_batch(entries - seen, 1 << 20, &mut batch).expect("a batch");
            seen += batch.len();
        }
    };
    check(&engine, "a get of the newest", "1 timestamps, KvGet 1", || {
        get(&*engine, Space::Index, &key(7)).expect("it is there");
    });
    check(&engine, "two gets of a snapshot", "1 timestamps, KvGet 2", || {
        let snapshot = engine.snapshot().expect("a snapshot");
        get(&*snapshot, Space::Index, &key(7)).expect("it is there");
        get(&*snapshot, Space::Index, &key(8)).expect("it is there");
    });
    check(&engine, "100 keys at once", "1 timestamps, KvBatchGet 1", || {
        let names: Vec<[u8; 4]> = (1..=100).map(key).collect();
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 4]>::as_slice).collect();
        engine.get_many(Space::Index, &keys, &mut |_, _| {}).expect("reads");
    });
    check(&engine, "a seek", "1 timestamps, KvScan 1", || seek(1));
    check(&engine, "a scan of 100", "1 timestamps, KvScan 1", || seek(100));
    check(&engine, "a scan of 10,000", "1 timestamps, KvScan 21", || seek(10_000));
    check(&engine, "seeks and turns within a page", "1 timestamps, KvScan 1", || {
        let mut cursor = engine.latest().cursor(Space::Index, b"", b"").expect("a cursor");
        assert!(cursor.seek(&key(50)).expect("seeks") && cursor.next().expect("moves"));
        assert!(cursor.prev().expect("moves") && cursor.seek(&key(60)).expect("seeks"));
        assert!(cursor.seek_back(&key(55)).expect("seeks"));
        assert_eq!(cursor.key(), key(54));
    });
}

#[test]
fn writes_take_these_round_trips() {
    let engine = filled(10);
    let put_commit = "1 timestamps, KvBatchGet 1, KvPrewrite 1";
    check(&engine, "a put without a read", put_commit, || {
        put(&*engine, Space::Records, b"a", b"1");
    });
    check(&engine, "a transaction that only reads", "1 timestamps, KvGet 1", || {
        let txn = begin(&engine);
        get(&*txn, Space::Records, b"a").expect("it is there");
        commit(txn);
    });
    check(&engine, "a transaction that does nothing", "0 timestamps", || commit(begin(&engine)));
    check(&engine, "a dropped transaction", "1 timestamps", || {
        begin(&engine).put(Space::Records, b"a", b"2").expect("staged");
    });
    let update = "1 timestamps, KvGet 1, KvPrewrite 1";
    check(&engine, "an update of a value that was read", update, || {
        let mut txn = begin(&engine);
        txn.lock(Space::Records, b"a").expect("noted");
        get(&*txn, Space::Records, b"a").expect("it is there");
        txn.put(Space::Records, b"a", b"2").expect("staged");
        commit(txn);
    });
    let insert = "1 timestamps, KvGet 1, KvPrewrite 1";
    check(&engine, "an insert with two index keys", insert, || {
        let mut txn = begin(&engine);
        assert_eq!(get(&*txn, Space::Records, b"new"), None);
        txn.put(Space::Records, b"new", &[7; 500]).expect("staged");
        // Values of index entries have no pieces, so these need not be read.
        txn.put_exclusive(Space::Index, b"x new", b"").expect("staged");
        txn.put_exclusive(Space::Index, b"y new", b"").expect("staged");
        commit(txn);
    });
    check(&engine, "a delete without a read", put_commit, || {
        let mut txn = begin(&engine);
        txn.delete(Space::Records, b"a").expect("staged");
        commit(txn);
    });
    let unread = "1 timestamps, KvPrewrite 1";
    check(&engine, "a put in a space of small values", unread, || {
        put(&*engine, Space::Counters, b"fence", b"1");
    });
    check(&engine, "a put of a new key", unread, || {
        let mut txn = begin(&engine);
        txn.put_new(Space::Records, b"unread", b"1").expect("staged");
        commit(txn);
    });
    check(&engine, "two gets of fetched keys", "1 timestamps, KvBatchGet 1", || {
        let mut txn = begin(&engine);
        txn.fetch(Space::Records, &[b"a", b"none"]).expect("reads");
        get(&*txn, Space::Records, b"a");
        assert_eq!(get(&*txn, Space::Records, b"none"), None);
    });
    check(&engine, "an addition to a counter", put_commit, || {
        let mut txn = begin(&engine);
        txn.add(Space::Counters, b"c", &[1]).expect("staged");
        commit(txn);
    });
}

#[test]
fn large_values_take_these_round_trips() {
    let engine = engine(&new_prefix());
    // Each piece is a message of its own, so there are two phases; the second phase has keys only.
    let write = "1 timestamps, KvBatchGet 1, KvCommit 2, KvPrewrite 5";
    check(&engine, "a put of 2 MiB", write, || {
        put(&*engine, Space::Records, b"large", &vec![7; 2 << 20]);
    });
    // The locks of the second phase end.
    get(&*engine, Space::Records, b"large").expect("it is there");
    check(&engine, "a get of 2 MiB", "1 timestamps, KvBatchGet 1, KvGet 1", || {
        get(&*engine, Space::Records, b"large").expect("it is there");
    });
    check(&engine, "a get of nothing", "1 timestamps, KvGet 1", || {
        assert_eq!(get(&*engine, Space::Records, b"none"), None);
    });
}

/// One phase needs all keys in one region.
#[test]
fn commits_over_regions_take_a_second_phase() {
    let prefix = new_prefix();
    let engine = engine(&prefix);
    put(&*engine, Space::Index, b"m", b"");
    // The stored key: see the layout in docs/decisions/096.
    split(&[prefix.as_bytes(), &[0, 1, 2], b"m"].concat());
    let both = |value: &[u8]| {
        let mut txn = begin(&engine);
        txn.put(Space::Index, b"a", value).expect("staged");
        txn.put(Space::Index, b"z", value).expect("staged");
        commit(txn);
    };
    // Learns of the split.
    both(b"1");
    get(&*engine, Space::Index, b"z").expect("it is there");
    check(&engine, "a commit over two regions", "1 timestamps, KvCommit 2, KvPrewrite 2", || {
        both(b"2");
    });
    check(&engine, "a commit in one of them", "1 timestamps, KvPrewrite 1", || {
        put(&*engine, Space::Index, b"z", b"3");
    });
}
