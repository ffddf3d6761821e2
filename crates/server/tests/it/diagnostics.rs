//! Killing, observing and counting operations: killOp, maxTimeMS, sessions, time-outs, serverStatus, the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value, doc};
use nagi_server::Server;

use crate::client::{Client, is_ok, member, server};

const LSID: &str = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddeeff\")}";

/// Locks writes, so that an insert waits until it is killed or the lock is released.
fn locked(server: &Arc<Server>) -> Client {
    let mut admin = Client::new(server);
    assert!(is_ok(&admin.run("admin", doc! { "fsync": 1, "lock": true }.as_doc())));
    admin
}

/// Polls currentOp until an insert waits for the lock, and returns its operation id.
fn wait_for_insert(admin: &mut Client) -> i32 {
    let Value::Int32(id) = waiting_insert(admin).get("opid") else { panic!("no opid") };
    id
}

/// The same; returns the operation.
fn waiting_insert(admin: &mut Client) -> DocBuf {
    loop {
        let reply = admin.run("admin", doc! { "currentOp": 1, "op": "insert" }.as_doc());
        let found = reply.get("inprog").as_array().and_then(|list| list.iter().next());
        // An operation that has just begun has no namespace yet.
        if let Some(Value::Doc(op)) = found
            && op.get("ns").as_str() == Some("test.c")
        {
            assert_eq!(op.get("active"), Value::Bool(true));
            if op.get("waitingForLock") != Value::Bool(true) {
                continue; // it does not wait for the lock yet
            }
            return op.to_buf();
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_wait_for_a_lock_is_in_its_statistics() {
    let server = server();
    let mut admin = locked(&server);
    let mut writer = Client::new(&server);
    let thread = std::thread::spawn(move || writer.shell("{insert: 'c', documents: [{_id: 1}]}"));
    let waited = |op: &DocBuf| {
        assert_eq!(op.get("locks").to_string(), "{ Global: \"w\" }");
        let stats = op.get("lockStats").as_doc().unwrap();
        let lock = stats.get("Global").as_doc().unwrap_or_else(|| panic!("{op:?}"));
        for count in ["acquireCount", "acquireWaitCount"] {
            assert_eq!(lock.get(count).to_string(), "{ w: 1 }", "{op:?}");
        }
        assert_eq!(stats.iter().count(), 1, "it has no collection yet");
        let Value::Int64(micros) = lock.get("timeAcquiringMicros").as_doc().unwrap().get("w")
        else {
            panic!("{op:?}")
        };
        micros
    };
    let first = waited(&waiting_insert(&mut admin));
    while waited(&waiting_insert(&mut admin)) <= first {
        std::thread::yield_now();
    }
    assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
    assert!(is_ok(&thread.join().unwrap()));
}

#[test]
fn kill_op_ends_a_waiting_write() {
    let server = server();
    let mut admin = locked(&server);
    let mut writer = Client::new(&server);
    let thread = std::thread::spawn(move || {
        writer.shell("{insert: 'c', documents: [{_id: 1}], comment: 'w'}")
    });
    let id = wait_for_insert(&mut admin);
    assert!(is_ok(&admin.run("admin", doc! { "killOp": 1, "op": id }.as_doc())));
    let reply = thread.join().unwrap();
    assert_eq!(reply.get("code"), Value::Int32(11601));
    assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
    assert_eq!(admin.shell("{count: 'c'}").get("n"), Value::Int32(0));
}

/// The message of a command whose statements are in a sequence, as drivers send it.
fn message(client: &mut Client, command: &DocBuf, name: &str, statements: &[DocBuf]) {
    client.frame.clear();
    let start = nagi_wire::begin_msg(&mut client.frame, 1, 0, 0);
    let mut body = DocWriter::new(&mut client.frame);
    body.extend(command.as_doc());
    body.finish();
    nagi_wire::append_sequence(&mut client.frame, name, statements.iter().map(|s| s.as_doc()));
    nagi_wire::finish_msg(&mut client.frame, start);
}

#[test]
fn a_write_that_waits_shows_its_statement() {
    let statements = [
        (
            "update",
            "updates",
            "{q: {_id: 7}, u: {$inc: {n: 1}}}",
            "{q: {_id: 7}, u: {$inc: {n: 1}}, multi: false, upsert: false, comment: 'why'}",
        ),
        (
            "delete",
            "deletes",
            "{q: {n: {$gt: 5}}, limit: 0}",
            "{q: {n: {$gt: 5}}, limit: 0, comment: 'why'}",
        ),
    ];
    for (command, name, statement, shown) in statements {
        let server = server();
        let mut admin = locked(&server);
        let mut writer = Client::new(&server);
        let body = DocBuf::build(|out| {
            out.put(command, "c");
            out.put("$db", "test");
            out.put("comment", "why");
        });
        message(&mut writer, &body, name, &[nagi_bson::json::parse(statement).unwrap()]);
        let thread = std::thread::spawn(move || writer.send());
        let found = loop {
            let waiting = doc! { "currentOp": 1, "waitingForLock": true };
            let reply = admin.run("admin", waiting.as_doc());
            let found = reply.get("inprog").as_array().and_then(|list| list.iter().next());
            if let Some(Value::Doc(op)) = found {
                break op.get("command").to_string();
            }
            std::thread::yield_now();
        };
        assert_eq!(found, Value::Doc(nagi_bson::json::parse(shown).unwrap().as_doc()).to_string());
        assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
        thread.join().unwrap();
    }
}

/// Polls currentOp until an operation with these fields is running, and returns it.
fn wait_for(admin: &mut Client, fields: &str) -> DocBuf {
    let asked = nagi_bson::json::parse(&format!("{{currentOp: 1, {fields}}}")).unwrap();
    loop {
        let reply = admin.run("admin", asked.as_doc());
        let found = reply.get("inprog").as_array().and_then(|list| list.iter().next());
        if let Some(Value::Doc(op)) = found {
            return op.to_buf();
        }
        std::thread::yield_now();
    }
}

#[test]
fn the_lock_waits_for_a_write_that_waits_for_a_transaction() {
    let server = member();
    let mut client = Client::new(&server);
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}]}")));
    let of = format!("{LSID}, txnNumber: NumberLong(1), autocommit: false");
    let change = "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}]";
    assert!(is_ok(&client.shell(&format!("{{{change}, {of}, startTransaction: true}}"))));
    let mut admin = Client::new(&server);
    let lock = doc! { "fsync": 1, "lock": true };
    std::thread::scope(|threads| {
        let write = threads.spawn(|| Client::new(&server).shell(&format!("{{{change}}}")));
        wait_for(&mut admin, "waitingForTransaction: true");
        let locks = threads.spawn(|| Client::new(&server).run("admin", lock.as_doc()));
        let op = wait_for(&mut admin, "'command.fsync': 1, waitingForLock: true");
        assert_eq!(op.get("locks").to_string(), "{ Global: \"W\" }");
        let stats = op.get("lockStats").to_string();
        let counts = "{ Global: { acquireCount: { W: 1 }, acquireWaitCount: { W: 1 }, ";
        assert!(stats.starts_with(counts), "{stats}");
        assert!(is_ok(&client.shell(&format!("{{{change}, {of}}}"))));
        let commit = format!("{{commitTransaction: 1, {of}}}");
        let commit = nagi_bson::json::parse(&commit).unwrap();
        assert!(is_ok(&client.run("admin", commit.as_doc())));
        assert!(is_ok(&write.join().unwrap()) && is_ok(&locks.join().unwrap()));
    });
    assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
    assert_eq!(client.shell("{count: 'c', query: {n: 3}}").get("n"), Value::Int32(1));
}

