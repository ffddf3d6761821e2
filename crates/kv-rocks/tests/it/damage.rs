//! Flipped and missing bytes in every kind of file of a closed data directory: reads give correct results or
//! errors, and after a repair everything can be read.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_encryption::{FILE_NAME, HEADER_BYTES};
use nagi_kv::{Durability, Engine, Error, KeyRange, Result, Space, TxnOptions};
use nagi_kv_rocks::{make_unreadable, open, repair};

use crate::{Scratch, encrypted, open_at, options_at};

type Content = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

const SPACES: [Space; 4] = [Space::Catalog, Space::Records, Space::Index, Space::Counters];

/// A generator of the same pseudo-random numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Fills a data directory: one part in table files of several levels, the rest in the log until the end.
fn fill(dir: &Path) {
    let engine = open_at(dir);
    for round in 0..3u32 {
        for part in 0..10u32 {
            let mut txn = engine.begin(TxnOptions::default()).expect("begins");
            for n in 0..50u32 {
                let id = u64::from(part * 50 + n) + u64::from(round) * 200;
                let key = [&(7 + part % 3).to_be_bytes()[..], &id.to_be_bytes()].concat();
                let value = format!("{round} {id} {}", "v".repeat((id % 300) as usize));
                txn.put(Space::Records, &key, value.as_bytes()).expect("free");
                txn.put(Space::Index, &[&key[..], b"i"].concat(), &[round as u8]).expect("free");
            }
            txn.put(Space::Catalog, &[2, 0, 0, 0, part as u8], &[round as u8; 40]).expect("free");
            txn.add(Space::Counters, &[part as u8], &[50]).expect("adds");
            txn.commit(Durability::Buffered).expect("commits");
        }
        if round < 2 {
            engine.compact(Space::Records, &[], &[]).expect("compacts");
        }
    }
    engine.close().expect("closes");
}

