//! Gets, snapshots, read-your-writes, savepoints.

use std::sync::Arc;

use super::{Check, begin, commit, get, put, scan};
use crate::{Durability, Engine, Space};

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

/// Spaces of records may share a table, so each gets keys of its own here, as idents are.
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
    txn.delete(Space::Records, b"k").expect("nobody holds the key");
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
    // A cursor owns its state: it outlives the snapshot.
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
    txn.append(Space::Changes, b"x").expect("appends");
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
    txn.append(Space::Changes, b"x").expect("appends");
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

fn synced_commits_return(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    txn.put(Space::Records, b"a", b"1").expect("free");
    let stamp = txn.commit(Durability::Synced).expect("commits");
    assert_eq!(engine.last_stamp(), stamp);
}