#[test]
fn killing_a_session_ends_its_operations_and_cursors() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'd', documents: [{_id: 1}, {_id: 2}]}");
    let reply = client.shell(&format!("{{find: 'd', batchSize: 1, {LSID}}}"));
    let id = reply.get("cursor").as_doc().unwrap().get("id");
    let mut admin = locked(&server);
    let mut writer = Client::new(&server);
    let insert = format!("{{insert: 'c', documents: [{{_id: 1}}], {LSID}}}");
    let thread = std::thread::spawn(move || writer.shell(&insert));
    wait_for_insert(&mut admin);
    assert!(is_ok(&admin.shell("{killSessions: []}")));
    assert_eq!(thread.join().unwrap().get("code"), Value::Int32(11601));
    let more = client.run("test", doc! { "getMore": id, "collection": "d" }.as_doc());
    assert_eq!(more.get("code"), Value::Int32(43));
}

#[test]
fn time_runs_out() {
    let server = server();
    let _admin = locked(&server);
    let mut writer = Client::new(&server);
    let reply = writer.shell("{insert: 'c', documents: [{_id: 1}], maxTimeMS: 15}");
    assert_eq!(reply.get("code"), Value::Int32(50));
    assert_eq!(reply.get("codeName").as_str(), Some("MaxTimeMSExpired"));
}

