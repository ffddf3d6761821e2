//! Disk space: the size of ranges, and the space released after removals and drops.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nagi_kv::{CachedSize, Durability, Engine, KeyRange, RangeSize, Space, TxnOptions};

use crate::{
    Scratch, open_at,
    reopen::{count, gauge},
};

const VALUE_BYTES: usize = 8 << 10;

/// Incompressible bytes that differ for each `n`.
fn value(n: u32) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

/// Keys of the idents alternate, so that they share files.
fn fill(engine: &Arc<dyn Engine>, idents: &[u8], count: u32) {
    for n in 0..count {
        let ident = idents[n as usize % idents.len()];
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        let key = [&[ident][..], &n.to_be_bytes()].concat();
        txn.put(Space::Records, &key, &value(n)).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
    }
}

fn size(engine: &Arc<dyn Engine>, ident: u8, live_count: Option<u64>) -> RangeSize {
    let (start, end) = ([ident], [ident + 1]);
    let range = KeyRange { space: Space::Records, start: &start, end: &end, live_count };
    engine.range_sizes(&[range]).expect("sizes")[0]
}

fn cached(engine: &Arc<dyn Engine>, ident: u8) -> CachedSize {
    let (start, end) = ([ident], [ident + 1]);
    let range = KeyRange { space: Space::Records, start: &start, end: &end, live_count: None };
    engine.cached_sizes(&[range]).expect("sizes").expect("it has a cache")[0]
}

/// Returns once no range waits to be reclaimed.
fn settle(engine: &Arc<dyn Engine>) {
    let until = Instant::now() + Duration::from_secs(60);
    while gauge(engine, "ranges_to_reclaim") > 0 {
        assert!(Instant::now() < until, "the dropped ranges are never rewritten");
        thread::yield_now();
    }
}

#[test]
fn a_load_after_a_drop_takes_no_more_disk() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    fill(&engine, &[1, 2], 4000);
    settle(&engine);
    let first = gauge(&engine, "disk_live_bytes") + gauge(&engine, "memtable_bytes");
    for ident in 3..6 {
        engine.drop_range(Space::Records, &[ident - 1], &[ident]).expect("drops");
        settle(&engine);
        fill(&engine, &[ident], 2000);
    }
    settle(&engine);
    let last = gauge(&engine, "disk_live_bytes") + gauge(&engine, "memtable_bytes");
    assert!(last < first * 5 / 4, "{first} bytes after the first load, {last} after the fourth");
    assert_eq!(count(&engine, Space::Records), 4000);
}

#[test]
fn what_is_in_memory_is_counted_by_range() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    fill(&engine, &[1], 600);
    fill(&engine, &[2], 600);
    let all = (600 * VALUE_BYTES) as u64;
    let written = cached(&engine, 1);
    assert!(written.file_bytes + written.unwritten_bytes > all / 2, "{written:?}");
    engine.close().expect("closes");
    drop(engine);
    let engine = open_at(scratch.path());
    let mut cursor = engine.latest().cursor(Space::Records, &[1], &[2]).expect("opens");
    let mut more = cursor.seek(&[1]).expect("reads");
    while more {
        more = cursor.next().expect("reads");
    }
    // A census is used for a moment after it was taken.
    let until = Instant::now() + Duration::from_secs(60);
    while cached(&engine, 1).file_bytes < all * 7 / 10 {
        assert!(Instant::now() < until, "{:?}", cached(&engine, 1));
        thread::yield_now();
    }
    let read = cached(&engine, 1);
    assert!(read.file_bytes < all * 3 / 2 && read.unwritten_bytes == 0, "{read:?}");
    assert_eq!(cached(&engine, 9), CachedSize::default());
}

/// A search for the neighbours of the range would skip each of its entries in a memtable.
#[test]
fn what_memtables_have_of_a_dropped_range_is_flushed_away() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    fill(&engine, &[1], 300);
    let before = gauge(&engine, "memtable_bytes");
    assert!(before > 300 * VALUE_BYTES as i64, "{before} bytes in memtables");
    engine.drop_range(Space::Records, &[1], &[2]).expect("drops");
    let until = Instant::now() + Duration::from_secs(60);
    while gauge(&engine, "memtable_bytes") > before / 2 {
        assert!(Instant::now() < until, "the dropped range stays in the memtables");
        thread::yield_now();
    }
    assert!(gauge(&engine, "disk_live_bytes") < before / 10, "it was not written to disk");
    assert_eq!(count(&engine, Space::Records), 0);
}

