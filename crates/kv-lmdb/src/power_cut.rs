//! Simulates power cuts at every step between a layer and the data file.
//!
//! The test models the disk. Of the data file it has the current contents (LMDB syncs each write transaction); of
//! the log's files it has the contents at their last sync, under the names that the folder had when it was last
//! synced. At each step of the engine a folder is built as the disk would have it and opened by another engine, and
//! the test checks that every transaction is there as a whole or not at all.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use nagi_kv::{Durability, Engine, Error, Maintenance as _, Result, Space, TxnOptions};
use nagi_testkit::Scratch;
use parking_lot::Mutex;

use crate::{
    Growth, Lmdb, Options,
    engine::{ENGINE, JOURNAL, open_files, open_with},
    hook::{Hook, Moment},
    log::SyncWork,
};

/// The contents of the disk after a power cut at this moment.
#[derive(Default)]
struct Disk {
    dir: PathBuf,
    /// Synced contents of the log's segments, by number.
    synced: BTreeMap<u64, Vec<u8>>,
    named: Vec<u64>,
}

impl Disk {
    fn sync(&mut self, work: &SyncWork) {
        let (numbers, names) = work.numbers();
        for number in &numbers {
            let bytes = fs::read(self.segment(*number)).expect("reads");
            self.synced.insert(*number, bytes);
        }
        if names {
            self.named.extend(numbers);
        }
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.dir.join(JOURNAL).join(format!("j._{number}"))
    }

    /// Creates a folder with the disk's contents. If `log`, the log has only its synced part; else everything
    /// written.
    fn after_cut(&self, log: bool) -> Scratch {
        let cut = Scratch::new();
        for folder in [ENGINE, JOURNAL] {
            fs::create_dir_all(cut.path().join(folder)).expect("a folder");
        }
        let copy = |name: &Path| {
            fs::copy(self.dir.join(name), cut.path().join(name)).expect("copies");
        };
        copy("nagi.storage".as_ref());
        copy(&Path::new(ENGINE).join("data.mdb"));
        for entry in fs::read_dir(self.dir.join(JOURNAL)).expect("lists") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&self.dir).expect("inside");
            let number = name.extension().and_then(|n| n.to_str()?.strip_prefix('_')?.parse().ok());
            match number {
                Some(number) if log => {
                    let bytes = self.synced.get(&number).filter(|_| self.named.contains(&number));
                    if let Some(bytes) = bytes {
                        fs::write(cut.path().join(name), bytes).expect("writes");
                    }
                }
                _ => copy(name),
            }
        }
        cut
    }
}

/// Options under which nothing is synced or applied unless the test requests it.
fn lazy() -> Options {
    Options {
        commit_interval_ms: 3_600_000,
        growth: Growth::AsWritten { small: true },
        segment_bytes: Some(4000),
        ..Options::default()
    }
}

fn key(n: u32) -> [u8; 8] {
    (u64::from(n) | 7 << 32).to_be_bytes()
}

fn other_key(n: u32) -> [u8; 8] {
    (u64::from(n.wrapping_mul(2_654_435_761)) | 8 << 32).to_be_bytes()
}

/// Commits a record, its index entry, a log entry and the counter; every tenth removes an older record.
fn commit(engine: &dyn Engine, n: u32) {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Records, &key(n), &n.to_be_bytes()).expect("free");
    txn.put(Space::Index, &other_key(n), &key(n)).expect("free");
    txn.append(Space::Changes, &n.to_be_bytes(), false).expect("appends");
    txn.add(Space::Counters, b"count", &[1]).expect("adds");
    if n % 10 == 9 {
        txn.delete(Space::Records, &key(n - 5)).expect("free");
        txn.delete(Space::Index, &other_key(n - 5)).expect("free");
    }
    txn.put(Space::Catalog, b"newest", &n.to_be_bytes()).expect("free");
    txn.commit(Durability::Buffered).expect("commits");
}

fn keys(engine: &dyn Engine, space: Space) -> usize {
    let mut cursor = engine.latest().cursor(space, &[], &[]).expect("a cursor");
    let (mut more, mut count) = (cursor.seek(&[]).expect("seeks"), 0);
    while more {
        count += 1;
        more = cursor.next().expect("moves");
    }
    count
}

