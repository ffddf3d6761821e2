//! `kill -9` in the middle of writes: what was acknowledged is there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use nagi::{Database, Engine, Options, doc};
use nagi_testkit::Scratch;

const FOLDER: &str = "NAGI_TEST_CRASH_FOLDER";
const ENGINE: &str = "NAGI_TEST_CRASH_ENGINE";
/// Acknowledged writes before the kill.
const WRITES: usize = 200;

fn options(engine: Engine) -> Options {
    Options::new().cache_mb(64).engine(engine)
}

/// The child: inserts documents one by one and prints the `_id` of each that was acknowledged.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let engine = match std::env::var_os(ENGINE) {
        Some(_) => Engine::Lmdb,
        None => Engine::Rocks,
    };
    let db = Database::open(Path::new(&folder), options(engine)).unwrap();
    let c = db.database("d").collection("c").journaled();
    c.create_index(doc! { "a": 1 }).unwrap();
    let mut out = std::io::stdout();
    for n in 0.. {
        c.insert_one(doc! { "_id": n, "a": (n % 7) }).unwrap();
        writeln!(out, "written {n}").unwrap();
        out.flush().unwrap();
    }
}

fn killed_while_writing(engine: Engine) {
    let folder = Scratch::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::child", "--nocapture"]).env(FOLDER, folder.path());
    if engine == Engine::Lmdb {
        command.env(ENGINE, "lmdb");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut last = None;
    let number = |line: &str| line.rsplit_once("written ")?.1.parse::<i64>().ok();
    let mut lines = lines.filter_map(|line| number(&line));
    for n in lines.by_ref().take(WRITES) {
        last = Some(n);
    }
    child.kill().unwrap();
    // What it had printed before it died.
    last = lines.last().or(last);
    child.wait().unwrap();
    let acknowledged = last.expect("the child wrote");
    assert!(acknowledged >= WRITES as i64 - 1, "{acknowledged}");

    let db = Database::open(folder.path(), options(engine)).unwrap();
    let c = db.database("d").collection("c");
    let found = c.count(doc! {}).unwrap() as i64;
    assert!((acknowledged + 1..=acknowledged + 2).contains(&found), "{acknowledged} {found}");
    assert_eq!(c.count(doc! { "_id": { "$lte": acknowledged } }).unwrap() as i64, acknowledged + 1);
    let reply = db.run_command("d", doc! { "validate": "c", "full": true }).unwrap();
    assert!(reply.get("valid").is_truthy(), "{reply:?}");
    db.close().unwrap();
}

#[test]
fn a_killed_process_loses_nothing() {
    killed_while_writing(Engine::Rocks);
}

#[test]
fn a_killed_process_loses_nothing_with_lmdb() {
    killed_while_writing(Engine::Lmdb);
}
