//! Large values are read from disk only by those who want them.

use std::{cell::Cell, sync::Arc};

use nagi_kv::{Durability, Read, Space, TxnOptions};
use nagi_kv_rocks::{Earlier, Gate, Options, WorkCharge, WorkMemory, attach_large_reads, open};
use parking_lot::Mutex;

use crate::{
    Scratch, open_at,
    reopen::{gauge, get, put},
    small,
};

thread_local! {
    static READS: Cell<usize> = const { Cell::new(0) };
}

thread_local! {
    static EARLIER: std::cell::RefCell<Vec<Earlier>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn note(_bytes: usize, earlier: Earlier, _waits: bool) -> bool {
    READS.set(READS.get() + 1);
    EARLIER.with_borrow_mut(|seen| seen.push(earlier));
    true
}

fn hold(_bytes: usize, _waits: bool) -> bool {
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
    attach_large_reads(Gate { read: note, hold });
    // Those of the open, if another test was first to attach.
    READS.set(0);
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

#[test]
fn a_cursor_that_moves_backward_tells_that_it_keeps_a_value_of_each_file() {
    let scratch = Scratch::new();
    // A close makes a file.
    for file in 1..=3 {
        put(&open_at(scratch.path()), Space::Records, &[file], &vec![file; 1 << 20]);
    }
    let engine = open_at(scratch.path());
    attach_large_reads(Gate { read: note, hold });
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut cursor = snapshot.cursor(Space::Records, &[0], &[9]).expect("a cursor");
    EARLIER.take();
    assert!(cursor.seek_back(&[9]).expect("seeks"));
    assert_eq!(cursor.key(), [3]);
    assert_eq!(EARLIER.take(), [Earlier::Gone, Earlier::Kept, Earlier::Kept]);
    assert!(cursor.prev().expect("moves"));
    assert!(EARLIER.take().iter().all(|earlier| *earlier == Earlier::Replaced));
    assert!(cursor.seek(&[1]).expect("seeks"));
    assert!(EARLIER.take().iter().all(|earlier| *earlier == Earlier::Gone));
}

/// A change log with a file for each value is opened, and its newest stamp found, without a block of each file.
#[test]
fn an_open_reads_the_newest_entry_of_the_log_only() {
    const FILES: u64 = 6;
    let scratch = Scratch::new();
    let mut newest = 0;
    for _ in 0..FILES {
        let engine = open_at(scratch.path());
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.append(Space::Changes, &vec![1; 1 << 20], false).expect("logs");
        newest = txn.commit(Durability::Synced).expect("commits").0;
    }
    attach_large_reads(Gate { read: note, hold });
    EARLIER.take();
    let engine = open_at(scratch.path());
    let reads = EARLIER.take().len();
    assert!(reads <= 1, "{reads} values were read");
    assert!(engine.last_stamp().0 >= newest);
}

/// The thread that fills the cache keeps a block of each file while it reads backward; no request is charged for it.
#[test]
fn the_cache_is_not_filled_with_more_large_values_than_it_has_room_for() {
    const LARGE: usize = 4 << 20;
    let scratch = Scratch::new();
    // A close makes a file.
    for file in 1..=10 {
        put(&open_at(scratch.path()), Space::Records, &[file], &vec![file; LARGE]);
    }
    put(&open_at(scratch.path()), Space::Index, b"k", &vec![1; 100 << 10]);
    let read = |cache_bytes| {
        let options = Options { cache_bytes, warm_up: true, ..small() };
        let engine = open(scratch.path(), &options).expect("opens");
        // Indexes are read first; what is read of records is known when the thread says that it has ended.
        while gauge(&engine, "warm_up_rounds") == 0 {
            std::thread::yield_now();
        }
        gauge(&engine, "warm_up_bytes") as usize
    };
    let with_little = read(96 << 20);
    assert!((100 << 10..LARGE).contains(&with_little), "{with_little}");
    let with_much = read(1 << 30);
    assert!(with_much > 10 * LARGE, "{with_much}");
}

/// Notes what each job charges, and zero for each large value that it has written.
#[derive(Clone, Debug, Default)]
struct Account(Arc<Mutex<Vec<Vec<u64>>>>);

struct Job {
    all: Account,
    place: usize,
}

impl WorkMemory for Account {
    fn begin(&self) -> Box<dyn WorkCharge> {
        let mut jobs = self.0.lock();
        jobs.push(Vec::new());
        Box::new(Job { all: self.clone(), place: jobs.len() - 1 })
    }

    fn stop(&self) {}

    fn press(&self, _presses: bool) {}
}

impl WorkCharge for Job {
    fn cover(&mut self, bytes: u64, _waits: bool) {
        self.all.0.lock()[self.place].push(bytes >> 20);
    }

    fn step(&mut self) {
        self.all.0.lock()[self.place].push(0);
    }
}

#[test]
fn a_compaction_reads_a_large_value_when_it_comes_to_it() {
    const FILES: u8 = 4;
    let scratch = Scratch::new();
    let account = Account::default();
    let value = |file: u8, round: u8| vec![file ^ round << 4; (2 + usize::from(file)) << 20];
    let open = || {
        let memory: Arc<dyn WorkMemory> = Arc::new(account.clone());
        open(scratch.path(), &Options { work_memory: Some(memory), ..small() }).expect("opens")
    };
    // A close makes a file. Each has a key in common with the others, so that they are merged.
    for round in 0..2 {
        for file in 1..=FILES {
            let engine = open();
            put(&engine, Space::Records, &[0], &[file, round]);
            put(&engine, Space::Records, &[file], &value(file, round));
            put(&engine, Space::Records, &[file, 1], &[file]);
            drop(engine);
        }
        let engine = open();
        engine.compact(Space::Records, &[], &[]).expect("compacts");
        let jobs = account.0.lock().clone();
        let writes = |job: &[u64]| job.iter().filter(|bytes| **bytes == 0).count();
        // Compactions that RocksDB has begun by itself may have merged some of the files.
        assert!(jobs.iter().any(|job| writes(job) >= 3), "{jobs:?}");
        // The largest one of a job is in its last file. It is read when the others have been written.
        for job in jobs {
            let read = job.iter().position(|bytes| Some(bytes) == job.iter().max()).unwrap_or(0);
            assert!(writes(&job[..read]) + 1 >= writes(&job), "{job:?}");
        }
        for file in 1..=FILES {
            assert!(get(&engine, Space::Records, &[file]) == Some(value(file, round)));
            assert_eq!(get(&engine, Space::Records, &[file, 1]), Some(vec![file]));
        }
        assert_eq!(get(&engine, Space::Records, &[0]), Some(vec![FILES, round]));
    }
}
