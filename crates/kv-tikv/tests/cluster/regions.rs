//! Ranges over several regions.

use std::thread;

use nagi_kv::{Cursor, Durability, Engine, Space, TxnOptions};

use crate::cluster::{calls, engine, new_prefix, node, put, split, stat};

const ENTRIES: u32 = 600;

fn fill(engine: &dyn Engine) {
    let mut left = ENTRIES;
    let filled = engine.load(Space::Index, &mut |key, value| {
        key.clear();
        value.clear();
        key.extend_from_slice(&left.to_be_bytes());
        left = left.saturating_sub(1);
        Ok(key != &0_u32.to_be_bytes())
    });
    filled.expect("loads");
}

/// The stored key of an index key: see the layout in docs/decisions/096.
fn stored(prefix: &str, key: u32) -> Vec<u8> {
    [prefix.as_bytes(), &[0, 1, 2], &key.to_be_bytes()].concat()
}

fn numbers(cursor: &mut dyn Cursor, forward: bool) -> Vec<u32> {
    let mut seen = Vec::new();
    let mut found = if forward { cursor.seek(b"") } else { cursor.seek_back(b"") }.expect("seeks");
    while found {
        seen.push(u32::from_be_bytes(cursor.key().try_into().expect("four bytes")));
        found = if forward { cursor.next() } else { cursor.prev() }.expect("moves");
    }
    seen
}

#[test]
fn scans_read_one_region_at_a_time() {
    let prefix = new_prefix();
    fill(&*engine(&prefix));
    for at in [100, 200, 300, 301, 500] {
        split(&stored(&prefix, at));
    }
    // A node that knows no bounds yet.
    let node = node(&prefix);
    let mut cursor = node.latest().cursor(Space::Index, b"", b"").expect("a cursor");
    let ascending: Vec<u32> = (1..=ENTRIES).collect();
    assert_eq!(numbers(&mut *cursor, true), ascending);
    let descending: Vec<u32> = (1..=ENTRIES).rev().collect();
    assert_eq!(numbers(&mut *cursor, false), descending);
    let known = stat(&*node, "region_lookups");
    assert!((6..=14).contains(&known), "each region is looked up once or twice: {known}");
    let before = calls()["KvScan"];
    let mut cursor = node.latest().cursor(Space::Index, b"", b"").expect("a cursor");
    assert_eq!(numbers(&mut *cursor, true), ascending);
    let scans = calls()["KvScan"] - before;
    assert!(scans <= 12, "six regions, and a second page in some: {scans}");
    assert_eq!(stat(&*node, "region_lookups"), known, "bounds are kept");
    node.drop_range(Space::Index, &[], &[]).expect("drops over regions");
    assert!(
        numbers(&mut *node.latest().cursor(Space::Index, b"", b"").expect("one"), true).is_empty()
    );
}

/// A region that splits while a cursor is in it, and between transactions.
#[test]
fn a_split_under_a_cursor_loses_nothing() {
    let prefix = new_prefix();
    let engine = engine(&prefix);
    fill(&*engine);
    let mut cursor = engine.cursor_at_start();
    for at in [50, 250, 450] {
        split(&stored(&prefix, at));
    }
    let mut seen = vec![u32::from_be_bytes(cursor.key().try_into().expect("four bytes"))];
    while cursor.next().expect("moves") {
        seen.push(u32::from_be_bytes(cursor.key().try_into().expect("four bytes")));
    }
    assert_eq!(seen, (1..=ENTRIES).collect::<Vec<_>>());
    put(&*engine, Space::Index, &451_u32.to_be_bytes(), b"after the split");
}

/// Commits over several regions, while they split: each snapshot of another node has all keys of a commit or none.
#[test]
fn commits_over_regions_are_seen_whole() {
    const ROUNDS: u32 = 40;
    let prefix = new_prefix();
    let (writer, reader) = (node(&prefix), node(&prefix));
    let names: Vec<[u8; 4]> = (1..=6).map(|n: u32| (n * 10).to_be_bytes()).collect();
    let keys: Vec<&[u8]> = names.iter().map(<[u8; 4]>::as_slice).collect();
    thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for round in 1..=ROUNDS {
                let mut txn = writer.begin(TxnOptions::default()).expect("begins");
                for key in &keys {
                    txn.put(Space::Index, key, &round.to_be_bytes()).expect("staged");
                }
                txn.commit(Durability::Synced).expect("no other transaction writes them");
                if round <= 5 {
                    split(&stored(&prefix, round * 10 + 5));
                }
            }
        });
        let (mut last, mut is_over) = (Vec::new(), false);
        while !is_over {
            is_over = writes.is_finished();
            let mut seen = Vec::new();
            let snapshot = reader.snapshot().expect("a snapshot");
            snapshot
                .get_many(Space::Index, &keys, &mut |_, value| {
                    seen.push(value.unwrap_or_default().to_vec());
                })
                .expect("reads");
            let mut cursor = snapshot.cursor(Space::Index, b"", b"").expect("a cursor");
            let mut found = cursor.seek(b"").expect("seeks");
            while found {
                seen.push(cursor.value().to_vec());
                found = cursor.next().expect("moves");
            }
            assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
            assert!(seen[0] >= last, "snapshots do not go back");
            last.clone_from(&seen[0]);
        }
        assert_eq!(last, ROUNDS.to_be_bytes(), "the last snapshot began after the last commit");
    });
}

trait AtStart {
    fn cursor_at_start(&self) -> Box<dyn Cursor>;
}

impl<E: Engine> AtStart for E {
    fn cursor_at_start(&self) -> Box<dyn Cursor> {
        let mut cursor = self.latest().cursor(Space::Index, b"", b"").expect("a cursor");
        assert!(cursor.seek(b"").expect("seeks"));
        cursor
    }
}
