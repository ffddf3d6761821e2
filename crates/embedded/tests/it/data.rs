//! Commands, cursors, transactions.

use nagi::{Database, Document, ErrorKind, Options, Value, doc, number};

fn memory() -> Database {
    Database::in_memory_with(Options::new().in_memory_mb(256)).unwrap()
}

fn member() -> Database {
    Database::in_memory_with(Options::new().in_memory_mb(256).replica_set("rs0")).unwrap()
}

/// The number of open cursors.
fn open_cursors(db: &Database) -> i64 {
    let status = db.run_command("admin", doc! { "serverStatus": 1 }).unwrap();
    let metrics = status.get("metrics").as_doc().unwrap();
    let open = metrics.get("cursor").as_doc().unwrap().get("open").as_doc().unwrap();
    number::as_i64_exact(open.get("total")).unwrap()
}

#[test]
fn bytes_are_validated() {
    let db = memory();
    let c = db.database("d").collection("c");
    for bytes in [&b""[..], b"\x05", b"\x06\0\0\0\0\0", b"\x0c\0\0\0\x02a\0\xff\0\0\0\0"] {
        let error = c.insert_one(bytes).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Document, 22), "{bytes:?}");
        assert_eq!(db.run_command("d", bytes).unwrap_err().kind(), ErrorKind::Document);
    }
    let mut deep = doc! { "a": 1 };
    for _ in 0..200 {
        deep = doc! { "a": (&deep) };
    }
    // Valid by itself, but not within a command.
    assert!(deep.document().is_ok());
    assert_eq!(c.find(&deep).unwrap_err().kind(), ErrorKind::Document);
    let huge = vec![0; 17 << 20];
    let huge = doc! { "b": (Value::Binary(nagi::Binary { subtype: 0, bytes: &huge })) };
    let error = c.insert_one(&huge).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Write, "{error:?}");
    let many = [huge.clone(), huge.clone(), huge];
    let body = doc! { "insert": "c", "documents": [(&many[0]), (&many[1]), (&many[2])] };
    assert_eq!(db.run_command("d", body).unwrap_err().kind(), ErrorKind::Document);
    assert_eq!(c.count(doc! {}).unwrap(), 0);
}

#[test]
fn a_dropped_cursor_is_closed() {
    let db = memory();
    let c = db.database("d").collection("c");
    c.insert_many((0..100).map(|n| doc! { "_id": n })).unwrap();
    let mut cursor = c.find_with(doc! {}, doc! { "batchSize": 5 }).unwrap();
    assert!(cursor.next().unwrap().is_ok());
    assert_eq!(open_cursors(&db), 1);
    drop(cursor);
    assert_eq!(open_cursors(&db), 0);
    // One that is read to its end needs no command.
    let all = c.find_with(doc! {}, doc! { "batchSize": 5 }).unwrap();
    assert_eq!(all.count(), 100);
    assert_eq!(open_cursors(&db), 0);
    let error = c.find(doc! { "a": { "$nope": 1 } }).unwrap_err();
    assert_eq!((error.kind(), error.code(), error.name()), (ErrorKind::Command, 2, "BadValue"));
}

#[test]
fn large_inserts_are_split() {
    let db = memory();
    let c = db.database("d").collection("c");
    let text = "x".repeat(100_000);
    let inserted =
        c.insert_many((0..400).map(|n| doc! { "_id": n, "t": (text.as_str()) })).unwrap();
    assert_eq!((inserted, c.count(doc! {}).unwrap()), (400, 400));
    let again = (398..402).map(|n| doc! { "_id": n });
    let error = c.insert_many_with(again, doc! { "ordered": false }).unwrap_err();
    let failed = error.reply().unwrap().get("writeErrors").as_array().unwrap().count();
    assert_eq!((error.code(), failed), (11000, 2));
    assert_eq!(c.count(doc! {}).unwrap(), 402);
}

#[test]
fn updates_deletions_and_indexes() {
    let db = memory();
    let c = db.database("d").collection("c");
    c.insert_many((0..10).map(|n| doc! { "_id": n, "n": (n % 2) })).unwrap();
    let one = c.update_one(doc! { "n": 1 }, doc! { "$set": { "seen": true } }).unwrap();
    assert_eq!((one.matched, one.modified, one.upserted), (1, 1, None));
    let options = doc! { "upsert": true };
    let added =
        c.update_one_with(doc! { "_id": 99 }, doc! { "$set": { "n": 5 } }, options).unwrap();
    assert_eq!(added.upserted.unwrap().value(), Value::Int32(99));
    let whole = c.update_one(doc! { "_id": 99 }, doc! { "n": 6 }).unwrap();
    assert_eq!(whole.modified, 1);
    assert_eq!(c.delete_many(doc! { "n": 0 }).unwrap(), 5);
    assert_eq!(c.delete_one(doc! { "n": 1 }).unwrap(), 1);
    let name = c.create_index(doc! { "n": 1, "text": "hashed" }).unwrap();
    assert_eq!(name, "n_1_text_hashed");
    let unique = c.create_index_with(doc! { "n": 1 }, doc! { "unique": true }).unwrap_err();
    assert_eq!(unique.code(), 11000);
    assert_eq!(c.estimated_count().unwrap(), 5);
    let removed = c.find_and_modify(doc! { "_id": 99 }, doc! { "remove": true }).unwrap();
    assert_eq!(removed.unwrap().get("n"), Value::Int32(6));
}

