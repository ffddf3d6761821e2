//! A disk that fails (EIO): an error of the write, and no end of this process.

use std::path::Path;
use std::process::Command;

use nagi::{Database, Engine, ErrorKind, Options, doc};
use nagi_testkit::Scratch;

/// While the file exists, syncs fail.
const FLAG: &str = "NAGI_TEST_BROKEN_FLAG";
const FOLDER: &str = "NAGI_TEST_BROKEN_FOLDER";
/// Preloaded into the child process in place of the C library's functions.
const SYNCS: &str = r#"
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int sync_with(long call, int file) {
  const char *flag = getenv("NAGI_TEST_BROKEN_FLAG");
  if (flag && access(flag, F_OK) == 0) { errno = EIO; return -1; }
  return (int)syscall(call, file);
}
int fsync(int file) { return sync_with(SYS_fsync, file); }
int fdatasync(int file) { return sync_with(SYS_fdatasync, file); }
"#;

#[test]
fn child() {
    let (Some(folder), Some(flag)) = (std::env::var_os(FOLDER), std::env::var_os(FLAG)) else {
        return;
    };
    for engine in [Engine::Rocks, Engine::Lmdb] {
        let folder = Path::new(&folder).join(format!("{engine:?}"));
        fails_and_opens_again(engine, &folder, Path::new(&flag));
    }
}

fn fails_and_opens_again(engine: Engine, folder: &Path, flag: &Path) {
    let options = || Options::new().cache_mb(32).engine(engine);
    let db = Database::open(folder, options()).unwrap();
    let c = db.database("d").collection("c");
    c.create_index(doc! { "a": 1 }).unwrap();
    c.insert_many((0..1000).map(|n| doc! { "_id": n, "a": (n % 7) })).unwrap();
    std::fs::write(flag, "").unwrap();
    let error = c.journaled().insert_one(doc! { "_id": 1000, "a": 1 }).unwrap_err();
    assert!(error.message().contains("Input/output error"), "{error:?}");
    // The disk seems to work again, but what it lost is unknown.
    std::fs::remove_file(flag).unwrap();
    for n in 2000..2010 {
        let error = c.insert_one(doc! { "_id": n }).unwrap_err();
        assert!(error.message().contains("close the database and open it again"), "{error:?}");
    }
    assert!(c.delete_one(doc! { "_id": 1 }).is_err() && db.database("d").drop().is_err());
    assert!(c.count(doc! { "a": 1 }).unwrap() >= 143, "reads continue");
    let error = db.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");

    let db = Database::open(folder, options()).unwrap();
    let c = db.database("d").collection("c");
    assert_eq!(c.count(doc! { "_id": { "$lt": 1000 } }).unwrap(), 1000);
    assert_eq!(c.count(doc! { "_id": { "$gte": 2000 } }).unwrap(), 0);
    let reply = db.run_command("d", doc! { "validate": "c", "full": true }).unwrap();
    assert!(reply.get("valid").is_truthy(), "{reply:?}");
    c.journaled().insert_one(doc! { "_id": 3000 }).unwrap();
    db.close().unwrap();
}

#[test]
fn a_disk_that_fails_ends_no_process() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let (source, library) = (scratch.path().join("syncs.c"), scratch.path().join("syncs.so"));
    std::fs::write(&source, SYNCS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "broken::child", "--nocapture"]).env("LD_PRELOAD", library);
    child.env(FOLDER, scratch.path()).env(FLAG, scratch.path().join("flag"));
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