/// The number of commits 0, 1, ... that exist; checks that each is whole and that no later one exists.
fn commits(engine: &dyn Engine) -> u32 {
    let mut buf = Vec::new();
    let mut number = |space, key: &[u8]| {
        let value = engine.latest().get(space, key, &mut buf).expect("reads");
        value.map(|value| u32::from_be_bytes(*value.last_chunk().expect("a number")))
    };
    let count = number(Space::Catalog, b"newest").map_or(0, |n| n + 1);
    let is_there = |n: u32| n % 10 != 4 || n + 5 >= count;
    for n in 0..count {
        let (record, index) =
            (number(Space::Records, &key(n)), number(Space::Index, &other_key(n)));
        assert_eq!((record, index), (is_there(n).then_some(n), is_there(n).then_some(n)), "{n}");
    }
    let there = (0..count).filter(|n| is_there(*n)).count();
    assert_eq!(keys(engine, Space::Records), there);
    assert_eq!(keys(engine, Space::Index), there);
    assert_eq!(keys(engine, Space::Changes), count as usize);
    let counted = engine.latest().get(Space::Counters, b"count", &mut buf).expect("reads");
    let counted = counted.map_or(0, |v| i64::from_le_bytes(v.try_into().expect("eight bytes")));
    assert_eq!(counted, i64::from(count));
    count
}

/// Opens the engine so that only the test writes the data file.
fn open(dir: &Path) -> Lmdb {
    let (engine, _) = open_files(dir, &lazy()).expect("opens");
    engine.core.applier.stop();
    engine
}

/// Cuts the power at each step. Returns the number of commits that existed after each.
fn cut_at_each_step(engine: &Lmdb, disk: &Arc<Mutex<Disk>>, fails: bool) -> Arc<Mutex<Vec<u32>>> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let (disk, seen) = (Arc::clone(disk), Arc::clone(&found));
    engine.core.hook.set(Box::new(move |moment| {
        match moment {
            Moment::LogSynced(_) if fails => {
                return Err(Error::Io(io::Error::from(io::ErrorKind::StorageFull)));
            }
            Moment::LogSynced(work) => disk.lock().sync(work),
            Moment::Stepped => {
                let cut = disk.lock().after_cut(true);
                seen.lock().push(commits(&open(cut.path())));
            }
            Moment::Sliced => {}
        }
        Ok(())
    }));
    found
}

fn disk_of(dir: &Path) -> Arc<Mutex<Disk>> {
    Arc::new(Mutex::new(Disk { dir: dir.to_owned(), ..Disk::default() }))
}

#[test]
fn a_cut_between_two_steps_leaves_whole_transactions() {
    let scratch = Scratch::new();
    let engine = open(scratch.path());
    let disk = disk_of(scratch.path());
    let found = cut_at_each_step(&engine, &disk, false);
    (0..60).for_each(|n| commit(&engine, n));
    engine.core.checkpoint().expect("writes");
    // Writes over entries that are in the file already, with a dropped range.
    (60..150).for_each(|n| commit(&engine, n));
    engine.drop_range(Space::Records, &[9], &[]).expect("drops");
    (150..170).for_each(|n| commit(&engine, n));
    engine.core.checkpoint().expect("writes");
    let found = found.lock().clone();
    assert!(found.len() > 30, "many steps: {found:?}");
    // The log was synced before the first step, so no commit is missing after any step.
    assert!(found.iter().all(|count| [60, 170].contains(count)), "{found:?}");
}

#[test]
fn a_cut_while_a_killed_process_is_recovered_leaves_whole_transactions() {
    let (scratch, killed) = (Scratch::new(), Scratch::new());
    let engine = open(scratch.path());
    (0..100).for_each(|n| commit(&engine, n));
    // Everything that was written, of which nothing is on the disk.
    let after = disk_of(scratch.path()).lock().after_cut(false);
    nagi_testkit::copy_folder(after.path(), killed.path()).expect("copies");
    let disk = disk_of(killed.path());
    let found = Arc::new(Mutex::new(Vec::new()));
    let (cut, seen) = (Arc::clone(&disk), Arc::clone(&found));
    let hook = Hook::default();
    hook.set(Box::new(move |moment| {
        match moment {
            Moment::LogSynced(work) => cut.lock().sync(work),
            Moment::Stepped => {
                let cut = cut.lock().after_cut(true);
                seen.lock().push(commits(&open(cut.path())));
            }
            Moment::Sliced => {}
        }
        Ok(())
    }));
    let (engine, _) = open_with(killed.path(), &lazy(), hook).expect("opens");
    assert_eq!(commits(&engine), 100);
    let found = found.lock().clone();
    assert!(found.len() > 20 && found.iter().all(|count| *count == 100), "{found:?}");
}

