//! Opening and closing: who may, when, and what is left afterwards.

use std::time::{Duration, Instant};

use nagi::{Database, Engine, ErrorKind, Options, doc};
use nagi_testkit::Scratch;

fn small() -> Options {
    Options::new().cache_mb(32)
}

fn open(folder: &Scratch) -> Database {
    Database::open(folder.path(), small()).unwrap()
}

#[test]
fn a_folder_is_open_once() {
    let folder = Scratch::new();
    let db = open(&folder);
    let second = Database::open(folder.path(), small()).unwrap_err();
    assert_eq!((second.kind(), second.code()), (ErrorKind::InUse, 98));
    assert_eq!(second.name(), "DBPathInUse");
    let clone = db.clone();
    drop(db);
    assert_eq!(Database::open(folder.path(), small()).unwrap_err().kind(), ErrorKind::InUse);
    drop(clone);
    open(&folder).close().unwrap();
}

#[test]
fn a_clean_close_leaves_an_empty_lock_file_and_the_data() {
    let folder = Scratch::new();
    let db = open(&folder);
    let orders = db.database("shop").collection("orders");
    orders.insert_many((0..100).map(|n| doc! { "_id": n })).unwrap();
    db.close().unwrap();
    db.close().unwrap();
    assert_eq!(std::fs::read(folder.path().join("mongod.lock")).unwrap(), b"");
    let db = open(&folder);
    assert_eq!(db.database("shop").collection("orders").count(doc! {}).unwrap(), 100);
}

#[test]
fn handles_fail_after_close() {
    let folder = Scratch::new();
    let db = Database::open(folder.path(), small().replica_set("rs0")).unwrap();
    let orders = db.database("shop").collection("orders");
    orders.insert_many((0..500).map(|n| doc! { "_id": n })).unwrap();
    let mut cursor = orders.find_with(doc! {}, doc! { "batchSize": 10 }).unwrap();
    let mut stream = orders.watch().unwrap();
    let mut session = db.start_session();
    let transaction = session.start_transaction();
    let within = transaction.database("shop").collection("orders");
    within.insert_one(doc! { "_id": 1000 }).unwrap();
    db.close().unwrap();

    let closed = |error: nagi::Error| assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    // The batch in memory is still readable.
    for _ in 0..10 {
        assert!(cursor.next().unwrap().is_ok());
    }
    closed(cursor.next().unwrap().unwrap_err());
    assert!(cursor.next().is_none());
    closed(stream.next_within(Duration::from_millis(1)).unwrap_err());
    closed(orders.insert_one(doc! {}).unwrap_err());
    closed(within.insert_one(doc! {}).unwrap_err());
    closed(db.run_command("admin", doc! { "ping": 1 }).unwrap_err());
    closed(transaction.commit().unwrap_err());
    // The folder is free although they still exist.
    let again = Database::open(folder.path(), small().replica_set("rs0")).unwrap();
    assert_eq!(again.database("shop").collection("orders").count(doc! {}).unwrap(), 500);
    drop((cursor, stream, session, orders, within, db));
    again.close().unwrap();
}

#[test]
fn the_last_handle_closes_in_any_order() {
    let folder = Scratch::new();
    for round in 0..3 {
        let db = open(&folder);
        let orders = db.database("shop").collection("orders");
        orders.insert_many((0..200).map(|n| doc! { "round": round, "n": n })).unwrap();
        let cursor = orders.find_with(doc! {}, doc! { "batchSize": 2 }).unwrap();
        let session = db.start_session();
        match round {
            0 => drop((db, orders, session, cursor)),
            1 => drop((cursor, session, orders, db)),
            _ => drop((session, db, cursor, orders)),
        }
    }
    assert_eq!(open(&folder).database("shop").collection("orders").count(doc! {}).unwrap(), 600);
}

#[test]
fn close_interrupts_commands_that_wait() {
    let db = Database::in_memory_with(small().replica_set("rs0")).unwrap();
    let mut stream = db.database("shop").collection("orders").watch().unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || stream.next_within(Duration::from_secs(60)));
        let sleeper = scope.spawn(|| {
            db.database("shop").collection("orders").insert_one(doc! {})?;
            // Ends by the close, or begins after it.
            let endless = doc! { "$where": "while (true) {}" };
            db.database("shop").collection("orders").find(endless).map(drop)
        });
        while db.database("shop").collection("orders").count(doc! {}).unwrap() == 0 {
            std::thread::yield_now();
        }
        db.close().unwrap();
        assert!(sleeper.join().unwrap().is_err());
        // One event may have been read before.
        let seen = waiter.join().unwrap();
        assert!(seen.is_err() || seen.unwrap().is_some());
    });
    assert!(begin.elapsed() < Duration::from_secs(50));
}

