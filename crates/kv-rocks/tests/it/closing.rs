//! A close waits for nothing that the next start can do.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nagi_kv::{Error, Space};
use nagi_kv_rocks::{Examined, Options, examine, open};

use crate::{
    Scratch,
    damage::copy,
    encrypted, open_at, options_at,
    reopen::{count, gauge, get, put},
};

const VALUE_BYTES: usize = 1 << 20;

/// What does not compress.
fn value(n: u8) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

/// Polls until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn much_in_memory_is_left_to_the_log() {
    let scratch = Scratch::new();
    let record = scratch.path().join("nagi.closed");
    let options = Options {
        cache_bytes: 1 << 30,
        write_buffer_bytes: Some(512 << 20),
        ..options_at(scratch.path())
    };
    let engine = open(scratch.path(), &options).expect("opens");
    // Each is in the change log, too.
    for n in 0..40 {
        put(&engine, Space::Records, &[n], &value(n));
    }
    assert!(gauge(&engine, "memtable_bytes") > 64 << 20);
    engine.close().expect("closes");
    assert_eq!(gauge(&engine, "checkpoints"), 0, "nothing was flushed");
    drop(engine);
    let noted = std::fs::read_to_string(&record).expect("a record");
    assert!(noted.starts_with("log "), "the log is needed: {noted}");

    let engine = open(scratch.path(), &options).expect("opens");
    assert_eq!(count(&engine, Space::Records), 40);
    assert!((0..40).all(|n| get(&engine, Space::Records, &[n]) == Some(value(n))));
    // Little is written, and recorded.
    put(&engine, Space::Records, &[40], b"one more");
    engine.close().expect("closes");
    drop(engine);
    assert!(record.exists());
    let engine = open(scratch.path(), &options).expect("opens");
    assert_eq!(get(&engine, Space::Records, &[40]), Some(b"one more".to_vec()));
}

/// The logs that the record names, and how many bytes each has at least.
fn logs_needed(dir: &Path) -> Vec<(PathBuf, u64)> {
    let noted = std::fs::read_to_string(dir.join("nagi.closed")).expect("a record");
    let log = |line: &str| {
        let (name, bytes) = line.strip_prefix("least ")?.split_once(' ')?;
        Some((dir.join("rocksdb").join(name), bytes.parse().expect("a number")))
    };
    noted.lines().filter_map(log).collect()
}

/// A folder whose newest changes are in several logs only, and how many records it has.
fn with_logs(scratch: Scratch) -> (Scratch, Options, u64) {
    const COUNT: u8 = 170;
    let options = Options {
        cache_bytes: 1 << 30,
        write_buffer_bytes: Some(96 << 20),
        ..options_at(scratch.path())
    };
    let engine = open(scratch.path(), &options).expect("opens");
    // Its memtable needs the first log for as long as it is not flushed.
    put(&engine, Space::Index, b"k", b"first");
    for n in 0..COUNT {
        put(&engine, Space::Records, &[n], &value(n));
    }
    engine.close().expect("closes");
    drop(engine);
    let logs = logs_needed(scratch.path());
    assert!(logs.len() > 1, "{logs:?}");
    (scratch, options, COUNT.into())
}

