//! Gets, snapshots, read-your-writes, savepoints.

use std::sync::Arc;

use super::{Check, begin, commit, get, put, scan};
use crate::{Durability, Engine, Read, Space, Txn};

pub(super) static POINTS: &[Check] = &[
    spaces_are_apart,
    records_keep_to_their_compressors,
    values_of_every_size,
    latest_sees_every_commit,
    snapshots_do_not_move,
    snapshot_reads_are_repeatable_in_a_transaction,
    transactions_see_their_own_writes,
    dropped_transactions_leave_nothing,
    savepoints_undo,
    stamps_grow,
    many_keys_at_once,
    many_keys_in_any_order,
    many_keys_of_a_transaction,
    many_keys_of_a_snapshot,
    many_large_values_at_once,
    fetched_keys_read_as_others,
    synced_commits_return,
];

fn spaces_are_apart(engine: &Arc<dyn Engine>) {
    for space in Space::CORE {
        put(engine, space, b"k", space.name().as_bytes());
    }
    for space in Space::CORE {
        assert_eq!(get(engine.latest(), space, b"k").as_deref(), Some(space.name().as_bytes()));
        assert_eq!(scan(engine.latest(), space, b"", b"").len(), 1);
    }
}

/// Spaces of records may share a table, so each gets keys of its own here, like idents.
fn records_keep_to_their_compressors(engine: &Arc<dyn Engine>) {
    let before = engine.snapshot().expect("a snapshot");
    for (n, space) in (0_u8..).zip(Space::BY_COMPRESSOR) {
        assert_eq!(get(engine.latest(), space, &[n, 1]), None, "a space that was never used");
        assert!(scan(engine.latest(), space, &[n], &[n + 1]).is_empty());
        assert_eq!(engine.approximate_size(space, &[n], &[n + 1]).expect("a size"), 0);
        engine.drop_range(space, &[n], &[n + 1]).expect("nothing to drop");
        engine.compact(space, &[n], &[n + 1]).expect("nothing to compact");
        let mut txn = begin(engine);
        txn.put(space, &[n, 1], &[b'x'; 3000]).expect("free");
        txn.put(space, &[n, 2], b"two").expect("free");
        assert_eq!(get(&*txn, space, &[n, 2]).as_deref(), Some(&b"two"[..]));
        commit(txn);
    }
    for (n, space) in (0_u8..).zip(Space::BY_COMPRESSOR) {
        assert_eq!(get(engine.latest(), space, &[n, 1]), Some(vec![b'x'; 3000]));
        assert_eq!(scan(engine.latest(), space, &[n], &[n + 1]).len(), 2);
        assert!(scan(&*before, space, &[n], &[n + 1]).is_empty(), "a state before it all");
        engine.drop_range(space, &[n, 2], &[n + 1]).expect("drops");
        engine.compact(space, &[n], &[n + 1]).expect("compacts");
        assert_eq!(scan(engine.latest(), space, &[n], &[n + 1]).len(), 1);
    }
}

fn values_of_every_size(engine: &Arc<dyn Engine>) {
    for bytes in [0, 1, 1000, 70_000, 17 << 20] {
        let value: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        put(engine, Space::Records, b"big", &value);
        assert_eq!(get(engine.latest(), Space::Records, b"big"), Some(value.clone()));
        assert_eq!(scan(engine.latest(), Space::Records, b"", b""), [(b"big".to_vec(), value)]);
    }
    let key = vec![0xff; 4000];
    put(engine, Space::Index, &key, b"");
    assert_eq!(get(engine.latest(), Space::Index, &key), Some(Vec::new()));
}

fn latest_sees_every_commit(engine: &Arc<dyn Engine>) {
    assert_eq!(get(engine.latest(), Space::Records, b"k"), None);
    for n in 0..100_u8 {
        put(engine, Space::Records, b"k", &[n]);
        assert_eq!(get(engine.latest(), Space::Records, b"k"), Some(vec![n]));
    }
    let mut txn = begin(engine);
    txn.delete(Space::Records, b"k").expect("no transaction holds the key");
    commit(txn);
    assert_eq!(get(engine.latest(), Space::Records, b"k"), None);
}