#[test]
fn the_lock_waits_for_writes_under_way() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 0}]}");
    // A client keeps writing while other clients lock and unlock. While the lock is held, the number of its
    // documents must not grow.
    let stop = Arc::new(AtomicBool::new(false));
    let (mut writer, end) = (Client::new(&server), stop.clone());
    let thread = std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            assert!(is_ok(&writer.shell("{insert: 'c', documents: [{}, {}, {}]}")));
        }
    });
    let mut count = || client.shell("{count: 'c'}").get("n").to_string();
    for _ in 0..20 {
        let mut admin = locked(&server);
        let before = count();
        wait_for_insert(&mut admin);
        assert_eq!(count(), before);
        assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn a_cursor_has_the_time_of_its_command() {
    let server = server();
    let mut client = Client::new(&server);
    let docs = (0..1000).map(|n| format!("{{_id: {n}}}")).collect::<Vec<_>>().join(", ");
    client.shell(&format!("{{insert: 'd', documents: [{docs}]}}"));
    let slow = "{$expr: {$gte: [{$size: {$map: {input: {$range: [0, 3000]}, \
                in: {$add: ['$$this', '$_id']}}}}, 0]}}";
    let find = format!("{{find: 'd', filter: {slow}, batchSize: 1, maxTimeMS: 100}}");
    let reply = client.shell(&find);
    let id = reply.get("cursor").as_doc().unwrap().get("id");
    let more = || doc! { "getMore": id, "collection": "d", "batchSize": 1 };
    let failed = (1..1000).map(|_| client.run("test", more().as_doc())).find(|r| !is_ok(r));
    assert_eq!(failed.expect("each batch takes a millisecond").get("code"), Value::Int32(50));
    assert_eq!(client.run("test", more().as_doc()).get("code"), Value::Int32(43));
}

#[test]
fn long_commands_are_cut_where_asked_for() {
    let server = server();
    let mut admin = locked(&server);
    let mut writer = Client::new(&server);
    let insert =
        format!("{{insert: 'c', documents: [{{_id: '{}'}}], comment: 'w'}}", "x".repeat(1500));
    let thread = std::thread::spawn(move || writer.shell(&insert));
    let id = wait_for_insert(&mut admin);
    let mut shown = |request: String| {
        let reply = admin.run("admin", nagi_bson::json::parse(&request).unwrap().as_doc());
        reply.as_doc().to_string()
    };
    let whole = "x".repeat(1500);
    let stage = |options: &str| {
        format!(
            "{{aggregate: 1, cursor: {{}}, pipeline: [{{$currentOp: {options}}}, \
             {{$match: {{op: 'insert'}}}}]}}"
        )
    };
    let cut = [
        shown("{currentOp: 1, op: 'insert'}".into()),
        shown(stage("{truncateOps: true, allUsers: true, backtrace: true}")),
    ];
    for reply in cut {
        assert!(reply.contains("$truncated") && !reply.contains(&whole), "{reply}");
        assert!(reply.contains("comment: \"w\""), "{reply}");
    }
    for request in [stage("{}"), "{currentOp: 1, op: 'insert', $truncateOps: false}".into()] {
        let reply = shown(request);
        assert!(!reply.contains("$truncated") && reply.contains(&whole), "{reply}");
    }
    assert!(is_ok(&admin.run("admin", doc! { "killOp": 1, "op": id }.as_doc())));
    thread.join().unwrap();
}

#[test]
fn a_cursor_belongs_to_its_session() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'd', documents: [{_id: 1}, {_id: 2}]}");
    let reply = client.shell(&format!("{{find: 'd', batchSize: 1, {LSID}}}"));
    let id = reply.get("cursor").as_doc().unwrap().get("id");
    let without = client.run("test", doc! { "getMore": id, "collection": "d" }.as_doc());
    assert_eq!(without.get("code"), Value::Int32(50737));
    let end = "{endSessions: [{id: UUID(\"00112233-4455-6677-8899-aabbccddeeff\")}]}";
    assert!(is_ok(&client.shell(end)));
    let gone = client.run("test", doc! { "getMore": id, "collection": "d" }.as_doc());
    assert_eq!(gone.get("code"), Value::Int32(43));
}