#[test]
fn when_the_log_cannot_be_synced_a_layer_goes_to_the_file_whole() {
    let scratch = Scratch::new();
    let engine = open(scratch.path());
    let disk = disk_of(scratch.path());
    (0..40).for_each(|n| commit(&engine, n));
    let found = cut_at_each_step(&engine, &disk, false);
    engine.core.checkpoint().expect("writes");
    (40..90).for_each(|n| commit(&engine, n));
    engine.drop_range(Space::Records, &[9], &[]).expect("drops");
    found.lock().clear();
    let found = cut_at_each_step(&engine, &disk, true);
    (90..120).for_each(|n| commit(&engine, n));
    assert!(engine.core.sync().is_err());
    let cut = disk.lock().after_cut(true);
    assert_eq!(commits(&open(cut.path())), 90, "the file has forty, the log the others");
    // More commits arrive while the log is not trusted.
    (120..130).for_each(|n| commit(&engine, n));
    engine.core.sync().expect("the file takes them instead");
    assert_eq!(*found.lock(), [130]);
    assert!(!engine.core.commit.lock().sync_failed);
    let cut = disk.lock().after_cut(true);
    assert_eq!(commits(&open(cut.path())), 130);
    // The log is used again.
    let found = cut_at_each_step(&engine, &disk, false);
    (130..140).for_each(|n| commit(&engine, n));
    engine.core.sync().expect("syncs");
    assert!(found.lock().is_empty());
    let cut = disk.lock().after_cut(true);
    assert_eq!(commits(&open(cut.path())), 140);
}

#[test]
fn a_range_is_dropped_in_slices_and_others_go_on_in_between() {
    const MANY: u32 = 5000;
    let scratch = Scratch::new();
    let engine = Arc::new(open(scratch.path()));
    let range = |n: u32| [&[9][..], &n.to_be_bytes()].concat();
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    for n in 0..MANY {
        txn.put(Space::Records, &range(n), b"to be dropped").expect("free");
    }
    txn.commit(Durability::Buffered).expect("commits");
    (0..10).for_each(|n| commit(&*engine, n));
    let count = |engine: &dyn Engine| {
        let mut cursor = engine.latest().cursor(Space::Records, &[9], &[]).expect("a cursor");
        let (mut more, mut count) = (cursor.seek(&[9]).expect("seeks"), 0);
        while more {
            count += 1;
            more = cursor.next().expect("moves");
        }
        count
    };
    let slices = Arc::new(AtomicU32::new(0));
    let (weak, calls, dir) =
        (Arc::downgrade(&engine), Arc::clone(&slices), disk_of(scratch.path()));
    engine.core.hook.set(Box::new(move |moment| -> Result<()> {
        let Moment::Sliced = moment else { return Ok(()) };
        let engine = weak.upgrade().expect("is open");
        let n = calls.fetch_add(1, Relaxed);
        // The lock is free: commits, reads and writes of a layer to the file continue.
        commit(&*engine, 10 + n);
        assert_eq!(count(&*engine), MANY - (n + 1) * 1024);
        if n == 3 {
            engine.core.checkpoint()?;
        }
        // A killed process leaves part of the range; the next drop removes the rest.
        let killed = dir.lock().after_cut(false);
        let again = open(killed.path());
        assert!(count(&again) >= MANY - 4 * 1024);
        again.drop_range(Space::Records, &[9], &[]).expect("drops");
        assert_eq!((count(&again), commits(&again)), (0, 11 + n));
        Ok(())
    }));
    engine.drop_range(Space::Records, &[9], &[]).expect("drops");
    assert_eq!(slices.load(Relaxed), 4);
    assert_eq!((count(&*engine), commits(&*engine)), (0, 14));
    let killed = disk_of(scratch.path()).lock().after_cut(false);
    assert_eq!(count(&open(killed.path())), 0);
    engine.core.checkpoint().expect("writes");
    assert_eq!((count(&*engine), commits(&*engine)), (0, 14));
}
