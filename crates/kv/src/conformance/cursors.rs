//! Cursors: bounds, both directions, turns, staged writes over committed ones.

use std::sync::Arc;

use super::{Check, begin, commit, keys, put, scan};
use crate::{Engine, Space};

pub(super) static POINTS: &[Check] =
    &[bounds_hold, seeks_land, directions_turn, staged_writes_are_merged, empty_ranges, several];

fn fill(engine: &Arc<dyn Engine>, names: &[&[u8]]) {
    for name in names {
        put(engine, Space::Index, name, b"base");
    }
}

/// Cursors that are moved in turn, and told of their seeks before, see the same as one alone.
fn several(engine: &Arc<dyn Engine>) {
    for n in 0..300_u16 {
        put(engine, Space::Index, &n.to_be_bytes(), b"value");
    }
    let snapshot = engine.snapshot().expect("a snapshot");
    let bounds = [0_u16, 100, 200, 300].map(u16::to_be_bytes);
    let ranges: Vec<(&[u8], &[u8])> =
        bounds.windows(2).map(|pair| (&pair[0][..], &pair[1][..])).collect();
    let open = |(start, end): &(&[u8], &[u8])| {
        snapshot.cursor_among(ranges.len(), Space::Index, start, end).expect("a cursor")
    };
    for forward in [true, false] {
        let mut cursors: Vec<_> = ranges.iter().map(open).collect();
        cursors.iter_mut().for_each(|cursor| cursor.prepare(&[], forward));
        for cursor in &mut cursors {
            assert!(if forward { cursor.seek(&[]) } else { cursor.seek_back(&[]) }.expect("seeks"));
        }
        for step in 0..100_u16 {
            for (at, cursor) in cursors.iter_mut().enumerate() {
                let first = at as u16 * 100;
                let key = if forward { first + step } else { first + 99 - step };
                assert_eq!(cursor.key(), key.to_be_bytes());
                let more = if forward { cursor.next() } else { cursor.prev() }.expect("moves");
                assert_eq!(more, step < 99);
            }
        }
        // What was told need not come true.
        let cursor = &mut cursors[1];
        cursor.prepare(&150_u16.to_be_bytes(), forward);
        assert!(cursor.seek(&120_u16.to_be_bytes()).expect("seeks"));
        assert_eq!(cursor.key(), 120_u16.to_be_bytes());
        cursor.prepare(&150_u16.to_be_bytes(), !forward);
        assert!(cursor.seek_back(&150_u16.to_be_bytes()).expect("seeks"));
        assert_eq!(cursor.key(), 149_u16.to_be_bytes());
    }
}

fn bounds_hold(engine: &Arc<dyn Engine>) {
    fill(engine, &[b"a", b"b", b"ba", b"c", b"d", b"\xff\xff"]);
    let latest = engine.latest();
    assert_eq!(keys(&scan(latest, Space::Index, b"b", b"d")), [&b"b"[..], b"ba", b"c"]);
    assert_eq!(keys(&scan(latest, Space::Index, b"bb", b"")), [&b"c"[..], b"d", b"\xff\xff"]);
    assert_eq!(keys(&scan(latest, Space::Index, b"", b"b")), [&b"a"[..]]);
    let mut cursor = latest.cursor(Space::Index, b"b", b"d").expect("a cursor");
    assert!(cursor.seek(b"a").expect("seek"), "a seek before the range lands on its first key");
    assert_eq!(cursor.key(), b"b");
    assert!(!cursor.seek(b"d").expect("seek"));
    assert!(cursor.seek_back(b"z").expect("seek"), "beyond the range: its last key");
    assert_eq!(cursor.key(), b"c");
    assert!(cursor.seek_back(b"").expect("seek"), "an empty key: the last of all");
    assert_eq!(cursor.key(), b"c");
    assert!(!cursor.seek_back(b"b").expect("seek"));
    assert!(cursor.key().is_empty() && cursor.value().is_empty());
}

