//! A full disk: on a small tmpfs, if this process may mount one.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nagi_kv::{Durability, Engine, Error, Space, TxnOptions};
use nagi_kv_rocks::{Options, open};

use crate::{
    Scratch,
    reopen::{count, get},
};

/// A mounted tmpfs.
struct Mount(Scratch);

impl Mount {
    fn new(megabytes: u32) -> Option<Mount> {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path()).expect("creates");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(scratch.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        Some(Mount(scratch))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the disk except for `keep` bytes.
    fn fill(&self, keep: u64) {
        let output = Command::new("df").args(["--output=avail", "-B1"]).arg(self.path()).output();
        let text = String::from_utf8(output.expect("runs").stdout).expect("text");
        let free: u64 = text.lines().nth(1).expect("a line").trim().parse().expect("a number");
        let chunk = vec![0; 1 << 16];
        let mut file = fs::File::create(self.path().join("ballast")).expect("creates");
        for _ in 0..free.saturating_sub(keep) >> 16 {
            if std::io::Write::write_all(&mut file, &chunk).is_err() {
                return;
            }
        }
    }

    fn free(&self) {
        fs::remove_file(self.path().join("ballast")).expect("removes");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

fn options() -> Options {
    Options {
        cache_bytes: 16 << 20,
        write_buffer_bytes: Some(2 << 20),
        commit_interval_ms: 5,
        ..Options::default()
    }
}

fn value(number: u32) -> Vec<u8> {
    (0..4096_u32).map(|i| ((i ^ number).wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

fn put(engine: &Arc<dyn Engine>, number: u32, durability: Durability) -> Result<(), Error> {
    let mut txn = engine.begin(TxnOptions::default())?;
    txn.put(Space::Records, &(number + 1).to_be_bytes(), &value(number))?;
    txn.add(Space::Counters, b"n", &[1])?;
    txn.commit(durability).map(|_| ())
}

/// What the engine says of a full disk.
fn is_full(engine: &Arc<dyn Engine>) -> i64 {
    let mut found = -1;
    engine.stats(&mut |name, value| found = if name == "write_stopped" { value } else { found });
    found
}

fn fill_up(engine: &Arc<dyn Engine>, first: u32) -> u32 {
    for number in first..first + 100_000 {
        match put(engine, number, Durability::Buffered) {
            Ok(()) => {}
            Err(Error::Full) => return number,
            Err(other) => panic!("a full disk is `Full`, not {other}"),
        }
    }
    panic!("the disk never filled up");
}

fn check(engine: &Arc<dyn Engine>, written: u32) {
    for number in 0..written {
        let stored = get(engine, Space::Records, &(number + 1).to_be_bytes());
        assert_eq!(stored, Some(value(number)), "record {number} of {written}");
    }
    assert_eq!(count(engine, Space::Records), u64::from(written));
    let counter = i64::from(written).to_le_bytes().to_vec();
    assert_eq!(get(engine, Space::Counters, b"n"), Some(counter));
}

/// Retries until the disk is no longer full.
fn eventually(dir: &Path, mut write: impl FnMut() -> Result<(), Error>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = write() {
        assert!(matches!(error, Error::Full), "a full disk is `Full`, not {error}");
        if Instant::now() > deadline {
            let log = fs::read_to_string(dir.join("rocksdb/LOG")).unwrap_or_default();
            panic!("writes did not resume; RocksDB says\n{log}");
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn writes_stop_reads_go_on_writes_resume() {
    let Some(mount) = Mount::new(96) else { return };
    let dir = mount.path().join("data");
    let engine = open(&dir, &options()).expect("opens");
    mount.fill(60 << 20);
    assert_eq!(is_full(&engine), 0);
    let mut written = fill_up(&engine, 0);
    assert!(written > 500, "only {written} records fitted into 60 MB");
    assert_eq!(is_full(&engine), 1);
    check(&engine, written);
    // A compaction that finishes may release some space, which is filled as well.
    written = fill_up(&engine, written);
    // Deletions and catalog changes are still possible (once no compaction uses the last space).
    eventually(&dir, || {
        let mut txn = engine.begin(TxnOptions::default())?;
        txn.put(Space::Catalog, b"c", b"dropped")?;
        txn.commit(Durability::Synced).map(|_| ())
    });
    mount.free();
    // Without another write.
    assert_eq!(is_full(&engine), 0);
    for _ in 0..100 {
        eventually(&dir, || put(&engine, written, Durability::Synced));
        written += 1;
    }
    drop(engine);
    let engine = open(&dir, &options()).expect("opens again");
    check(&engine, written);
    engine.drop_range(Space::Records, &[], &[]).expect("drops");
    assert_eq!(count(&engine, Space::Records), 0);
}

#[test]
fn a_disk_filled_by_others_is_survived() {
    let Some(mount) = Mount::new(64) else { return };
    let dir = mount.path().join("data");
    let engine = open(&dir, &options()).expect("opens");
    let mut written = 0;
    for _ in 0..200 {
        put(&engine, written, Durability::Synced).expect("there is capacity");
        written += 1;
    }
    // No space is left, not even for the log's buffered data.
    mount.fill(0);
    let mut refused = 0;
    for _ in 0..2000 {
        match put(&engine, written, Durability::Buffered) {
            Ok(()) => written += 1,
            Err(Error::Full) => refused += 1,
            Err(other) => panic!("a full disk is `Full`, not {other}"),
        }
    }
    assert!(refused > 0);
    check(&engine, written);
    mount.free();
    eventually(&dir, || put(&engine, written, Durability::Synced));
    written += 1;
    put(&engine, written, Durability::Synced).expect("there is capacity again");
    written += 1;
    check(&engine, written);
    drop(engine);
    check(&open(&dir, &options()).expect("opens again"), written);
}
