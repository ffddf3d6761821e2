//! The ring, the replay of a killed process, and the thread; against real files.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    files,
    place::open,
    raw::{self, Mapping},
    replay::replay,
    ring::{HEADER_BYTES, Kind, Owner, Ring},
};

/// A folder that is removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir =
            std::env::temp_dir().join(format!("nagi-ring_buffer-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn owner(dir: &Path) -> Owner {
    let data = fs::metadata(dir).unwrap();
    Owner { id: [7; 16], device: data.dev(), inode: data.ino() }
}

fn memory(path: &Path, capacity: usize) -> Mapping {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
    raw::reserve(&file, (HEADER_BYTES + capacity) as u64).unwrap();
    Mapping::new(&file, HEADER_BYTES + capacity).unwrap()
}

fn all(ring: &Ring) -> Vec<(Kind, u64, u64, Vec<u8>)> {
    let mut position = ring.head();
    let mut found = Vec::new();
    while let Some(record) = ring.peek(position, ring.tail()).unwrap() {
        found.push((record.kind, record.number, record.argument, record.bytes.to_vec()));
        position = record.next;
    }
    found
}

#[test]
fn a_ring_gives_back_in_order_what_was_pushed_however_it_wraps() {
    let dir = Scratch::new("ring");
    let ring = Ring::create(memory(&dir.path().join("ring"), 4096), &owner(dir.path()), dir.path());
    let (mut pushed, mut taken, mut position) = (0_u64, 0_u64, 0);
    let bytes_of = |n: u64| vec![n as u8; (n * 37 % 400) as usize];
    while taken < 3000 {
        while pushed < 3000 && ring.push(Kind::Data, pushed, pushed * 3, &bytes_of(pushed)) {
            pushed += 1;
        }
        assert!(ring.tail() - ring.head() <= ring.capacity());
        // Removes some records, not always all.
        for _ in 0..1 + taken % 5 {
            let Some(record) = ring.peek(position, ring.tail()).unwrap() else { break };
            assert_eq!((record.number, record.argument), (taken, taken * 3));
            assert_eq!(record.bytes, bytes_of(taken));
            (position, taken) = (record.next, taken + 1);
        }
        ring.set_head(position);
    }
    assert!(ring.peek(position, ring.tail()).unwrap().is_none());
}

#[test]
fn the_ring_of_a_killed_process_completes_its_logs() {
    let dir = Scratch::new("replay");
    let folder = dir.path();
    let ring_path = folder.join("ring");
    {
        let ring = Ring::create(memory(&ring_path, 1 << 16), &owner(folder), folder);
        // Log 7 was begun earlier and is partly written; log 5 was finished and is reused as 9.
        fs::write(files::path(folder, 7), b"abc").unwrap();
        fs::write(files::path(folder, 5), b"old log, longer").unwrap();
        ring.push(Kind::Data, 7, 2, b"cde");
        ring.push(Kind::Close, 7, 5, &[]);
        ring.push(Kind::Reuse, 9, 5, &[]);
        ring.push(Kind::Data, 9, 0, b"new");
        ring.push(Kind::Create, 11, 0, &[]);
        ring.push(Kind::Data, 11, 0, b"x");
        ring.push(Kind::Data, 11, 1, b"y");
        // Removed before the process ended.
        ring.push(Kind::Data, 3, 0, b"z");
    }
    // The process was killed without cleanup. Replaying twice (killed again meanwhile) has the same result.
    for _ in 0..2 {
        let file = OpenOptions::new().read(true).write(true).open(&ring_path).unwrap();
        let length = file.metadata().unwrap().len() as usize;
        let ring = Ring::attach(Mapping::new(&file, length).unwrap(), &owner(folder)).unwrap();
        assert_eq!(all(&ring).len(), 8);
        assert_eq!(replay(folder, &ring, 0).unwrap(), 8);
        assert_eq!(fs::read(files::path(folder, 7)).unwrap(), b"abcde");
        assert_eq!(fs::read(files::path(folder, 9)).unwrap(), b"new log, longer");
        assert_eq!(fs::read(files::path(folder, 11)).unwrap(), b"xy");
        assert!(!files::path(folder, 5).exists() && !files::path(folder, 3).exists());
    }
}

#[test]
fn a_foreign_or_damaged_ring_is_refused() {
    let dir = Scratch::new("foreign");
    let folder = dir.path();
    let ring_path = folder.join("ring");
    let ring = Ring::create(memory(&ring_path, 4096), &owner(folder), folder);
    ring.push(Kind::Create, 1, 0, &[]);
    drop(ring);
    let file = OpenOptions::new().read(true).write(true).open(&ring_path).unwrap();
    let map = || Mapping::new(&file, HEADER_BYTES + 4096).unwrap();
    for other in [
        Owner { id: [8; 16], ..owner(folder) },
        Owner { inode: 1, ..owner(folder) },
        Owner { device: 1, ..owner(folder) },
    ] {
        assert!(Ring::attach(map(), &other).is_err());
    }
    assert!(Ring::attach(map(), &owner(folder)).is_ok());
    // Impossible positions and records.
    for (at, value) in [(128_usize, 1_u64 << 40), (40, 1 << 40), (64, 64)] {
        let map = map();
        let old = map.load(at);
        map.store(at, value);
        assert!(Ring::attach(map, &owner(folder)).is_err(), "{at}");
        self::map(&file).store(at, old);
    }
    let ring = Ring::attach(map(), &owner(folder)).unwrap();
    map().store(HEADER_BYTES, u64::MAX);
    assert!(ring.peek(0, ring.tail()).is_err());
    assert!(replay(folder, &ring, 0).is_err());
}

fn map(file: &File) -> Mapping {
    Mapping::new(file, HEADER_BYTES + 4096).unwrap()
}

#[test]
fn logs_are_written_by_the_thread_and_nothing_stays_behind() {
    let dir = Scratch::new("thread");
    let folder = dir.path();
    let Some(ring_buffer) = open(folder, 64 << 10, 0).unwrap() else { return };
    let ring = ring_of(folder);
    assert!(ring.exists());
    let inner = Arc::clone(&ring_buffer.inner);
    let mut expected: HashMap<u64, Vec<u8>> = HashMap::new();
    for log in 1..=4_u64 {
        // The third log reuses the file of the first, whose remaining bytes stay after its own.
        match log {
            3 => assert_eq!(inner.reuse(3, 1), 0),
            _ => assert_eq!(inner.create(log), 0),
        }
        let bytes = expected.entry(log).or_default();
        // Far more than the ring's capacity, in pieces larger than a record may be.
        for n in 0..200_u64 {
            let piece = vec![(n + log) as u8; (n * 331 % 20_000) as usize];
            assert_eq!(inner.append(log, &piece), 0);
            bytes.extend_from_slice(&piece);
        }
        assert_eq!(inner.sync(log), 0);
        let found = fs::read(files::path(folder, log)).unwrap();
        assert_eq!(&found[..bytes.len()], &bytes[..]);
        assert_eq!(inner.close(log), 0);
        inner.drain();
    }
    assert!(!files::path(folder, 1).exists());
    assert_eq!(inner.append(4, b"closed"), libc::EBADF);
    let gauges = ring_buffer.gauges();
    assert!(gauges.used_bytes_max > 0 && gauges.capacity_bytes == 64 << 10);
    // A second process must not touch the ring of a running one.
    assert!(open(folder, 64 << 10, 0).is_err());
    drop((ring_buffer, inner));
    assert!(!ring.exists() && !folder.join("SPOOL").exists());
}

#[test]
fn an_append_that_waits_is_counted_while_it_waits() {
    let dir = Scratch::new("waits");
    let Some(ring_buffer) = open(dir.path(), 64 << 10, 0).unwrap() else { return };
    let inner = &ring_buffer.inner;
    assert_eq!(inner.create(1), 0);
    inner.drain();
    let waiting_for = |micros: u64| loop {
        let gauges = ring_buffer.gauges();
        if gauges.waiting_us >= micros {
            return gauges;
        }
        std::thread::yield_now();
    };
    let append = || (0..40).for_each(|_| assert_eq!(inner.append(1, &[7; 10_000]), 0));
    let later = std::thread::scope(|threads| {
        inner.held(|| {
            threads.spawn(append);
            let first = waiting_for(1);
            let later = waiting_for(first.waiting_us + 5000);
            assert_eq!((first.waits, later.waits), (1, 1));
            assert!(later.waited_us >= first.waited_us + 5000, "{first:?} {later:?}");
            later
        })
    });
    let after = ring_buffer.gauges();
    assert!(after.waiting_us == 0 && after.waited_us >= later.waited_us, "{after:?} {later:?}");
}

#[test]
fn the_removal_of_a_ring_is_told_once() {
    let dir = Scratch::new("removed");
    let Some(ring_buffer) = open(dir.path(), 64 << 10, 0).unwrap() else { return };
    assert!(!ring_buffer.warn_if_removed());
    let ring = ring_of(dir.path());
    fs::remove_file(&ring).unwrap();
    assert!(ring_buffer.warn_if_removed());
    assert!(!ring_buffer.warn_if_removed(), "once");
    drop(ring_buffer);
    // An end in order is no removal.
    let ring_buffer = open(dir.path(), 64 << 10, 0).unwrap().unwrap();
    ring_buffer.retire();
    assert!(!names_a_ring(dir.path()) && !ring_buffer.warn_if_removed());
}

/// True if the folder names a ring.
fn names_a_ring(folder: &Path) -> bool {
    folder.join("SPOOL").exists()
}

/// Sets a file's time of modification back by so many days.
fn age(path: &Path, days: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(24 * days)).unwrap();
}

