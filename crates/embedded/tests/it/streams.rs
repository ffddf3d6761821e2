//! Change streams.

use std::time::{Duration, Instant};

use nagi::{Database, DocBuf, Options, doc};
use nagi_testkit::Scratch;

const LONG: Duration = Duration::from_secs(30);

fn kinds(events: &[DocBuf]) -> Vec<String> {
    events.iter().map(|e| e.get("operationType").as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_stream_continues_after_a_restart() {
    let folder = Scratch::new();
    let options = || Options::new().cache_mb(64).replica_set("rs0");
    let db = Database::open(folder.path(), options()).unwrap();
    let c = db.database("d").collection("c");
    let mut stream = c.watch().unwrap();
    let (mut all, before) = (db.watch().unwrap(), stream.resume_token().unwrap().clone());
    c.insert_one(doc! { "_id": 1 }).unwrap();
    db.database("other").collection("c").insert_one(doc! { "_id": 1 }).unwrap();
    let first = stream.next_within(LONG).unwrap().unwrap();
    assert_eq!(kinds(std::slice::from_ref(&first)), ["insert"]);
    assert_eq!(all.by_ref().take(2).map(Result::unwrap).count(), 2);
    c.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 1 } }).unwrap();
    c.delete_one(doc! { "_id": 1 }).unwrap();
    db.close().unwrap();

    let db = Database::open(folder.path(), options()).unwrap();
    let c = db.database("d").collection("c");
    let none = Vec::<DocBuf>::new;
    let after = first.get("_id").as_doc().unwrap();
    let mut later = c.watch_with(none(), doc! { "resumeAfter": after }).unwrap();
    let rest: Vec<_> = (0..2).map(|_| later.next_within(LONG).unwrap().unwrap()).collect();
    assert_eq!(kinds(&rest), ["update", "delete"]);
    let mut whole = c.watch_with(none(), doc! { "resumeAfter": (&before) }).unwrap();
    let whole: Vec<_> = (0..3).map(|_| whole.next_within(LONG).unwrap().unwrap()).collect();
    assert_eq!(kinds(&whole), ["insert", "update", "delete"]);
}

#[test]
fn waiting_is_limited_and_a_lost_cursor_is_replaced() {
    let db = Database::in_memory_with(Options::new().in_memory_mb(256).replica_set("rs0")).unwrap();
    let c = db.database("d").collection("c");
    let mut stream = c.watch().unwrap();
    let begin = Instant::now();
    assert!(stream.next_within(Duration::from_millis(50)).unwrap().is_none());
    assert!((Duration::from_millis(50)..LONG).contains(&begin.elapsed()));
    c.insert_one(doc! { "_id": 1 }).unwrap();
    assert!(stream.next_within(LONG).unwrap().is_some());
    // As an idle cursor that the database has closed.
    db.run_command("admin", doc! { "killAllSessions": [] }).unwrap();
    c.insert_many([doc! { "_id": 2 }, doc! { "_id": 3 }]).unwrap();
    let ids: Vec<_> = (0..2)
        .map(|_| stream.next_within(LONG).unwrap().unwrap())
        .map(|e| e.get("documentKey").as_doc().unwrap().get("_id").to_string())
        .collect();
    assert_eq!(ids, ["2", "3"]);
    c.drop().unwrap();
    let last: Vec<_> = stream.by_ref().map(Result::unwrap).collect();
    assert_eq!(kinds(&last), ["drop", "invalidate"]);
}