fn content(engine: &Arc<dyn Engine>) -> Result<Content> {
    let mut all = Content::new();
    for space in SPACES {
        let mut cursor = engine.latest().cursor(space, &[], &[])?;
        let mut found = cursor.seek(&[])?;
        while found {
            all.insert((space as u8, cursor.key().to_vec()), cursor.value().to_vec());
            found = cursor.next()?;
        }
    }
    Ok(all)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for dir in [dir.to_owned(), dir.join("rocksdb")] {
        for entry in fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_file() && !name.starts_with("LOG") && name != "LOCK" && name != FILE_NAME {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

pub(crate) fn copy(from: &Path) -> Scratch {
    let scratch = Scratch::new();
    if from.join(FILE_NAME).exists() {
        fs::create_dir_all(scratch.path()).expect("creates");
        fs::copy(from.join(FILE_NAME), scratch.path().join(FILE_NAME)).expect("copies");
    }
    for path in files(from) {
        let target = scratch.path().join(path.strip_prefix(from).expect("below"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("creates");
        fs::copy(&path, &target).expect("copies");
    }
    scratch
}

/// Outcomes for damaged data directories.
#[derive(Default, Debug)]
struct Tally {
    unharmed: u32,
    refused_at_start: u32,
    refused_at_read: u32,
}

/// Reads a damaged data directory: the result is correct, or an error that names a file. Then repairs it.
fn look(scratch: &Scratch, truth: &Content, what: &str, tally: &mut Tally) {
    let read = open(scratch.path(), &options_at(scratch.path())).map(|engine| content(&engine));
    let error = match read {
        Ok(Ok(found)) => {
            assert_eq!(&found, truth, "{what}: wrong data");
            tally.unharmed += 1;
            return;
        }
        Ok(Err(error)) => {
            tally.refused_at_read += 1;
            error
        }
        Err(error) => {
            tally.refused_at_start += 1;
            error
        }
    };
    let text = error.to_string();
    let named = [".sst", "MANIFEST", "CURRENT", "rocksdb", "storage", ".log"];
    assert!(named.iter().any(|name| text.contains(name)), "{what}: {text}");
    if what.contains("nagi.storage") {
        return; // an administrator must decide who owns the folder
    }
    let report = repair(scratch.path(), &options_at(scratch.path()))
        .unwrap_or_else(|e| panic!("{what}: repair: {e}"));
    assert!(!report.findings.is_empty(), "{what}: {text}: the repair found nothing");
    assert!(report.kept.as_ref().is_some_and(|kept| kept.is_dir()), "{what}");
    let engine = open(scratch.path(), &options_at(scratch.path()))
        .unwrap_or_else(|e| panic!("{what}: reopen: {e}"));
    let left = content(&engine).unwrap_or_else(|e| panic!("{what}: after repair: {e}"));
    for (key, value) in &left {
        if truth.get(key) != Some(value) {
            // The loss of a whole table may uncover replaced values, but no value is invented.
            assert!(report.findings.iter().any(|f| f.contains("older")), "{what}: {report:?}");
        }
    }
    if report.lost.is_empty() && !report.findings.iter().any(|f| f.contains("older")) {
        assert_eq!(&left, truth, "{what}: lost without a word: {report:?}");
    }
}

fn damage(path: &Path, numbers: &mut Numbers) -> Option<String> {
    let mut bytes = fs::read(path).expect("reads");
    if bytes.is_empty() {
        return None;
    }
    let at = numbers.below(bytes.len() as u64) as usize;
    let how = if numbers.below(4) == 0 {
        bytes.truncate(at);
        "cut"
    } else {
        bytes[at] ^= 1 << numbers.below(8);
        "flipped"
    };
    // A link would damage the original, too.
    fs::remove_file(path).expect("removes");
    fs::write(path, bytes).expect("writes");
    Some(format!("{} {how} at {at}", path.file_name().expect("a name").to_string_lossy()))
}

/// RocksDB's reader would loop at such a record.
#[test]
fn a_record_of_a_recycled_log_in_the_list_of_files_is_damage() {
    let original = Scratch::new();
    fill(original.path());
    let truth = content(&open_at(original.path())).expect("reads");
    let scratch = copy(original.path());
    // As after a kill: there is no record of how the file list ended.
    fs::remove_file(scratch.path().join("nagi.closed")).expect("removes");
    let lists = files(scratch.path()).into_iter();
    let list = lists.filter(|path| path.to_string_lossy().contains("MANIFEST")).max();
    let list = list.expect("a list");
    let mut bytes = fs::read(&list).expect("reads");
    let second = 7 + usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
    // A single flipped bit gives another type: kFullType becomes kRecyclableFullType.
    bytes[second + 6] ^= 4;
    assert_eq!(bytes[second + 6], 5);
    fs::remove_file(&list).expect("removes");
    fs::write(&list, bytes).expect("writes");
    let mut tally = Tally::default();
    look(&scratch, &truth, "a type of recycled logs", &mut tally);
    assert_eq!(tally.refused_at_start, 1);
}

#[test]
fn damage_is_found_and_the_rest_is_saved() {
    is_found_and_the_rest_saved(&Scratch::new());
}

#[test]
fn damage_of_encrypted_files_is_found_and_the_rest_is_saved() {
    is_found_and_the_rest_saved(&encrypted());
}

fn is_found_and_the_rest_saved(original: &Scratch) {
    fill(original.path());
    let truth = content(&open_at(original.path())).expect("reads");
    // Opening removed the record of the shutdown, and closing must have written it again.
    assert!(original.path().join("nagi.closed").exists());
    let mut numbers = Numbers(0x1234_5678_9ABC_DEF1);
    let mut tally = Tally::default();
    let count = files(original.path()).len();
    for round in 0..3 {
        for index in 0..count {
            let scratch = copy(original.path());
            let Some(what) = damage(&files(scratch.path())[index], &mut numbers) else { continue };
            look(&scratch, &truth, &format!("round {round}: {what}"), &mut tally);
        }
    }
    assert!(tally.refused_at_read > 0 && tally.refused_at_start > 0, "{tally:?}");
}

#[test]
fn a_missing_file_is_not_a_new_folder() {
    is_not_a_new_folder(&Scratch::new());
}

#[test]
fn a_missing_encrypted_file_is_not_a_new_folder() {
    is_not_a_new_folder(&encrypted());
}

fn is_not_a_new_folder(original: &Scratch) {
    fill(original.path());
    let truth = content(&open_at(original.path())).expect("reads");
    let mut tally = Tally::default();
    let count = files(original.path()).len();
    for index in 0..count {
        let scratch = copy(original.path());
        let path = files(scratch.path())[index].clone();
        fs::remove_file(&path).expect("removes");
        let what = format!("without {}", path.file_name().expect("a name").to_string_lossy());
        look(&scratch, &truth, &what, &mut tally);
    }
    assert!(tally.refused_at_start >= 3, "{tally:?}");
}

#[test]
fn a_whole_folder_is_left_alone() {
    let scratch = Scratch::new();
    fill(scratch.path());
    let truth = content(&open_at(scratch.path())).expect("reads");
    let report = repair(scratch.path(), &options_at(scratch.path())).expect("repairs");
    assert!(report.findings.is_empty() && report.kept.is_none(), "{report:?}");
    assert_eq!(content(&open_at(scratch.path())).expect("reads"), truth);
}

pub(crate) fn largest_table(dir: &Path) -> PathBuf {
    let tables = files(dir).into_iter().filter(|p| p.extension().is_some_and(|e| e == "sst"));
    tables.max_by_key(|p| fs::metadata(p).expect("there").len()).expect("a table")
}

/// Flips a bit in the first block.
fn flip(table: &Path) {
    let mut bytes = fs::read(table).expect("reads");
    let begin = if bytes.starts_with(b"NagiFile") { HEADER_BYTES } else { 0 };
    bytes[begin + 100] ^= 0x10;
    fs::write(table, bytes).expect("writes");
}

/// Simulates a bad sector in the first block.
fn wear_out(table: &Path) {
    make_unreadable(table, 0, 512).expect("there");
}

fn check_names_first_block(error: &Error, table: &Path, says: &str) {
    let name = table.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(
        matches!(error, Error::Corrupt(text)
            if text.contains(&name) && text.contains("offset 0") && text.contains(says)),
        "{error}"
    );
}

fn loses_only_the_range(scratch: &Scratch, harm: fn(&Path), says: &str) {
    fill(scratch.path());
    let truth = content(&open_at(scratch.path())).expect("reads");
    let largest = largest_table(scratch.path());
    harm(&largest);
    let engine = open_at(scratch.path());
    check_names_first_block(&content(&engine).expect_err("damaged"), &largest, says);
    drop(engine);
    let report = repair(scratch.path(), &options_at(scratch.path())).expect("repairs");
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].error.contains(says), "{report:?}");
    let left = content(&open_at(scratch.path())).expect("reads");
    let missing = truth.len() - left.len();
    assert!(missing > 0 && missing < truth.len() / 6, "{missing} of {}", truth.len());
    assert!(left.iter().all(|(key, value)| truth.get(key) == Some(value)));
}

#[test]
fn only_the_damaged_range_is_lost() {
    loses_only_the_range(&Scratch::new(), flip, "checksum");
    loses_only_the_range(&encrypted(), flip, "checksum");
}

#[test]
fn only_the_range_of_a_bad_sector_is_lost() {
    loses_only_the_range(&Scratch::new(), wear_out, "Input/output error");
    loses_only_the_range(&encrypted(), wear_out, "Input/output error");
}

fn gauge(engine: &Arc<dyn Engine>, wanted: &str) -> i64 {
    let mut found = 0;
    engine.stats(&mut |name, value| found = if name == wanted { value } else { found });
    found
}

fn writes_go_on_beside(scratch: &Scratch, harm: fn(&Path), says: &str) {
    fill(scratch.path());
    let largest = largest_table(scratch.path());
    harm(&largest);
    let engine = open_at(scratch.path());
    let write = |n: u32| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        let key = [&7_u32.to_be_bytes()[..], &u64::from(n).to_be_bytes()].concat();
        txn.put(Space::Records, &key, &[n as u8; 500]).expect("free");
        txn.commit(Durability::Synced).expect("commits");
    };
    write(10_000);
    let range = KeyRange { space: Space::Records, start: &[], end: &[], live_count: None };
    let error = engine.compact_watched(range, &mut |_, _| true).expect_err("damaged");
    check_names_first_block(&error, &largest, says);
    assert!(gauge(&engine, "damaged_compactions") > 0);
    for n in 10_001..10_100 {
        write(n);
    }
    // The thread that checks for it runs every few seconds.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while gauge(&engine, "damaged_spaces_resting") == 0 {
        assert!(std::time::Instant::now() < until, "the space never rests");
        std::thread::yield_now();
    }
    for n in 10_100..10_200 {
        write(n);
    }
    engine.close().expect("closes in order");
    drop(engine);
    let report = repair(scratch.path(), &options_at(scratch.path())).expect("repairs");
    assert_eq!(report.lost.len(), 1, "{report:?}");
    let engine = open_at(scratch.path());
    let left = content(&engine).expect("reads");
    let written = left.values().filter(|value| value.len() == 500).count();
    assert_eq!(written, 200);
    assert_eq!(gauge(&engine, "damaged_compactions"), 0);
}

#[test]
fn writes_go_on_beside_a_block_that_no_compaction_can_read() {
    writes_go_on_beside(&Scratch::new(), flip, "checksum");
}

#[test]
fn writes_go_on_beside_a_bad_sector() {
    writes_go_on_beside(&encrypted(), wear_out, "Input/output error");
}

#[test]
fn a_bad_sector_costs_no_block_that_is_read_together_with_it() {
    let scratch = Scratch::new();
    fill(scratch.path());
    let truth = content(&open_at(scratch.path())).expect("reads");
    let largest = largest_table(scratch.path());
    let middle = fs::metadata(&largest).expect("there").len() / 2;
    make_unreadable(&largest, middle, middle + 1).expect("there");
    let engine = open_at(scratch.path());
    let (mut buf, mut lost) = (Vec::new(), 0);
    // One by one, and in scans whose read-ahead crosses the sector.
    for ((space, key), value) in &truth {
        let space = Space::by_number(*space).expect("a space");
        let one = engine.latest().get(space, key, &mut buf).map(|found| found.map(<[u8]>::to_vec));
        let mut many = None;
        let both = engine.latest().get_many(space, &[key, key], &mut |_, value| {
            many = value.map(<[u8]>::to_vec);
        });
        match one {
            Ok(found) => {
                assert_eq!(found.as_ref(), Some(value));
                assert_eq!((both.is_ok(), many.as_ref()), (true, Some(value)));
            }
            Err(error) => {
                assert!(matches!(&error, Error::Corrupt(text) if text.contains("Input/output")));
                assert!(matches!(both, Err(Error::Corrupt(_))));
                lost += 1;
            }
        }
    }
    assert!(lost > 0 && lost < truth.len() / 8, "{lost} of {}", truth.len());
    let mut scanned = 0;
    for space in SPACES {
        for back in [false, true] {
            let mut cursor = engine.latest().cursor(space, &[], &[]).expect("a cursor");
            let mut found = if back { cursor.seek_back(&[]) } else { cursor.seek(&[]) };
            while matches!(found, Ok(true)) {
                assert_eq!(truth[&(space as u8, cursor.key().to_vec())], cursor.value());
                scanned += 1;
                found = if back { cursor.prev() } else { cursor.next() };
            }
        }
    }
    // The space with the sector is read from both ends up to the sector, the others twice.
    assert!(scanned > truth.len(), "{scanned} of {}", truth.len());
}