/// What a disk, or somebody who needs space, does to a log.
type Harm = (&'static str, fn(&Path, u64));

const HARMS: [Harm; 4] = [
    ("removed", |log, _| std::fs::remove_file(log).expect("removed")),
    ("emptied", |log, _| set_length(log, 0)),
    ("cut by a byte", |log, bytes| set_length(log, bytes - 1)),
    ("changed at its end", |log, bytes| {
        let mut content = std::fs::read(log).expect("read");
        content[bytes as usize - 10] ^= 0x40;
        std::fs::write(log, content).expect("written");
    }),
];

fn set_length(log: &Path, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(log).expect("opens");
    file.set_len(bytes).expect("cut");
}

fn logs_that_are_needed_must_be_there(scratch: Scratch) {
    let (original, options, all) = with_logs(scratch);
    let logs = logs_needed(original.path());
    for (at, (log, bytes)) in logs.iter().enumerate() {
        for (what, harm) in HARMS {
            // Behind the end of an older one there may be what an earlier log in its file had.
            if at + 2 < logs.len() && what == HARMS[3].0 {
                continue;
            }
            let copied = copy(original.path());
            let name = log.file_name().expect("a name");
            harm(&copied.path().join("rocksdb").join(name), *bytes);
            for start in 1..=2 {
                match open(copied.path(), &options) {
                    Err(Error::Corrupt(text)) => assert!(text.contains(".log"), "{text}"),
                    Err(error) => panic!("log {at} {what}, start {start}: {error}"),
                    Ok(_) => panic!("log {at} {what}, start {start}: nothing was noticed"),
                }
            }
        }
    }
    let engine = open(original.path(), &options).expect("opens");
    assert_eq!(count(&engine, Space::Records), all);
    assert_eq!(get(&engine, Space::Index, b"k"), Some(b"first".to_vec()));
}

#[test]
fn a_log_that_is_needed_is_missed_and_so_is_a_part_of_it() {
    logs_that_are_needed_must_be_there(Scratch::new());
}

#[test]
fn an_encrypted_log_that_is_needed_is_missed_and_so_is_a_part_of_it() {
    logs_that_are_needed_must_be_there(encrypted());
}

#[test]
fn no_compaction_begins_before_a_close_and_writes_go_on() {
    let scratch = Scratch::new();
    let options = Options { write_buffer_bytes: Some(1 << 20), ..options_at(scratch.path()) };
    let engine = open(scratch.path(), &options).expect("opens");
    let write = |from: u8, to: u8| {
        for n in from..to {
            put(&engine, Space::Records, &[n], &value(n));
        }
    };
    write(0, 20);
    until("compactions run", || gauge(&engine, "compaction_bytes_read") > 0);
    engine.begin_close();
    // The lock of fsync is released by the stop, too.
    engine.hold_files(&mut |_, _| true).expect("holds");
    engine.release_files().expect("releases");
    until("they end", || gauge(&engine, "compactions_running") == 0);
    let (read, flushed) = (gauge(&engine, "compaction_bytes_read"), gauge(&engine, "checkpoints"));
    write(20, 60);
    until("they are flushed", || gauge(&engine, "checkpoints") > flushed + 8);
    assert_eq!(gauge(&engine, "compaction_bytes_read"), read);
    engine.close().expect("closes");
    drop(engine);
    // The next start compacts again.
    let engine = open(scratch.path(), &options).expect("opens");
    assert!((0..60).all(|n| get(&engine, Space::Records, &[n]) == Some(value(n))));
    until("compactions run again", || gauge(&engine, "compaction_bytes_read") > 0);
}

/// What a start would refuse is found without one, and looking changes nothing.
#[test]
fn files_are_examined_as_by_a_start() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    assert_eq!(examine(dir).expect("reads"), Examined::NotRecorded, "there is nothing");
    let engine = open_at(dir);
    put(&engine, Space::Records, b"a", b"1");
    assert_eq!(examine(dir).expect("reads"), Examined::NotRecorded, "it is in use");
    drop(engine);
    assert_eq!(examine(dir).expect("reads"), Examined::Unchanged);
    let entries = std::fs::read_dir(dir.join("rocksdb")).expect("a folder");
    let files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let named = |part: &str| {
        let found = files.iter().find(|path| path.to_string_lossy().contains(part));
        found.expect("a file").clone()
    };
    for file in [named(".sst"), named("MANIFEST"), named("CURRENT")] {
        let bytes = std::fs::read(&file).expect("reads");
        for damaged in [None, Some(&bytes[..bytes.len() - 1])] {
            std::fs::remove_file(&file).expect("removes");
            damaged.inspect(|bytes| std::fs::write(&file, bytes).expect("writes"));
            let Examined::Damaged(texts) = examine(dir).expect("reads") else { panic!("{file:?}") };
            assert!(texts[0].contains(&*file.display().to_string()), "{texts:?}");
            let refused = open(dir, &options_at(dir)).err().expect("damage");
            assert!(refused.to_string().contains(&texts[0]), "{refused}");
            std::fs::write(&file, &bytes).expect("writes");
        }
    }
    assert_eq!(examine(dir).expect("reads"), Examined::Unchanged);
    assert_eq!(get(&open_at(dir), Space::Records, b"a"), Some(b"1".to_vec()));
    // A record that is damaged itself says nothing.
    std::fs::write(dir.join("nagi.closed"), "sequence 1\nend 00000000\n").expect("writes");
    assert_eq!(examine(dir).expect("reads"), Examined::NotRecorded);
}