fn seeks_land(engine: &Arc<dyn Engine>) {
    fill(engine, &[b"b", b"d"]);
    let mut cursor = engine.latest().cursor(Space::Index, b"", b"").expect("a cursor");
    for (key, at) in [(&b"a"[..], &b"b"[..]), (b"b", b"b"), (b"c", b"d"), (b"", b"b")] {
        assert!(cursor.seek(key).expect("seek"));
        assert_eq!((cursor.key(), cursor.value()), (at, &b"base"[..]));
    }
    assert!(!cursor.seek(b"e").expect("seek"));
    for (key, at) in [(&b"c"[..], &b"b"[..]), (b"d", b"b"), (b"e", b"d"), (b"d\0", b"d")] {
        assert!(cursor.seek_back(key).expect("seek"));
        assert_eq!(cursor.key(), at, "seek_back is strictly before");
    }
    assert!(!cursor.seek_back(b"b").expect("seek"));
}

fn directions_turn(engine: &Arc<dyn Engine>) {
    let names: Vec<[u8; 1]> = (1..100).map(|n| [n]).collect();
    for (index, name) in names.iter().enumerate() {
        if index % 2 == 0 {
            put(engine, Space::Index, name, b"base");
        }
    }
    let mut txn = begin(engine);
    for (index, name) in names.iter().enumerate() {
        if index % 2 == 1 {
            txn.put(Space::Index, name, b"staged").expect("free");
        }
    }
    let mut cursor = txn.cursor(Space::Index, b"", b"").expect("a cursor");
    assert!(cursor.seek(&[50]).expect("seek"));
    let mut at = 50;
    for (steps, forward) in [(5, true), (9, false), (1, true), (1, false), (30, true), (70, false)]
    {
        for _ in 0..steps {
            let moved = if forward { cursor.next() } else { cursor.prev() }.expect("moves");
            at = if forward { at + 1 } else { at - 1 };
            assert!(moved);
            assert_eq!(cursor.key(), [at]);
        }
    }
}

fn staged_writes_are_merged(engine: &Arc<dyn Engine>) {
    fill(engine, &[b"a", b"b", b"c", b"e", b"f"]);
    let mut txn = begin(engine);
    txn.delete(Space::Index, b"b").expect("free");
    txn.put(Space::Index, b"c", b"mine").expect("free");
    txn.put(Space::Index, b"d", b"mine").expect("free");
    txn.delete(Space::Index, b"f").expect("free");
    txn.delete(Space::Index, b"zz").expect("free");
    let pairs = scan(&*txn, Space::Index, b"", b"");
    assert_eq!(keys(&pairs), [&b"a"[..], b"c", b"d", b"e"]);
    assert_eq!(pairs[1].1, b"mine");
    assert_eq!(keys(&scan(&*txn, Space::Index, b"b", b"d")), [&b"c"[..]]);
    let mut cursor = txn.cursor(Space::Index, b"", b"").expect("a cursor");
    assert!(cursor.seek(b"a").expect("seek"));
    txn.put(Space::Index, b"aa", b"later").expect("free");
    assert!(cursor.seek(b"a\0").expect("seek"), "a new seek sees later writes");
    assert_eq!(cursor.key(), b"aa");
    commit(txn);
    assert_eq!(scan(engine.latest(), Space::Index, b"", b"").len(), 5);
}

fn empty_ranges(engine: &Arc<dyn Engine>) {
    fill(engine, &[b"a", b"b"]);
    assert!(scan(engine.latest(), Space::Index, b"b", b"b").is_empty());
    assert!(scan(engine.latest(), Space::Index, b"c", b"").is_empty());
    assert!(scan(engine.latest(), Space::Records, b"", b"").is_empty());
    let mut txn = begin(engine);
    txn.put(Space::Index, b"ab", b"").expect("free");
    assert!(scan(&*txn, Space::Index, b"b", b"b").is_empty());
    assert_eq!(scan(&*txn, Space::Index, b"aa", b"b").len(), 1);
    let mut cursor = engine.latest().cursor(Space::Index, b"", b"").expect("a cursor");
    assert!(!cursor.next().expect("next") && !cursor.prev().expect("prev"));
}