/// The number at a path in nested documents.
fn number(reply: &DocBuf, path: &[&str]) -> i64 {
    let mut value = Value::Doc(reply.as_doc());
    for name in path {
        value = value.as_doc().unwrap_or(Doc::EMPTY).get(name);
    }
    match value {
        Value::Int32(n) => i64::from(n),
        Value::Int64(n) => n,
        other => panic!("{path:?}: {other}"),
    }
}

#[test]
fn what_happens_is_counted() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    client.shell("{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, multi: true}]}");
    client.shell("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    client.shell("{find: 'c', batchSize: 1}");
    client.shell("{noSuch: 1}");
    let status = client.shell("{serverStatus: 1}");
    for (path, expect) in [
        (&["opcounters", "insert"][..], 3),
        (&["opcounters", "update"], 1),
        (&["opcounters", "delete"], 1),
        (&["opcounters", "query"], 1),
        (&["metrics", "document", "inserted"], 3),
        (&["metrics", "document", "updated"], 3),
        (&["metrics", "document", "deleted"], 1),
        (&["metrics", "document", "returned"], 1),
        (&["metrics", "cursor", "open", "total"], 1),
        (&["metrics", "commands", "<UNKNOWN>"], 1),
        (&["metrics", "commands", "insert", "total"], 1),
        (&["connections", "current"], 1),
        (&["opLatencies", "writes", "ops"], 3),
    ] {
        assert_eq!(number(&status, path), expect, "{path:?}");
    }
    let top = client.run("admin", doc! { "top": 1 }.as_doc());
    let totals = top.get("totals").as_doc().unwrap().get("test.c").as_doc().unwrap();
    assert_eq!(number(&totals.to_buf(), &["queries", "count"]), 1);
    assert_eq!(number(&totals.to_buf(), &["total", "count"]), 4);
}

