//! The governor reacts to clients: background work is slowed down while they are active, and released afterwards.

use std::time::{Duration, Instant};

use nagi_kv::{Durability, Engine, Space, TxnOptions};
use nagi_kv_rocks::{Options, open};

use crate::Scratch;

const PATIENCE: Duration = Duration::from_secs(60);

fn gauge(engine: &dyn Engine, wanted: &str) -> i64 {
    let mut found = -1;
    engine.stats(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}

/// Works until the rate of background work is as wanted.
fn until(engine: &dyn Engine, wanted: impl Fn(i64) -> bool, mut work: impl FnMut()) {
    let begin = Instant::now();
    while !wanted(gauge(engine, "governor_rate_bytes")) {
        assert!(begin.elapsed() < PATIENCE, "{}", gauge(engine, "governor_rate_bytes"));
        work();
    }
}

#[test]
fn the_rate_of_background_work_follows_reads_and_writes() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &Options::default()).unwrap();
    let put = |bytes: usize| {
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        txn.put(Space::Records, b"key", &vec![7; bytes]).unwrap();
        txn.commit(Durability::Buffered).unwrap();
    };
    put(100);
    let free = 1 << 30;
    until(&*engine, |rate| rate > free, std::thread::yield_now);
    let mut buf = Vec::new();
    until(
        &*engine,
        |rate| rate > 0 && rate < 100 << 20,
        || {
            for _ in 0..1000 {
                assert!(engine.latest().get(Space::Records, b"key", &mut buf).unwrap().is_some());
            }
        },
    );
    until(&*engine, |rate| rate > free, std::thread::yield_now);
    // Small ones: the rate is a multiple of what is written, and is none at all beside 700 MB/s of them.
    until(&*engine, |rate| rate > 0 && rate < free, || put(100));
    assert_eq!(gauge(&*engine, "governor_debt_percent"), 0);
    assert_eq!(gauge(&*engine, "governor_paused_us"), 0);
}

/// The compaction threads of this process, identified by RocksDB's names.
fn compacting_threads() -> Vec<std::path::PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let tasks = tasks.map(|task| task.expect("is listed").path());
    let compacts = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "rocksdb:low")
    };
    tasks.filter(compacts).collect()
}

#[test]
fn compactions_give_way_at_the_processor_and_at_the_disk() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &Options::default()).unwrap();
    for key in 0..100_u32 {
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        txn.put(Space::Records, &key.to_be_bytes(), &[7; 100]).unwrap();
        txn.commit(Durability::Buffered).unwrap();
    }
    engine.compact(Space::Records, &[], &[]).unwrap();
    // The nineteenth field is the nice value; the name before it, in parentheses, has no space.
    let nice = |task: &std::path::PathBuf| -> i32 {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap();
        stat.split(' ').nth(18).unwrap().parse().unwrap()
    };
    let threads = compacting_threads();
    assert!(!threads.is_empty());
    assert!(threads.iter().all(|task| nice(task) > 0), "{threads:?}");
    // A thread that has compacted has the lowest priority of the best-effort class. `ionice` is part of util-linux.
    let class = |task: &std::path::PathBuf| {
        let mut ionice = std::process::Command::new("ionice");
        let asked = ionice.arg("-p").arg(task.file_name().unwrap()).output();
        String::from_utf8(asked.expect("every Debian has ionice").stdout).unwrap()
    };
    let classes: Vec<_> = threads.iter().map(class).collect();
    assert!(classes.iter().any(|class| class.trim() == "best-effort: prio 7"), "{classes:?}");
}