#[test]
fn what_a_drop_left_is_reclaimed_by_the_next_run() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    fill(&engine, &[1, 2], 6000);
    engine.compact(Space::Records, &[1], &[3]).expect("compacts");
    let before = gauge(&engine, "disk_live_bytes");
    engine.drop_range(Space::Records, &[1], &[2]).expect("drops");
    drop(engine);
    let engine = open_at(scratch.path());
    settle(&engine);
    let after = gauge(&engine, "disk_live_bytes");
    assert!(after < before * 3 / 4, "{before} bytes before the drop, {after} after the restart");
    assert_eq!(count(&engine, Space::Records), 3000);
    // A second drop of the same range costs nothing and changes nothing.
    engine.drop_range(Space::Records, &[1], &[2]).expect("drops");
    assert_eq!(gauge(&engine, "ranges_to_reclaim"), 0);
}

#[test]
fn waste_is_estimated_and_compacted_away() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    fill(&engine, &[1, 2], 4000);
    engine.compact(Space::Records, &[1], &[3]).expect("compacts");
    let full = size(&engine, 1, Some(2000));
    assert!(full.bytes > 2000 * VALUE_BYTES as u64 * 9 / 10, "{full:?}");
    assert!(full.reclaimable_bytes < full.bytes / 10, "{full:?}");
    for n in (0..4000_u32).filter(|n| n % 8 != 0) {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.delete(Space::Records, &[&[1][..], &n.to_be_bytes()].concat()).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
    }
    let wasted = size(&engine, 1, Some(500));
    assert!(wasted.reclaimable_bytes > wasted.bytes / 2, "{wasted:?}");
    let range = KeyRange { space: Space::Records, start: &[1], end: &[2], live_count: None };
    let mut told = Vec::new();
    assert!(!engine.compact_watched(range, &mut |_, _| false).expect("ends at once"));
    let done = engine.compact_watched(range, &mut |done, total| {
        told.push((done, total));
        true
    });
    assert!(done.expect("compacts"));
    assert!(told.is_sorted() && told.last().is_some_and(|(done, total)| done == total), "{told:?}");
    let compacted = size(&engine, 1, Some(500));
    let freed = full.bytes - compacted.bytes;
    assert!(freed > full.bytes * 2 / 3, "{full:?} {compacted:?}");
    assert!(compacted.reclaimable_bytes < compacted.bytes / 5, "{compacted:?}");
    assert_eq!(count(&engine, Space::Records), 2500);
}

#[test]
fn a_check_of_all_files_finds_a_flipped_byte() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    fill(&engine, &[1], 1000);
    engine.compact(Space::Records, &[1], &[2]).expect("compacts");
    assert_eq!(engine.verify(&mut |_, _| true).expect("checks"), Some(Vec::new()));
    let files = std::fs::read_dir(scratch.path().join("rocksdb")).expect("a folder");
    let paths = files.map(|file| file.expect("an entry").path());
    let table = paths.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let table = table.max_by_key(|path| std::fs::metadata(path).map_or(0, |data| data.len()));
    let table = table.expect("there is a table");
    let mut bytes = std::fs::read(&table).expect("reads");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).expect("writes");
    let found = engine.verify(&mut |_, _| true).expect("checks").expect("was not ended");
    let name = table.file_name().expect("a name").to_string_lossy();
    assert!(found.len() == 1 && found[0].contains(&*name), "{found:?}");
}

/// A queue that was emptied: who looks for its first entry must not step over all that were there.
#[test]
fn deletions_are_merged_away_although_nothing_else_is_written() {
    const COUNT: u32 = 20_000;
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    for delete in [false, true] {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for n in 0..COUNT {
            let key = [&[1][..], &n.to_be_bytes()].concat();
            match delete {
                false => txn.put(Space::Records, &key, &[7; 100]).expect("free"),
                true => txn.delete(Space::Records, &key).expect("free"),
            }
        }
        txn.commit(Durability::Buffered).expect("commits");
    }
    let until = Instant::now() + Duration::from_secs(60);
    while gauge(&engine, "keys_estimate") > 0 || gauge(&engine, "memtable_bytes") > 1 << 20 {
        assert!(Instant::now() < until, "{} keys", gauge(&engine, "keys_estimate"));
        thread::yield_now();
    }
    assert_eq!(count(&engine, Space::Records), 0);
}