fn snapshots_do_not_move(engine: &Arc<dyn Engine>) {
    let stamp = put(engine, Space::Records, b"a", b"1");
    let snapshot = engine.snapshot().expect("a snapshot");
    assert!(snapshot.stamp().0 >= stamp);
    put(engine, Space::Records, b"a", b"2");
    put(engine, Space::Records, b"b", b"2");
    for n in 0..200 {
        put(engine, Space::Records, b"a", &[n]);
    }
    assert_eq!(get(&*snapshot, Space::Records, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(scan(&*snapshot, Space::Records, b"", b""), [(b"a".to_vec(), b"1".to_vec())]);
    // A cursor owns its snapshot, so it outlives the snapshot handle.
    let mut cursor = snapshot.cursor(Space::Records, b"", b"").expect("a cursor");
    drop(snapshot);
    assert!(cursor.seek(b"a").expect("seek"));
    assert_eq!(cursor.value(), b"1");
    assert!(!cursor.next().expect("next"));
}

fn snapshot_reads_are_repeatable_in_a_transaction(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"a", b"1");
    let txn = begin(engine);
    assert_eq!(get(&*txn, Space::Records, b"a").as_deref(), Some(&b"1"[..]));
    put(engine, Space::Records, b"a", b"2");
    put(engine, Space::Records, b"b", b"2");
    assert_eq!(get(&*txn, Space::Records, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&*txn, Space::Records, b"b"), None);
    assert_eq!(scan(&*txn, Space::Records, b"", b"").len(), 1);
}

fn transactions_see_their_own_writes(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"a", b"1");
    put(engine, Space::Records, b"b", b"1");
    let mut txn = begin(engine);
    txn.put(Space::Records, b"a", b"2").expect("free");
    txn.delete(Space::Records, b"b").expect("free");
    txn.put(Space::Records, b"c", b"2").expect("free");
    assert_eq!(get(&*txn, Space::Records, b"a").as_deref(), Some(&b"2"[..]));
    assert_eq!(get(&*txn, Space::Records, b"b"), None);
    let mut seen = Vec::new();
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    txn.get_many(Space::Records, &keys, &mut |_, value| seen.push(value.map(<[u8]>::to_vec)))
        .expect("reads succeed");
    assert_eq!(seen, [Some(b"2".to_vec()), None, Some(b"2".to_vec()), None]);
    assert_eq!(get(engine.latest(), Space::Records, b"c"), None, "not committed yet");
    commit(txn);
    assert_eq!(get(engine.latest(), Space::Records, b"c").as_deref(), Some(&b"2"[..]));
    assert_eq!(get(engine.latest(), Space::Records, b"b"), None);
}

fn dropped_transactions_leave_nothing(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    txn.put(Space::Records, b"a", b"1").expect("free");
    txn.add(Space::Counters, b"c", &[1]).expect("adds");
    txn.append(Space::Changes, b"x", false).expect("appends");
    drop(txn);
    for space in Space::ALL {
        assert!(scan(engine.latest(), space, b"", b"").is_empty());
    }
    put(engine, Space::Records, b"a", b"free again");
}

fn savepoints_undo(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    txn.put(Space::Records, b"a", b"1").expect("free");
    txn.add(Space::Counters, b"c", &[1]).expect("adds");
    let mark = txn.savepoint();
    txn.put(Space::Records, b"a", b"2").expect("free");
    txn.put(Space::Records, b"b", b"2").expect("free");
    txn.add(Space::Counters, b"c", &[10]).expect("adds");
    txn.append(Space::Changes, b"x", false).expect("appends");
    assert!(txn.staged_bytes() > 0);
    txn.rollback_to(mark);
    assert_eq!(get(&*txn, Space::Records, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&*txn, Space::Records, b"b"), None);
    commit(txn);
    assert_eq!(scan(engine.latest(), Space::Records, b"", b"").len(), 1);
    assert_eq!(get(engine.latest(), Space::Counters, b"c"), Some(1_i64.to_le_bytes().to_vec()));
    assert!(scan(engine.latest(), Space::Changes, b"", b"").is_empty());
}

fn stamps_grow(engine: &Arc<dyn Engine>) {
    let mut last = engine.last_stamp().0;
    for n in 0..50_u8 {
        let stamp = put(engine, Space::Records, &[n % 3 + 1], &[n]);
        assert!(stamp > last, "stamps grow in commit order");
        assert_eq!(engine.last_stamp().0, stamp);
        last = stamp;
    }
    assert_eq!(commit(begin(engine)), last, "a commit of nothing has the newest stamp");
}

