//! Repairs of damaged blocks whose range of keys is much wider than their content: those of differences.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use nagi_kv::{Durability, Engine, Space, TxnOptions};
use nagi_kv_rocks::repair;

use crate::{
    Scratch,
    damage::{copy, largest_table},
    open_at, options_at,
};

const RECORDS: u32 = 6000;

fn key(n: u32) -> [u8; 8] {
    [7_u32.to_be_bytes(), n.to_be_bytes()].concat().try_into().expect("eight bytes")
}

/// Not compressible, so that a block has few of them.
fn value(n: u32, version: u8) -> Vec<u8> {
    let mut state = n + 1;
    let mut noise = move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    let mut value: Vec<u8> = (0..700).map(&mut noise).collect();
    value[300] = version;
    value
}

fn changed(n: u32) -> bool {
    n.is_multiple_of(3)
}

fn deleted(n: u32) -> bool {
    n % 100 == 1
}

fn change(engine: &Arc<dyn Engine>, change: &mut dyn FnMut(u32, &mut dyn nagi_kv::Txn)) {
    for part in 0..RECORDS / 100 {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        (part * 100..(part + 1) * 100).for_each(|n| change(n, &mut *txn));
        txn.commit(Durability::Buffered).expect("commits");
    }
    engine.flush().expect("flushes");
}

/// Fills a folder. The values are in one table; differences and deletions in another one, whose path is returned.
fn fill(dir: &Path) -> std::path::PathBuf {
    let engine = open_at(dir);
    change(&engine, &mut |n, txn| txn.put(Space::Records, &key(n), &value(n, 0)).expect("free"));
    engine.compact(Space::Records, &[], &[]).expect("compacts");
    change(&engine, &mut |n, txn| match (changed(n), deleted(n)) {
        (_, true) => txn.delete(Space::Records, &key(n)).expect("free"),
        (true, false) => {
            txn.put_over(Space::Records, &key(n), &value(n, 0), &value(n, 1)).expect("free");
        }
        (false, false) => {}
    });
    engine.close().expect("closes");
    let values = largest_table(dir);
    let folder = fs::read_dir(dir.join("rocksdb")).expect("a folder");
    let tables = folder.map(|entry| entry.expect("an entry").path());
    let tables = tables.filter(|path| path.extension().is_some_and(|e| e == "sst"));
    let others = tables.filter(|path| *path != values);
    others.max_by_key(|path| fs::metadata(path).expect("there").len()).expect("a second table")
}

fn content(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let engine = open_at(dir);
    let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
    let mut found = cursor.seek(&[]).expect("reads");
    let mut all = BTreeMap::new();
    while found {
        all.insert(cursor.key().to_vec(), cursor.value().to_vec());
        found = cursor.next().expect("reads");
    }
    all
}

#[test]
fn a_damaged_block_of_differences_costs_only_what_was_changed() {
    const PLACES: usize = 8;
    let scratch = Scratch::new();
    let differences = fill(scratch.path());
    let name = differences.strip_prefix(scratch.path()).expect("below");
    let (mut lost, mut taken_for_changed) = (0, 0);
    for place in 0..PLACES {
        let copy = copy(scratch.path());
        let mut bytes = fs::read(copy.path().join(name)).expect("reads");
        let at = bytes.len() * place / PLACES;
        bytes[at + 20] ^= 0x10;
        fs::write(copy.path().join(name), bytes).expect("writes");
        let report = repair(copy.path(), &options_at(copy.path())).expect("repairs");
        let left = content(copy.path());
        for n in 0..RECORDS {
            let found = left.get(&key(n)[..]);
            match (changed(n), deleted(n)) {
                (_, true) => assert_eq!(found, None, "{place}: {n} was deleted: {report:?}"),
                (true, false) if found.is_none() => lost += 1,
                (false, false) if found.is_none() => taken_for_changed += 1,
                (changed, false) => {
                    assert_eq!(found, Some(&value(n, changed.into())), "{place}: {n}: {report:?}");
                }
            }
        }
    }
    assert!(lost > 0, "no block of differences was hit");
    // Filters exclude all but about one key in a hundred.
    assert!(taken_for_changed * 20 < lost, "{taken_for_changed} beside {lost}");
}

/// Damages the end of a table, so that it cannot be opened, and one block of another table.
#[test]
fn a_table_that_cannot_be_opened_costs_nothing_of_the_others() {
    let scratch = Scratch::new();
    let differences = fill(scratch.path());
    let values = largest_table(scratch.path());
    let harm = |path: &Path, at: &dyn Fn(usize) -> usize| {
        let mut bytes = fs::read(path).expect("reads");
        let at = at(bytes.len());
        bytes[at..at + 8].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::remove_file(path).expect("removes");
        fs::write(path, bytes).expect("writes");
    };
    harm(&differences, &|length| length - 30);
    harm(&values, &|length| length / 2);
    let report = repair(scratch.path(), &options_at(scratch.path())).expect("repairs");
    let name = differences.file_name().expect("a name").to_string_lossy().into_owned();
    let names = |text: &String| text.contains(&name) && text.contains("lost or older");
    assert!(report.findings.iter().any(names), "{report:?}");
    assert!(report.lost.iter().any(|lost| lost.error.contains(&name)), "{report:?}");
    let left = content(scratch.path());
    let missing = (0..RECORDS).filter(|n| !left.contains_key(&key(*n)[..])).count();
    assert!((1..60).contains(&missing), "a block of values: {missing}");
    for n in (0..RECORDS).filter(|n| !changed(*n) && !deleted(*n)) {
        assert!(left.get(&key(n)[..]).is_none_or(|found| *found == value(n, 0)), "{n}");
    }
}