#[test]
fn a_panic_or_a_deep_stack_is_an_error_of_one_command() {
    let db = memory();
    let c = db.database("d").collection("c");
    c.insert_one(doc! { "_id": 1 }).unwrap();
    let mut nested = doc! { "a": 1 };
    for _ in 0..90 {
        nested = doc! { "$and": [(&nested), { "b": { "$exists": false } }] };
    }
    // On a thread with a small stack the command gets another one.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    std::thread::scope(|scope| {
        let run = || c.find(&nested).map(|found| found.count());
        assert_eq!(small.spawn_scoped(scope, run).unwrap().join().unwrap().unwrap(), 0);
    });
    // A command that stops its server is refused: there is none.
    let shutdown = db.run_command("admin", doc! { "shutdown": 1, "force": true }).unwrap_err();
    assert_eq!(shutdown.kind(), ErrorKind::Command);
    assert_eq!(c.count(doc! {}).unwrap(), 1);
}

#[test]
fn transactions_are_atomic_and_aborted_when_dropped() {
    let db = member();
    let c = db.database("d").collection("c");
    c.insert_one(doc! { "_id": 0 }).unwrap();
    let mut session = db.start_session();
    let failed = session.with_transaction(|transaction| {
        let c = transaction.database("d").collection("c");
        c.insert_many((1..5).map(|n| doc! { "_id": n }))?;
        assert_eq!(c.count(doc! {})?, 5);
        c.insert_one(doc! { "_id": 0 }).map(drop)
    });
    assert_eq!(failed.unwrap_err().code(), 11000);
    assert_eq!(c.count(doc! {}).unwrap(), 1);
    let transaction = session.start_transaction();
    let within = transaction.database("d").collection("c");
    within.insert_one(doc! { "_id": 7 }).unwrap();
    assert_eq!(c.count(doc! {}).unwrap(), 1);
    drop(transaction);
    assert_eq!(within.insert_one(doc! { "_id": 8 }).unwrap_err().code(), 251);
    session
        .with_transaction(|transaction| {
            transaction.database("d").collection("c").insert_one(doc! { "_id": 9 }).map(drop)
        })
        .unwrap();
    assert_eq!(c.count(doc! {}).unwrap(), 2);
    // A cursor that is dropped in the middle does not disturb it.
    c.insert_many((100..150).map(|n| doc! { "_id": n })).unwrap();
    session
        .with_transaction(|transaction| {
            let c = transaction.database("d").collection("c");
            let mut cursor = c.find_with(doc! {}, doc! { "batchSize": 2 })?;
            assert_eq!(cursor.by_ref().take(5).count(), 5);
            drop(cursor);
            c.insert_one(doc! { "_id": 10 })?;
            Ok(())
        })
        .unwrap();
    assert_eq!(c.count(doc! { "_id": 10 }).unwrap(), 1);
    assert_eq!(open_cursors(&db), 0);
    // Without a replica set there are none.
    let plain = memory();
    let mut session = plain.start_session();
    let refused = session.with_transaction(|transaction| {
        transaction.database("d").collection("c").insert_one(doc! {}).map(drop)
    });
    assert_eq!(refused.unwrap_err().code(), 20);
}

#[test]
fn a_session_ends_with_its_transaction() {
    let db = member();
    let c = db.database("d").collection("c");
    c.insert_one(doc! { "_id": 0, "n": 0 }).unwrap();
    for _ in 0..3 {
        let mut session = db.start_session();
        let transaction = session.start_transaction();
        let within = transaction.database("d").collection("c");
        within.update_one(doc! { "_id": 0 }, doc! { "$inc": { "n": 1 } }).unwrap();
        std::mem::forget(transaction);
    }
    // A transaction that was left open would make this conflict.
    let updated = c.update_one(doc! { "_id": 0 }, doc! { "$inc": { "n": 1 } }).unwrap();
    assert_eq!(updated.modified, 1);
    assert_eq!(c.find_one(doc! {}).unwrap().unwrap().get("n"), Value::Int32(1));
}

#[test]
fn journaled_writes_carry_the_write_concern() {
    let folder = nagi_testkit::Scratch::new();
    let options = Options::new().cache_mb(32).journaled(true).replica_set("rs0");
    let db = Database::open(folder.path(), options).unwrap();
    let c = db.database("d").collection("c");
    c.insert_one(doc! { "_id": 1 }).unwrap();
    c.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 1 } }).unwrap();
    c.create_index(doc! { "a": 1 }).unwrap();
    c.aggregate([doc! { "$match": {} }, doc! { "$out": "copy" }]).unwrap();
    db.start_session()
        .with_transaction(|transaction| {
            transaction.database("d").collection("c").delete_one(doc! { "_id": 1 })
        })
        .unwrap();
    let refused = c.insert_many_with([doc! {}], doc! { "writeConcern": { "w": 5 } }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WriteConcern, "{refused:?}");
}