fn many_keys_at_once(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    for n in 0..1000_u32 {
        txn.put(Space::Records, &(n * 2).to_be_bytes(), &n.to_le_bytes()).expect("free");
    }
    commit(txn);
    let names: Vec<[u8; 4]> = (0..2000_u32).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = names.iter().map(<[u8; 4]>::as_slice).collect();
    let mut next = 0;
    let mut visit = |index: usize, value: Option<&[u8]>| {
        assert_eq!(index, next, "each key once, in order");
        let expected = index.is_multiple_of(2).then(|| (index as u32 / 2).to_le_bytes());
        assert_eq!(value, expected.as_ref().map(<[u8; 4]>::as_slice));
        next += 1;
    };
    engine.latest().get_many(Space::Records, &keys, &mut visit).expect("reads succeed");
    assert_eq!(next, 2000);
}

/// The result of a batched read of the keys.
fn many(read: &(impl Read + ?Sized), space: Space, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut seen = Vec::new();
    let mut visit = |index: usize, value: Option<&[u8]>| {
        assert_eq!(index, seen.len(), "each key once, in order");
        seen.push(value.map(<[u8]>::to_vec));
    };
    read.get_many(space, keys, &mut visit).expect("reads succeed");
    seen
}

/// No key, one, the same one twice, descending keys, missing keys, and an empty value.
fn many_keys_in_any_order(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"a", b"1");
    put(engine, Space::Records, b"b", b"");
    put(engine, Space::Records, b"ba", b"3");
    let latest = engine.latest();
    let found = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(many(latest, Space::Records, &[]), []);
    assert_eq!(many(latest, Space::Records, &[b"a"]), [found("1")]);
    assert_eq!(many(latest, Space::Records, &[b"x"]), [None]);
    let twice: [&[u8]; 5] = [b"a", b"a", b"b", b"x", b"x"];
    assert_eq!(
        many(latest, Space::Records, &twice),
        [found("1"), found("1"), found(""), None, None]
    );
    let mixed: [&[u8]; 6] = [b"x", b"ba", b"a", b"b", b"0", b"ba"];
    assert_eq!(
        many(latest, Space::Records, &mixed),
        [None, found("3"), found("1"), found(""), None, found("3")]
    );
    assert_eq!(many(latest, Space::Index, &twice), [const { None }; 5], "spaces are apart");
    // More keys than an engine reads in one batch, in descending order, and each twice.
    let names: Vec<[u8; 4]> =
        (0..300_u32).rev().flat_map(|n| [n.to_be_bytes(), n.to_be_bytes()]).collect();
    let mut txn = begin(engine);
    for n in (0..300_u32).step_by(3) {
        txn.put(Space::Index, &n.to_be_bytes(), &n.to_le_bytes()).expect("free");
    }
    commit(txn);
    let keys: Vec<&[u8]> = names.iter().map(<[u8; 4]>::as_slice).collect();
    for (at, value) in many(latest, Space::Index, &keys).into_iter().enumerate() {
        let n = 299 - at as u32 / 2;
        assert_eq!(value, n.is_multiple_of(3).then(|| n.to_le_bytes().to_vec()), "{n}");
    }
}

/// A fetch changes nothing that can be read.
fn fetched_keys_read_as_others(engine: &Arc<dyn Engine>) {
    let keys: [&[u8]; 4] = [b"a", b"b", b"large", b"none"];
    let large = vec![7; 100 << 10];
    for (key, value) in keys.into_iter().zip([&b"1"[..], b"1", &large]) {
        put(engine, Space::Records, key, value);
    }
    let mut txn = begin(engine);
    assert_eq!(get(&*txn, Space::Records, b"other"), None, "its state is that of now");
    txn.fetch(Space::Records, &keys).expect("reads");
    txn.fetch(Space::Records, &[]).expect("nothing to read");
    let found = |text: &str| Some(text.as_bytes().to_vec());
    let before = [found("1"), found("1"), Some(large), None];
    let read = |txn: &dyn Txn| keys.map(|key| get(txn, Space::Records, key));
    assert_eq!(read(&*txn), before);
    put(engine, Space::Records, b"a", b"later");
    assert_eq!(read(&*txn), before, "its own state");
    assert_eq!(many(&*txn, Space::Records, &keys), before);
    assert_eq!(get(&*txn, Space::Index, b"a"), None, "spaces are apart");
    let mark = txn.savepoint();
    txn.put(Space::Records, b"none", b"own").expect("free");
    txn.delete(Space::Records, b"b").expect("free");
    assert_eq!(read(&*txn)[1..], [None, before[2].clone(), found("own")]);
    txn.rollback_to(mark);
    assert_eq!(read(&*txn), before);
    txn.lock(Space::Records, b"b").expect("free");
    txn.put(Space::Records, b"b", b"2").expect("locked");
    commit(txn);
    let latest = keys.map(|key| get(engine.latest(), Space::Records, key));
    assert_eq!(latest, [found("later"), found("2"), before[2].clone(), None]);
}

