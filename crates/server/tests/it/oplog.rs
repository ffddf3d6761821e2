//! `local.oplog.rs` through commands: what clients read of it, by time and at its end, and what they may not do.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, json};
use nagi_kv::{Engine, Faults, Faulty, Memory, Point};

use crate::client::{Client, is_ok, member, server_on};

fn run(client: &mut Client, db: &str, command: &str) -> DocBuf {
    client.run(db, json::parse(command).unwrap().as_doc())
}

fn batch(reply: &DocBuf, name: &str) -> Vec<DocBuf> {
    assert!(is_ok(reply), "{reply:?}");
    let batch = reply.get("cursor").as_doc().unwrap().get(name);
    batch.as_array().unwrap().iter().map(|doc| doc.as_doc().unwrap().to_buf()).collect()
}

fn stamp(doc: &DocBuf) -> String {
    match doc.get("ts") {
        Value::Timestamp(ts) => format!("Timestamp({}, {})", ts >> 32, ts & 0xFFFF_FFFF),
        other => panic!("{other}"),
    }
}

#[test]
fn entries_are_found_by_time_without_reading_others() {
    let server = member();
    let mut client = Client::new(&server);
    let docs: Vec<String> = (0..50).map(|n| format!("{{_id: {n}}}")).collect();
    let insert = format!("{{insert: 'c', documents: [{}]}}", docs.join(", "));
    assert!(is_ok(&client.shell(&insert)));
    let all =
        batch(&run(&mut client, "local", "{find: 'oplog.rs', batchSize: 1000}"), "firstBatch");
    let inserts: Vec<&DocBuf> =
        all.iter().filter(|doc| doc.get("op").as_str() == Some("i")).collect();
    assert_eq!(inserts.len(), 50);
    let (early, late) = (stamp(inserts[10]), stamp(inserts[19]));
    for (filter, found, examined) in [
        (format!("{{ts: {early}}}"), 1, 1),
        (format!("{{ts: {{$gte: {early}, $lt: {late}}}}}"), 9, 10),
        (format!("{{ts: {{$gt: {early}, $lte: {late}}}, 'o._id': {{$gt: 14}}}}"), 5, 9),
        (format!("{{ts: {{$gt: {}}}}}", stamp(&all[all.len() - 1])), 0, 0),
    ] {
        let find = format!("{{find: 'oplog.rs', filter: {filter}}}");
        assert_eq!(batch(&run(&mut client, "local", &find), "firstBatch").len(), found, "{filter}");
        let explain = format!("{{explain: {find}, verbosity: 'executionStats'}}");
        let stats = run(&mut client, "local", &explain);
        let stats = stats.get("executionStats").as_doc().unwrap().get("totalDocsExamined");
        assert_eq!(stats.to_string(), examined.to_string(), "{filter}");
    }
    backward(&mut client, (&early, &late), (&inserts[10..20], &all));
    for filter in ["$gte: Timestamp(0, 0)", "$gt: Timestamp(0, 0)", "$gte: Timestamp(1, 1)"] {
        let find = format!("{{find: 'oplog.rs', filter: {{ts: {{{filter}}}}}, batchSize: 1000}}");
        let found = batch(&run(&mut client, "local", &find), "firstBatch");
        assert_eq!(found.len(), all.len(), "{filter}");
    }
    let newest = "{find: 'oplog.rs', sort: {$natural: -1}, limit: 1}";
    let newest = batch(&run(&mut client, "local", newest), "firstBatch");
    assert!(newest == all[all.len() - 1..]);
    let count = run(&mut client, "local", "{count: 'oplog.rs'}");
    assert_eq!(count.get("n").to_string(), all.len().to_string());
}

/// Backward scans are narrowed as well. `some`: the entries from `early` to `late`; `all`: of the log.
fn backward(
    client: &mut Client,
    (early, late): (&str, &str),
    (some, all): (&[&DocBuf], &[DocBuf]),
) {
    for (filter, found, examined) in [
        (format!("{{ts: {early}}}"), 1, 1),
        (format!("{{ts: {{$gte: {early}, $lt: {late}}}}}"), 9, 10),
        (format!("{{ts: {{$gt: {early}, $lte: {late}}}}}"), 9, 9),
        ("{ts: {$lt: Timestamp(1, 1)}}".to_owned(), 0, 0),
        ("{ts: {$gte: Timestamp(0, 0)}}".to_owned(), all.len(), all.len()),
    ] {
        let find = format!(
            "{{find: 'oplog.rs', filter: {filter}, sort: {{$natural: -1}}, batchSize: 1000}}"
        );
        let batch = batch(&run(client, "local", &find), "firstBatch");
        assert_eq!(batch.len(), found, "{filter}");
        if found == 9 {
            let newest = some.iter().rposition(|one| **one == batch[0]).unwrap();
            assert!((0..9).all(|at| batch[at] == *some[newest - at]), "{filter}");
        }
        let explain = format!("{{explain: {find}, verbosity: 'executionStats'}}");
        let stats = run(client, "local", &explain);
        let stats = stats.get("executionStats").as_doc().unwrap().get("totalDocsExamined");
        assert_eq!(stats.to_string(), examined.to_string(), "{filter}");
    }
}