/// Statements count when they are tried: those that fail do, those behind the end of an ordered command and those that
/// an earlier attempt executed do not.
#[test]
fn statements_are_counted_when_they_are_tried() {
    let server = member();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    let mut before = [1, 0, 0];
    let retried = |command: &str| {
        format!(
            "{{{command}, lsid: {{id: {{$binary: {{base64: 'ABEiM0RVZneImaq7zN3u/w==', subType: '04'}}}}}}"
        )
    };
    let bulk = |ops: &str, more: &str| {
        format!("{{bulkWrite: 1, nsInfo: [{{ns: 'test.c'}}], ops: [{ops}] {more}}}")
    };
    let (insert, bad_update) =
        ("{insert: 0, document: {_id: 2}}", "{update: 0, filter: {}, updateMods: {$foo: 1}}");
    let bad_delete = "{delete: 0, filter: {$foo: 1}}";
    for (command, tried) in [
        ("{insert: 'c', documents: [{_id: 1}, {_id: 2}]}".to_owned(), [1, 0, 0]),
        ("{insert: 'c', documents: [{_id: 2}, {_id: 1}, {_id: 3}]}".to_owned(), [2, 0, 0]),
        ("{insert: 'c', documents: [{_id: 1}, {_id: 4}], ordered: false}".to_owned(), [2, 0, 0]),
        (
            retried("insert: 'c', documents: [{_id: 5}, {_id: 6}]") + ", txnNumber: NumberLong(1)}",
            [2, 0, 0],
        ),
        (
            retried("insert: 'c', documents: [{_id: 5}, {_id: 6}]") + ", txnNumber: NumberLong(1)}",
            [0, 0, 0],
        ),
        (
            "{update: 'c', updates: [{q: {}, u: {$foo: 1}}, {q: {}, u: {$set: {a: 1}}}]}"
                .to_owned(),
            [0, 1, 0],
        ),
        (
            retried("update: 'c', updates: [{q: {}, u: {$set: {b: 1}}}]")
                + ", txnNumber: NumberLong(2)}",
            [0, 1, 0],
        ),
        (
            retried("update: 'c', updates: [{q: {}, u: {$set: {b: 1}}}]")
                + ", txnNumber: NumberLong(2)}",
            [0, 0, 0],
        ),
        (
            "{delete: 'c', deletes: [{q: {$foo: 1}, limit: 1}, {q: {}, limit: 1}], ordered: false}"
                .to_owned(),
            [0, 0, 2],
        ),
        (bulk(&format!("{insert}, {insert}"), ""), [1, 0, 0]),
        (bulk(&format!("{insert}, {insert}"), ", ordered: false"), [2, 0, 0]),
        (bulk(&format!("{bad_update}, {bad_update}, {bad_delete}"), ", ordered: false"), [0, 2, 1]),
        (bulk(&format!("{bad_delete}, {bad_update}"), ""), [0, 0, 1]),
    ] {
        let db = if command.starts_with("{bulk") { "admin" } else { "test" };
        let reply = client.run(db, nagi_bson::json::parse(&command).unwrap().as_doc());
        let status = client.shell("{serverStatus: 1}");
        let now = ["insert", "update", "delete"].map(|kind| number(&status, &["opcounters", kind]));
        let difference = [now[0] - before[0], now[1] - before[1], now[2] - before[2]];
        assert_eq!(difference, tried, "{command}: {reply:?}");
        before = now;
    }
}

#[test]
fn a_slow_operation_leaves_a_line() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    client.run("test", doc! { "profile": 0, "slowms": 0 }.as_doc());
    client.shell("{find: 'c', filter: {a: 1}, comment: 'slow one'}");
    let log = client.run("admin", doc! { "getLog": "global" }.as_doc());
    let lines = log.get("log").as_array().unwrap_or(Array::EMPTY);
    let line = lines.iter().filter_map(|line| line.as_str()).find(|line| line.contains("slow one"));
    let line = nagi_bson::json::parse(line.unwrap()).unwrap();
    assert_eq!(line.get("msg").as_str(), Some("Slow query"));
    assert_eq!(number(&line, &["id"]), 51803);
    let attr = line.get("attr").as_doc().unwrap();
    assert_eq!(attr.get("ns").as_str(), Some("test.c"));
    assert_eq!(attr.get("planSummary").as_str(), Some("COLLSCAN"));
    assert_eq!(number(&attr.to_buf(), &["docsExamined"]), 1);
    assert_eq!(number(&attr.to_buf(), &["nreturned"]), 1);
}

