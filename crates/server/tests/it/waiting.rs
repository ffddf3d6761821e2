//! Writes that wait for another client's transaction, as `currentOp` shows them.

use nagi_bson::{DocBuf, Value, doc, json};

use crate::client::{Client, is_ok, member};

const TRANSACTION: &str = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddeeff\")}, \
                           txnNumber: NumberLong(1), autocommit: false";

/// Polls currentOp until an operation with these fields is running, and returns it.
fn wait_for(admin: &mut Client, fields: &str) -> DocBuf {
    let asked = json::parse(&format!("{{currentOp: 1, {fields}}}")).unwrap();
    loop {
        let reply = admin.run("admin", asked.as_doc());
        let found = reply.get("inprog").as_array().and_then(|list| list.iter().next());
        if let Some(Value::Doc(op)) = found {
            return op.to_buf();
        }
        std::thread::yield_now();
    }
}

/// `held` is a statement of a transaction. Once the write `waits` on another connection is seen to wait for it, it is
/// ended: a delete is committed, others are aborted. Returns what currentOp shows of the write.
fn held_by(held: &str, waits: (&str, &str)) -> DocBuf {
    let server = member();
    let mut client = Client::new(&server);
    let index = "{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u', unique: true}, {key: {a: 1}, name: 'a'}]}";
    assert!(is_ok(&client.shell(index)));
    assert!(is_ok(
        &client.shell("{create: 'by_id', clusteredIndex: {key: {_id: 1}, unique: true}}")
    ));
    let ids = "{insert: 'c', documents: [{_id: 1, u: 1}, {_id: 2, u: 2}, {_id: 3, u: 3}]}";
    assert!(is_ok(&client.shell(ids)));
    let reply = client.shell(&format!("{{{held}, {TRANSACTION}, startTransaction: true}}"));
    assert!(is_ok(&reply), "{held}: {reply:?}");
    let mut admin = Client::new(&server);
    let command = json::parse(&format!("{{{}}}", waits.1)).unwrap();
    std::thread::scope(|threads| {
        let write = threads.spawn(|| Client::new(&server).run(waits.0, command.as_doc()));
        let long = "waitingForTransaction: true, microsecs_running: {$gte: 400000}";
        let op = wait_for(&mut admin, long);
        let end = if held.starts_with("delete") { "commit" } else { "abort" };
        let end = format!("{{{end}Transaction: 1, {TRANSACTION}}}");
        assert!(is_ok(&client.run("admin", json::parse(&end).unwrap().as_doc())));
        let reply = write.join().unwrap();
        assert!(is_ok(&reply) && reply.get("writeErrors").is_missing(), "{waits:?}: {reply:?}");
        op
    })
}

/// Another client's transaction may have what a write needs in other forms than as a changed document.
#[test]
fn a_write_waits_for_unique_keys_as_for_documents() {
    let inserted = "insert: 'c', documents: [{_id: 9, u: 9}]";
    let arrays = "insert: 'c', documents: [{_id: 9, a: [1, 2]}]";
    let clustered = "insert: 'by_id', documents: [{_id: 9}]";
    for (held, waits) in [
        (inserted, "insert: 'c', documents: [{_id: 9, u: 10}]"),
        (inserted, "insert: 'c', documents: [{_id: 10, u: 9}]"),
        (inserted, "insert: 'c', documents: [{_id: 10, u: 10}, {_id: 11, u: 9}]"),
        (inserted, "update: 'c', updates: [{q: {_id: 1}, u: {$set: {u: 9}}}]"),
        (inserted, "update: 'c', updates: [{q: {_id: 9}, u: {$set: {v: 1}}, upsert: true}]"),
        (inserted, "findAndModify: 'c', query: {_id: 2}, update: {$set: {u: 9}}"),
        (
            "delete: 'c', deletes: [{q: {_id: 3}, limit: 1}]",
            "update: 'c', updates: [{q: {_id: 1}, u: {$set: {u: 3}}}]",
        ),
        (clustered, "insert: 'by_id', documents: [{_id: 9}]"),
        // The first document with an array makes the index multikey.
        (arrays, "insert: 'c', documents: [{_id: 10, u: 10, a: [3]}]"),
    ] {
        let op = held_by(held, ("test", waits));
        let conflicts = nagi_bson::number::as_i64_exact(op.get("writeConflicts")).unwrap();
        assert!(conflicts <= 3, "{waits} is tried again {conflicts} times: {op:?}");
    }
}

#[test]
fn a_statement_of_bulk_write_is_shown_with_its_collection() {
    let held = "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}]";
    for (statement, op, shown) in [
        (
            "{update: 1, filter: {_id: 1}, updateMods: {$inc: {n: 1}}}",
            "update",
            "{ update: 1, filter: { _id: 1 }, updateMods: { $inc: { n: 1 } }, multi: false, upsert: false }",
        ),
        (
            "{delete: 1, filter: {_id: 1}}",
            "remove",
            "{ delete: 1, filter: { _id: 1 }, multi: false }",
        ),
    ] {
        let bulk = format!(
            "bulkWrite: 1, ops: [{{insert: 0, document: {{}}}}, {statement}], \
             nsInfo: [{{ns: 'test.d'}}, {{ns: 'test.c'}}]"
        );
        let found = held_by(held, ("admin", &bulk));
        assert_eq!(found.get("op").as_str(), Some(op), "{found:?}");
        assert_eq!(found.get("ns").as_str(), Some("test.c"), "{found:?}");
        assert_eq!(found.get("command").to_string(), shown);
    }
}

/// The lock is waited for before the first statement begins.
#[test]
fn a_bulk_write_shows_its_first_statement_while_it_waits_for_the_lock() {
    let server = member();
    let mut admin = Client::new(&server);
    assert!(is_ok(&admin.run("admin", doc! { "fsync": 1, "lock": true }.as_doc())));
    let bulk = "{bulkWrite: 1, ops: [{insert: 0, document: {_id: 1}}], nsInfo: [{ns: 'test.c'}]}";
    let bulk = json::parse(bulk).unwrap();
    std::thread::scope(|threads| {
        let write = threads.spawn(|| Client::new(&server).run("admin", bulk.as_doc()));
        let op = wait_for(&mut admin, "waitingForLock: true");
        assert_eq!(
            (op.get("op").as_str(), op.get("ns").as_str()),
            (Some("insert"), Some("test.c"))
        );
        assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
        assert!(is_ok(&write.join().unwrap()));
    });
}