#[test]
fn two_databases_in_one_process_are_independent() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let first = open(&one);
    let second = Database::open(two.path(), small().engine(Engine::Lmdb)).unwrap();
    let memory = Database::in_memory_with(small()).unwrap();
    for (n, db) in [&first, &second, &memory].into_iter().enumerate() {
        let c = db.database("d").collection("c");
        c.insert_many((0..=n as i32).map(|id| doc! { "_id": id })).unwrap();
        c.create_index(doc! { "a": 1 }).unwrap();
    }
    first.close().unwrap();
    let count = |db: &Database| db.database("d").collection("c").count(doc! {}).unwrap();
    assert_eq!((count(&second), count(&memory)), (2, 3));
    second.close().unwrap();
    // The engine is that of the folder.
    let again = Database::open(two.path(), small()).unwrap();
    assert_eq!(count(&again), 2);
    again.close().unwrap();
    let wrong = Database::open(two.path(), small().engine(Engine::Rocks)).unwrap_err();
    assert_eq!((wrong.kind(), wrong.code()), (ErrorKind::Options, 28662));
    assert_eq!(count(&open(&one)), 1);
}

#[test]
fn options_are_checked() {
    let folder = Scratch::new();
    let refused = |options: Options| Database::open(folder.path(), options).unwrap_err();
    for options in [
        Options::new().cache_mb(1),
        Options::new().commit_interval_ms(0),
        Options::new().parameter("noSuchParameter", "1"),
        Options::new().replica_set(""),
    ] {
        assert_eq!(refused(options).kind(), ErrorKind::Options);
    }
    let missing = refused(Options::new().create(false));
    assert_eq!(
        (missing.kind(), missing.io_kind()),
        (ErrorKind::Io, Some(std::io::ErrorKind::NotFound))
    );
    assert!(!folder.path().exists(), "a refused option creates nothing");
    let db = Database::open(folder.path(), small().parameter("ttlMonitorSleepSecs", "7")).unwrap();
    let reply =
        db.run_command("admin", doc! { "getParameter": 1, "ttlMonitorSleepSecs": 1 }).unwrap();
    assert_eq!(nagi::number::as_i64_exact(reply.get("ttlMonitorSleepSecs")), Some(7));
}

#[test]
fn background_jobs_run() {
    let db = Database::in_memory_with(small().parameter("ttlMonitorSleepSecs", "1")).unwrap();
    let c = db.database("d").collection("c");
    c.create_index_with(doc! { "at": 1 }, doc! { "expireAfterSeconds": 0 }).unwrap();
    c.insert_one(doc! { "at": (nagi::Value::DateTime(0)) }).unwrap();
    let begin = Instant::now();
    while c.count(doc! {}).unwrap() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it expires");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// The names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).ok();
    tasks
        .flatten()
        .filter_map(|task| name(task.path()))
        .map(|name| name.trim().to_owned())
        .collect()
}

/// Runs in a process of its own, so that other tests have no threads in it.
#[test]
fn no_thread_outlives_close() {
    const MARK: &str = "NAGI_TEST_THREADS";
    if std::env::var_os(MARK).is_none() {
        let own = std::env::current_exe().unwrap();
        let args = ["--exact", "life::no_thread_outlives_close", "--nocapture"];
        let output = std::process::Command::new(own).args(args).env(MARK, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let before = threads();
    for engine in [Engine::Rocks, Engine::Lmdb] {
        let folder = Scratch::new();
        let options = small().engine(engine).replica_set("rs0");
        let db = Database::open(folder.path(), options).unwrap();
        let c = db.database("d").collection("c");
        c.insert_many((0..20_000).map(|n| doc! { "n": n })).unwrap();
        let sorted = c.aggregate([doc! { "$sort": { "n": -1 } }, doc! { "$limit": 3 }]).unwrap();
        assert_eq!(sorted.count(), 3);
        assert!(threads().len() > before.len());
        db.close().unwrap();
    }
    // RocksDB's pool and the reporter of LMDB's damaged maps belong to the process. A joined thread may still be listed
    // for a moment.
    let begin = Instant::now();
    loop {
        let mut left = threads();
        left.retain(|name| !name.starts_with("rocksdb:") && name != "DamagedMap");
        if left.len() <= before.len() {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{before:?} {left:?}");
        std::thread::yield_now();
    }
}
