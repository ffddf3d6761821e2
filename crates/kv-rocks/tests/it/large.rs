//! Large values are read from disk only by those who want them.

use std::cell::Cell;

use nagi_kv::{Read, Space};
use nagi_kv_rocks::{Gate, attach_large_reads};

use crate::{
    Scratch, open_at,
    reopen::{get, put},
};

thread_local! {
    static READS: Cell<usize> = const { Cell::new(0) };
}

fn note(_bytes: usize, _waits: bool) -> bool {
    READS.set(READS.get() + 1);
    true
}

fn keys(reader: &dyn Read, start: &[u8], end: &[u8]) -> usize {
    let mut cursor = reader.cursor(Space::Records, start, end).expect("a cursor");
    let (mut count, mut found) = (0, cursor.seek(start).expect("seeks"));
    while found {
        count += 1;
        found = cursor.next().expect("moves");
    }
    count
}

#[test]
fn neighbours_of_large_values_are_read_without_them() {
    let scratch = Scratch::new();
    let large = vec![7; 1 << 20];
    let engine = open_at(scratch.path());
    for n in 0..9 {
        put(&engine, Space::Records, &[b'a', n], b"small");
        put(&engine, Space::Records, &[b'c', n], b"small");
    }
    put(&engine, Space::Records, b"b", &large);
    engine.flush().expect("flushes");
    // A file whose first key is behind the range of the scans.
    put(&engine, Space::Records, b"b1", &large);
    engine.flush().expect("flushes");
    drop(engine);

    let engine = open_at(scratch.path());
    attach_large_reads(Gate { read: note, hold: note });
    assert_eq!(get(&engine, Space::Records, &[b'a', 8]), Some(b"small".to_vec()));
    assert_eq!(get(&engine, Space::Records, &[b'c', 0]), Some(b"small".to_vec()));
    let snapshot = engine.snapshot().expect("a snapshot");
    for reader in [engine.latest() as &dyn Read, &*snapshot] {
        assert_eq!(keys(reader, b"a", b"b"), 9);
        // Not from the bare prefix: the index has it as the shortened end of the block before.
        assert_eq!(keys(reader, &[b'c', 0], b"d"), 9);
    }
    assert_eq!(READS.get(), 0, "large values were read for small ones");
    assert_eq!(get(&engine, Space::Records, b"b"), Some(large));
    assert!(READS.get() > 0, "the gate was not asked");
}