/// A transaction's own writes hide committed values; those of others are invisible.
fn many_keys_of_a_transaction(engine: &Arc<dyn Engine>) {
    for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"d", b"1")] {
        put(engine, Space::Records, key, value);
    }
    let mut other = begin(engine);
    other.add(Space::Counters, b"n", &[5]).expect("adds");
    commit(other);
    let mut txn = begin(engine);
    let keys: [&[u8]; 7] = [b"e", b"d", b"c", b"b", b"a", b"a", b"z"];
    let found = |text: &str| Some(text.as_bytes().to_vec());
    let one = || found("1");
    let before = [None, one(), one(), one(), one(), one(), None];
    assert_eq!(many(&*txn, Space::Records, &keys), before);
    put(engine, Space::Records, b"d", b"later");
    put(engine, Space::Records, b"z", b"later");
    assert_eq!(many(&*txn, Space::Records, &keys), before, "its own state");
    txn.put(Space::Records, b"a", b"own").expect("free");
    txn.put(Space::Records, b"e", b"").expect("free");
    txn.delete(Space::Records, b"b").expect("free");
    txn.add(Space::Counters, b"n", &[2]).expect("adds");
    txn.add(Space::Counters, b"m", &[7]).expect("adds");
    let after = [found(""), one(), one(), None, found("own"), found("own"), None];
    assert_eq!(many(&*txn, Space::Records, &keys), after);
    assert_eq!(many(&*txn, Space::Records, &[]), []);
    let sum = |n: i64| Some(n.to_le_bytes().to_vec());
    let counters: [&[u8]; 3] = [b"n", b"m", b"none"];
    assert_eq!(many(&*txn, Space::Counters, &counters), [sum(7), sum(7), None]);
    let mark = txn.savepoint();
    txn.delete(Space::Records, b"a").expect("free");
    txn.put(Space::Records, b"b", b"back").expect("free");
    assert_eq!(many(&*txn, Space::Records, &[b"a", b"b"]), [None, found("back")]);
    txn.rollback_to(mark);
    assert_eq!(many(&*txn, Space::Records, &keys), after, "as before what was undone");
    drop(txn);
    let latest = [None, found("later"), one(), one(), one(), one(), found("later")];
    assert_eq!(many(engine.latest(), Space::Records, &keys), latest);
}

fn many_keys_of_a_snapshot(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"a", b"1");
    put(engine, Space::Records, b"b", b"1");
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut txn = begin(engine);
    txn.put(Space::Records, b"a", b"2").expect("free");
    txn.delete(Space::Records, b"b").expect("free");
    txn.put(Space::Records, b"c", b"2").expect("free");
    commit(txn);
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let found = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(many(&*snapshot, Space::Records, &keys), [found("1"), found("1"), None]);
    assert_eq!(many(engine.latest(), Space::Records, &keys), [found("2"), None, found("2")]);
}

/// Values larger than any cache and page, among small ones.
fn many_large_values_at_once(engine: &Arc<dyn Engine>) {
    let sizes = [3, 1 << 20, 0, 70_000, 5 << 20, 100];
    let mut txn = begin(engine);
    for (n, size) in (0_u8..).zip(sizes) {
        txn.put(Space::Records, &[n + 1], &vec![n; size]).expect("free");
    }
    commit(txn);
    let names: Vec<[u8; 1]> = (1..=sizes.len() as u8 + 1).rev().map(|n| [n]).collect();
    let keys: Vec<&[u8]> = names.iter().map(<[u8; 1]>::as_slice).collect();
    let mut expected: Vec<Option<Vec<u8>>> =
        (0_u8..).zip(sizes).map(|(n, size)| Some(vec![n; size])).collect();
    expected.push(None);
    expected.reverse();
    assert!(many(engine.latest(), Space::Records, &keys) == expected, "every byte");
}

fn synced_commits_return(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    txn.put(Space::Records, b"a", b"1").expect("free");
    let stamp = txn.commit(Durability::Synced).expect("commits");
    assert_eq!(engine.last_stamp(), stamp);
}
