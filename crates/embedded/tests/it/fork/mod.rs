//! A process that is forked while a database is open.

mod raw;

use std::process::Command;

use nagi::{Database, Engine, ErrorKind, Options, doc};
use nagi_testkit::Scratch;

use raw::in_child;

/// Set in a process that runs one test alone, so that no other test has threads when it is forked.
const ALONE: &str = "NAGI_TEST_FORK";

#[test]
fn a_forked_process_neither_uses_nor_closes_the_database() {
    if std::env::var_os(ALONE).is_none() {
        let name = "fork::a_forked_process_neither_uses_nor_closes_the_database";
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
        let output = own.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    for engine in [Engine::Rocks, Engine::Lmdb] {
        let folder = Scratch::new();
        let options = || Options::new().cache_mb(32).engine(engine).replica_set("rs0");
        let db = Database::open(folder.path(), options()).unwrap();
        let c = db.database("d").collection("c");
        c.insert_many((0..300).map(|n| doc! { "_id": n })).unwrap();
        let cursor = c.find_with(doc! {}, doc! { "batchSize": 2 }).unwrap();
        let mut session = db.start_session();
        let transaction = session.start_transaction();
        transaction.database("d").collection("c").insert_one(doc! { "_id": -1 }).unwrap();

        let status = in_child(|| {
            for error in [
                c.insert_one(doc! { "_id": 1000 }).unwrap_err(),
                c.find_one(doc! {}).unwrap_err(),
                transaction.database("d").collection("c").insert_one(doc! {}).unwrap_err(),
                db.close().unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
                assert!(error.message().contains("forked"), "{error:?}");
            }
            assert!(Database::open(folder.path(), options()).is_err());
        });
        assert_eq!(status, 0);
        transaction.commit().unwrap();
        c.insert_one(doc! { "_id": 1000 }).unwrap();
        assert!(cursor.count() >= 300);
        drop((c, session));
        // The last owner: the forked process drops it, which closes nothing, and then this one.
        let status = in_child(move || drop(db));
        assert_eq!(status, 0);
        let again = Database::open(folder.path(), options()).unwrap();
        assert_eq!(again.database("d").collection("c").count(doc! {}).unwrap(), 302);
        let reply = again.run_command("d", doc! { "validate": "c", "full": true }).unwrap();
        assert!(reply.get("valid").is_truthy(), "{reply:?}");
        again.close().unwrap();
    }
}