#[test]
fn a_ring_is_removed_if_its_folder_does_not_name_it_or_is_not_seen_for_a_week() {
    let (gone, dir) = (Scratch::new("gone"), Scratch::new("next"));
    let Some(ring_buffer) = open(gone.path(), 64 << 10, 0).unwrap() else { return };
    let ring = ring_of(gone.path());
    // As after a kill: there is no cleanup, and the lock is free.
    let copy = ring.with_file_name(format!("nagi-{}-{}", "0".repeat(8), std::process::id()));
    let leave = || {
        fs::copy(&ring, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    };
    leave();
    drop(open(dir.path(), 64 << 10, 0).unwrap());
    // `SPOOL` of that folder names another ring.
    assert!(!copy.exists() && ring.exists());
    leave();
    drop(ring_buffer);
    assert!(!ring.exists());
    // Nothing in the folder names a ring.
    drop(open(dir.path(), 64 << 10, 0).unwrap());
    assert!(!copy.exists());
    let ring_buffer = open(gone.path(), 64 << 10, 0).unwrap().unwrap();
    let ring = ring_of(gone.path());
    fs::copy(&ring, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    drop(ring_buffer);
    // The folder cannot be seen, as that of a disk that is not mounted: its server may need the ring.
    let moved = Scratch(gone.path().with_extension("moved"));
    fs::rename(gone.path(), moved.path()).unwrap();
    drop(open(dir.path(), 64 << 10, 0).unwrap());
    assert!(copy.exists());
    // Another folder under its path, as in another container.
    fs::create_dir(gone.path()).unwrap();
    age(&copy, 6);
    drop(open(dir.path(), 64 << 10, 0).unwrap());
    assert!(copy.exists());
    age(&copy, 8);
    drop(open(dir.path(), 64 << 10, 0).unwrap());
    assert!(!copy.exists());
}

/// A folder as a killed process leaves it: a log that is only in the ring, which `SPOOL` names.
fn killed(folder: &Path, ring: &Path) {
    let made = Ring::create(memory(ring, 1 << 16), &owner(folder), folder);
    made.push(Kind::Create, 1, 0, &[]);
    made.push(Kind::Data, 1, 0, b"abc");
    fs::set_permissions(ring, fs::Permissions::from_mode(0o600)).unwrap();
    let _ = fs::remove_file(files::path(folder, 1));
    let text = format!("ring: {}\nid: {}\n", ring.display(), "07".repeat(16));
    fs::write(folder.join("SPOOL"), text).unwrap();
}

#[test]
fn a_ring_that_others_can_have_written_is_not_replayed() {
    let dir = Scratch::new("others");
    let (folder, ring) = (dir.path(), dir.path().join("ring"));
    let replays = |change: &dyn Fn()| {
        killed(folder, &ring);
        change();
        drop(open(folder, 64 << 10, 0).unwrap());
        assert!(!names_a_ring(folder));
        fs::read(files::path(folder, 1)).is_ok_and(|bytes| bytes == b"abc")
    };
    assert!(replays(&|| ()));
    for mode in [0o604, 0o620, 0o666] {
        assert!(
            !replays(&|| fs::set_permissions(&ring, fs::Permissions::from_mode(mode)).unwrap())
        );
    }
    let linked = |to: &Path| {
        fs::rename(&ring, to).unwrap();
        std::os::unix::fs::symlink(to, &ring).unwrap();
    };
    assert!(!replays(&|| linked(&folder.join("elsewhere"))));
    fs::remove_file(&ring).unwrap();
    // Only root can give a file away.
    let given = |user: u32| std::os::unix::fs::chown(&ring, Some(user), None);
    if raw::effective_user() == 0 {
        assert!(!replays(&|| given(65_534).unwrap()));
        // The whole data directory belongs to that user, whose server was killed.
        assert!(replays(&|| {
            given(65_534).unwrap();
            std::os::unix::fs::chown(folder.join("SPOOL"), Some(65_534), None).unwrap();
        }));
    }
}

#[test]
fn a_ring_is_found_without_the_file_that_names_it() {
    let dir = Scratch::new("nameless");
    let place = Path::new("/dev/shm");
    if !place.is_dir() {
        return;
    }
    let ring = place.join(format!("nagi-nameless-{}", std::process::id()));
    killed(dir.path(), &ring);
    fs::write(dir.path().join("SPOOL"), [0xff; 40]).unwrap();
    drop(open(dir.path(), 64 << 10, 0).unwrap());
    assert_eq!(fs::read(files::path(dir.path(), 1)).unwrap(), b"abc");
    assert!(!ring.exists() && !names_a_ring(dir.path()));
}

#[test]
fn the_end_in_order_does_not_wait_for_the_last_reference() {
    let dir = Scratch::new("retire");
    let Some(ring_buffer) = open(dir.path(), 64 << 10, 0).unwrap() else { return };
    let ring = ring_of(dir.path());
    assert_eq!((ring_buffer.inner.create(1), ring_buffer.inner.append(1, b"abc")), (0, 0));
    ring_buffer.retire();
    assert!(!ring.exists() && !dir.path().join("SPOOL").exists());
    // A late reader of RocksDB may still close its log.
    assert_eq!((ring_buffer.inner.sync(1), ring_buffer.inner.close(1)), (0, 0));
    assert_eq!(fs::read(files::path(dir.path(), 1)).unwrap(), b"abc");
    // The next process of the folder has its own ring file, which this one must not remove.
    let next = open(dir.path(), 64 << 10, 0).unwrap().unwrap();
    drop(ring_buffer);
    assert!(ring_of(dir.path()).exists());
    drop(next);
}

#[test]
fn a_log_that_cannot_be_created_says_so() {
    let dir = Scratch::new("fail");
    let folder = dir.path();
    let Some(ring_buffer) = open(folder, 64 << 10, 0).unwrap() else { return };
    fs::create_dir(files::path(folder, 1)).unwrap();
    assert_eq!(ring_buffer.inner.create(1), 0);
    assert_eq!(ring_buffer.inner.sync(1), libc::EISDIR);
    // The error is returned once: RocksDB's later calls only dispose of the log.
    assert_eq!(
        (ring_buffer.inner.append(1, b"x"), ring_buffer.inner.sync(1), ring_buffer.inner.close(1)),
        (0, 0, 0)
    );
    assert_eq!(ring_buffer.failures(), 1);
    fs::create_dir(files::path(folder, 2)).unwrap();
    assert_eq!(ring_buffer.inner.create(2), 0);
    ring_buffer.inner.drain();
    assert_eq!(ring_buffer.inner.append(2, b"x"), libc::EISDIR);
    assert_eq!((ring_buffer.inner.sync(2), ring_buffer.inner.close(2)), (0, 0));
    assert_eq!((ring_buffer.inner.create(3), ring_buffer.inner.append(3, b"x")), (0, 0));
    assert_eq!(
        (ring_buffer.inner.sync(3), ring_buffer.inner.close(3), ring_buffer.failures()),
        (0, 0, 2)
    );
}

fn ring_of(folder: &Path) -> PathBuf {
    let text = fs::read_to_string(folder.join("SPOOL")).unwrap();
    PathBuf::from(text.lines().next().unwrap().strip_prefix("ring: ").unwrap())
}