/// The values of `distinct` are returned, also none of them; the number of `count` is not.
#[test]
fn the_profile_and_the_log_know_how_many_values_distinct_returned() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1, a: [1, 2]}, {_id: 2, a: 3}, {_id: 3, a: 3}]}");
    client.shell("{create: 'v', viewOn: 'c', pipeline: [{$match: {_id: {$gt: 1}}}]}");
    client.run("test", doc! { "profile": 2, "slowms": 0 }.as_doc());
    let before = client.shell("{serverStatus: 1}");
    for (command, returned) in [
        ("distinct: 'c', key: 'a', query: {_id: {$gt: 0}}", Some(3)),
        ("distinct: 'c', key: 'b', query: {_id: {$gt: 0}}", Some(0)),
        ("distinct: 'v', key: 'a'", Some(1)),
        ("count: 'c', query: {a: {$gt: 1}}", None),
    ] {
        client.shell(&format!("{{{command}, comment: 'told'}}"));
        let newest = "find: 'system.profile', filter: {'command.comment': 'told'}, sort: {$natural: -1}, limit: 1";
        let reply = client.shell(&format!("{{{newest}}}"));
        let entry = reply.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        let entry = entry.iter().next().unwrap().as_doc().unwrap().to_buf();
        let log = client.run("admin", doc! { "getLog": "global" }.as_doc());
        let lines = log.get("log").as_array().unwrap().iter().filter_map(|line| line.as_str());
        let line = lines.filter(|line| line.contains(r#""comment":"told""#)).last();
        let line = nagi_bson::json::parse(line.unwrap()).unwrap();
        for told in [entry.as_doc(), line.get("attr").as_doc().unwrap()] {
            let found = nagi_bson::number::as_f64(told.get("nreturned"));
            assert_eq!(found, returned.map(f64::from), "{command}: {told:?}");
        }
    }
    client.run("test", doc! { "profile": 0, "slowms": 100 }.as_doc());
    let after = client.shell("{serverStatus: 1}");
    let documents = &["metrics", "document", "returned"];
    // The values, and the four entries of the profile.
    assert_eq!(number(&after, documents) - number(&before, documents), 3 + 1 + 4);
}

/// As explain names them.
#[test]
fn counts_and_distinct_values_by_an_index_have_names_of_their_own() {
    let server = server();
    let mut client = Client::new(&server);
    let ids: Vec<String> = (0..50).map(|n| format!("{{_id: {n}, a: {}}}", n % 5)).collect();
    client.shell(&format!("{{insert: 'c', documents: [{}]}}", ids.join(", ")));
    client.run("test", doc! { "profile": 2 }.as_doc());
    let command = "{distinct: 'c', key: 'a', query: {a: {$gte: 0}}}";
    client.shell(command);
    client.shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
    client.shell(command);
    client.shell("{count: 'c', query: {a: {$gte: 2}}}");
    client.shell("{count: 'c', query: {a: {$gte: 2}}, skip: 1, limit: 3}");
    client.run("test", doc! { "profile": 0 }.as_doc());
    let find = "{find: 'system.profile', filter: {$or: [{'command.distinct': 'c'}, {'command.count': 'c'}]}}";
    let reply = client.shell(find);
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    let entries: Vec<Doc<'_>> = batch.iter().filter_map(|entry| entry.as_doc()).collect();
    let plans: Vec<_> = entries.iter().map(|one| one.get("planSummary").to_string()).collect();
    let expected =
        ["COLLSCAN", "DISTINCT_SCAN { a: 1 }", "COUNT_SCAN { a: 1 }", "COUNT_SCAN { a: 1 }"];
    assert_eq!(plans, expected.map(|plan| format!("\"{plan}\"")));
    // One shape, whatever the plan.
    let hash = |at: usize| entries[at].get("planCacheShapeHash").to_string();
    assert!(hash(0).len() == 10 && hash(0) == hash(1), "{} {}", hash(0), hash(1));
}