/// Each command that would write the log is refused as a whole, also if no entry matches; its definition cannot change.
#[test]
fn clients_do_not_write_it() {
    let server = member();
    let mut client = Client::new(&server);
    for (db, name) in [("local", "oplog.rs"), ("config", "system.preimages")] {
        for (code, command) in [
            (73, "insert: NAME, documents: [{_id: 1}]"),
            (73, "update: NAME, updates: [{q: {_id: 1}, u: {$set: {a: 1}}}]"),
            (73, "delete: NAME, deletes: [{q: {_id: 1}, limit: 1}]"),
            (73, "findAndModify: NAME, query: {_id: 1}, remove: true"),
            (20, "dropIndexes: NAME, index: '*'"),
            (20, "drop: NAME"),
        ] {
            let command = format!("{{{}}}", command.replace("NAME", &format!("'{name}'")));
            let reply = run(&mut client, db, &command);
            assert_eq!(reply.get("code"), Value::Int32(code), "{command}: {reply:?}");
        }
        let bulk = format!(
            "{{bulkWrite: 1, ops: [{{delete: 0, filter: {{}}}}], nsInfo: [{{ns: '{db}.{name}'}}]}}"
        );
        let reply = run(&mut client, "admin", &bulk);
        assert_eq!(reply.get("code"), Value::Int32(73), "{reply:?}");
    }
    for (code, command) in [
        (20, "{createIndexes: 'oplog.rs', indexes: [{key: {a: 1}, name: 'a'}]}"),
        (20, "{convertToCapped: 'oplog.rs', size: 4096}"),
        (20, "{collMod: 'oplog.rs', validationLevel: 'off'}"),
        (73, "{convertToCapped: 'system.replset', size: 4096}"),
    ] {
        let reply = run(&mut client, "local", command);
        assert_eq!(reply.get("code"), Value::Int32(code), "{command}: {reply:?}");
    }
}

#[test]
fn a_tailable_cursor_is_woken_by_each_commit() {
    let server = member();
    let mut client = Client::new(&server);
    let newest = "{find: 'oplog.rs', sort: {$natural: -1}, limit: 1}";
    let newest = batch(&run(&mut client, "local", newest), "firstBatch").remove(0);
    let tail = format!(
        "{{find: 'oplog.rs', filter: {{ts: {{$gt: {}}}}}, tailable: true, awaitData: true}}",
        stamp(&newest)
    );
    let opened = run(&mut client, "local", &tail);
    assert!(batch(&opened, "firstBatch").is_empty());
    let id = opened.get("cursor").as_doc().unwrap().get("id").to_string();
    let more = format!("{{getMore: NumberLong({id}), collection: 'oplog.rs', maxTimeMS: 60000}}");
    let mut found = Vec::new();
    for n in 0..3 {
        let mut writer = Client::new(&server);
        std::thread::scope(|scope| {
            let write = scope.spawn(move || {
                is_ok(&writer.shell(&format!("{{insert: 'c', documents: [{{_id: {n}}}]}}")))
            });
            // It would wait for a minute.
            while !found.iter().any(|doc: &DocBuf| {
                doc.get("o").as_doc().is_some_and(|o| o.get("_id") == Value::Int32(n))
            }) {
                found.extend(batch(&run(&mut client, "local", &more), "nextBatch"));
            }
            assert!(write.join().unwrap());
        });
    }
    let ops: Vec<_> = found.iter().map(|doc| doc.get("op").as_str().unwrap().to_owned()).collect();
    assert_eq!(ops, ["c", "i", "i", "i"]);
}

/// A reader that copies the log must not be ahead of what a power cut leaves.
#[test]
fn entries_are_durable_before_a_majority_reads_them() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    let server = server_on(engine, Some("rs"));
    let mut client = Client::new(&server);
    assert!(is_ok(&run(&mut client, "admin", "{replSetInitiate: 1}")));
    let insert = "{insert: 'c', documents: [{}], writeConcern: {w: 1}}";
    assert!(is_ok(&client.shell(insert)));
    let majority = "readConcern: {level: 'majority'}";
    let tail = format!("{{find: 'oplog.rs', tailable: true, awaitData: true, {majority}}}");
    let opened = run(&mut client, "local", &tail);
    let id = opened.get("cursor").as_doc().unwrap().get("id").to_string();
    let more = format!("{{getMore: NumberLong({id}), collection: 'oplog.rs', maxTimeMS: 1}}");
    assert!(!batch(&opened, "firstBatch").is_empty());
    assert!(is_ok(&client.shell(insert)));
    // No sync succeeds.
    faults.arm(Point::Maintain, 0, u64::MAX, || nagi_kv::Error::other("no sync".to_owned()));
    for (command, allowed) in [
        ("{find: 'oplog.rs'}".to_owned(), true),
        ("{find: 'oplog.rs', readConcern: {level: 'local'}}".to_owned(), true),
        (format!("{{find: 'oplog.rs', {majority}}}"), false),
        (format!("{{find: 'oplog.rs', sort: {{$natural: -1}}, limit: 1, {majority}}}"), false),
        (format!("{{aggregate: 'oplog.rs', pipeline: [], cursor: {{}}, {majority}}}"), false),
        (more, false),
    ] {
        let reply = run(&mut client, "local", &command);
        assert_eq!(is_ok(&reply), allowed, "{command}: {reply:?}");
    }
    // Other collections do not wait.
    assert!(is_ok(&client.shell(&format!("{{find: 'c', {majority}}}"))));
    faults.disarm();
    let newest = format!("{{find: 'oplog.rs', sort: {{$natural: -1}}, limit: 1, {majority}}}");
    assert_eq!(batch(&run(&mut client, "local", &newest), "firstBatch").len(), 1);
}

