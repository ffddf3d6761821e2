//! Folders that cannot be used, and disks that fail: errors, no panics.

use std::io;
use std::path::Path;
use std::process::Command;

use nagi::{Database, ErrorKind, Options, Value, doc};
use nagi_testkit::Scratch;

fn options() -> Options {
    Options::new().cache_mb(32)
}

/// A tmpfs, if this process may mount one.
struct Mount(Scratch);

impl Mount {
    fn new(options: &str) -> Option<Mount> {
        let folder = Scratch::new();
        std::fs::create_dir_all(folder.path()).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        Some(Mount(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]).arg(self.path());
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn what_is_no_folder_of_ours_is_refused() {
    let folder = Scratch::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"text").unwrap();
    let error = Database::open(&file, options()).unwrap_err();
    assert_eq!(error.io_kind(), Some(io::ErrorKind::NotADirectory), "{error:?}");
    std::fs::write(folder.path().join("WiredTiger"), b"").unwrap();
    let error = Database::open(folder.path(), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("another server"), "{error:?}");
    assert!(!folder.path().join("mongod.lock").exists());
}

#[test]
fn a_newer_format_is_refused() {
    let folder = Scratch::new();
    Database::open(folder.path(), options()).unwrap().close().unwrap();
    let marker = folder.path().join("nagi.storage");
    std::fs::write(&marker, "engine: rocksdb\nformat: 99\n").unwrap();
    let error = Database::open(folder.path(), options()).unwrap_err();
    assert!(error.message().contains("99"), "{error:?}");
    // The lock was released.
    let again = Database::open(folder.path(), options()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Io, "{again:?}");
}

#[test]
fn a_read_only_file_system_is_an_error() {
    let Some(mount) = Mount::new("size=64m") else { return };
    let folder = mount.path().join("data");
    let db = Database::open(&folder, options()).unwrap();
    db.database("d").collection("c").insert_one(doc! { "_id": 1 }).unwrap();
    db.close().unwrap();
    mount.remount("ro");
    let error = Database::open(&folder, options()).unwrap_err();
    assert_eq!(error.io_kind(), Some(io::ErrorKind::ReadOnlyFilesystem), "{error:?}");
    let error = Database::open(mount.path().join("new"), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    mount.remount("rw");
    let db = Database::open(&folder, options()).unwrap();
    assert_eq!(db.database("d").collection("c").count(doc! {}).unwrap(), 1);
}

#[test]
fn a_full_disk_is_an_error_and_passes() {
    let Some(mount) = Mount::new("size=48m") else { return };
    let db = Database::open(mount.path().join("data"), options()).unwrap();
    let c = db.database("d").collection("c");
    let mut seed = 1_u64;
    let mut noise = || {
        let step = |_| {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (seed >> 56) as u8
        };
        (0..64 << 10).map(step).collect::<Vec<u8>>()
    };
    let mut count = 0;
    let error = loop {
        let bytes = noise();
        let data = Value::Binary(nagi::Binary { subtype: 0, bytes: &bytes });
        match c.insert_one(doc! { "_id": count, "data": data }) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 2000, "the disk has a limit");
    };
    assert_eq!(error.code(), 14031, "{error:?}");
    // Reads continue.
    assert_eq!(c.count(doc! {}).unwrap(), count as u64);
    mount.remount("size=512m");
    let written = (0..200).find(|_| {
        let done = c.insert_one(doc! { "_id": "later" }).is_ok();
        if !done {
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
        done
    });
    assert!(written.is_some(), "writes succeed again");
    db.close().unwrap();
}