#[test]
fn statements_carry_their_sessions() {
    let server = member();
    let mut client = Client::new(&server);
    let lsid = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}";
    let retryable = format!(
        "{{insert: 'c', documents: [{{_id: 1}}, {{_id: 2}}], {lsid}, txnNumber: NumberLong(4)}}"
    );
    assert!(is_ok(&client.shell(&retryable)) && is_ok(&client.shell(&retryable)));
    let logged = "{find: 'oplog.rs', filter: {op: 'i', txnNumber: 4}}";
    let logged = batch(&run(&mut client, "local", logged), "firstBatch");
    let ids: Vec<_> = logged.iter().map(|doc| doc.get("stmtId").to_string()).collect();
    assert_eq!(ids, ["0", "1"], "{logged:?}");
    let session = logged[0].get("lsid").as_doc().unwrap();
    assert!(session.get("uid").to_string().contains("47DEQpj8HBSa") || session.count() == 2);
    let several = format!(
        "{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$set: {{a: 1}}}}}}, {{q: {{_id: 9}}, u: {{a: 1}}}}, \
          {{q: {{_id: 1}}, u: {{$set: {{a: 1}}}}}}, \
          {{q: {{_id: 2}}, u: {{$set: {{a: 1}}}}}}, {{q: {{_id: 1}}, u: {{b: 1}}}}], {lsid}, txnNumber: NumberLong(5)}}"
    );
    assert!(is_ok(&client.shell(&several)));
    for number in [4, 5] {
        let logged = format!("{{find: 'oplog.rs', filter: {{txnNumber: {number}}}}}");
        let logged = batch(&run(&mut client, "local", &logged), "firstBatch");
        assert_eq!(logged.len(), number - 2);
        let mut before = "{ ts: Timestamp(0, 0), t: -1 }".to_owned();
        for entry in &logged {
            let (name, last) = entry
                .as_doc()
                .iter()
                .last()
                .map(|e| (e.name().to_owned(), e.value().to_string()))
                .unwrap();
            assert_eq!((name.as_str(), last), ("prevOpTime", before), "{entry:?}");
            before = format!("{{ ts: {}, t: {} }}", stamp(entry), entry.get("t"));
        }
    }
}

/// Whether the log still has an entry of before after a run as no member, in which the commands ran on `local` and
/// `test`.
fn is_kept_after(local: &[&str], own: &[&str]) -> bool {
    let engine = Arc::new(Memory::new());
    let mut client = Client::new(&server_on(engine.clone(), Some("rs")));
    assert!(is_ok(&run(&mut client, "admin", "{replSetInitiate: 1}")));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 'before'}]}")));
    drop(client);
    let mut alone = Client::new(&server_on(engine.clone(), None));
    for (database, commands) in [("local", local), ("test", own)] {
        for command in commands {
            assert!(is_ok(&run(&mut alone, database, command)), "{command}");
        }
    }
    // Without the configuration, the next start could not know that the changes are missing in the log.
    for command in
        ["{drop: 'system.replset'}", "{delete: 'system.replset', deletes: [{q: {}, limit: 0}]}"]
    {
        assert!(!is_ok(&run(&mut alone, "local", command)), "{command}");
    }
    drop(alone);
    let mut client = Client::new(&server_on(engine, Some("rs")));
    let find = "{find: 'oplog.rs', filter: {'o._id': 'before'}}";
    !batch(&run(&mut client, "local", find), "firstBatch").is_empty()
}

#[test]
fn a_log_with_a_gap_begins_anew() {
    assert!(is_kept_after(&[], &[]));
    assert!(is_kept_after(&["{insert: 'own', documents: [{_id: 1}]}"], &["{find: 'c'}"]));
    for change in [
        "{insert: 'c', documents: [{_id: 'alone'}]}",
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}",
        "{dropDatabase: 1}",
    ] {
        assert!(!is_kept_after(&[], &[change]), "{change}");
    }
    assert!(!is_kept_after(&["{drop: 'oplog.rs'}"], &[]));
}
