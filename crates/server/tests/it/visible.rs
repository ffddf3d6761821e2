//! The work of operations is visible in counters, the slow-query log, profiles and currentOp.

use nagi_bson::{Array, Doc, DocBuf, Value, doc, json};

use crate::client::{Client, is_ok, member, server};

/// The number at a path in nested documents; 0 if there is none.
fn number(reply: &DocBuf, path: &[&str]) -> i64 {
    let mut value = Value::Doc(reply.as_doc());
    for name in path {
        value = value.as_doc().unwrap_or(Doc::EMPTY).get(name);
    }
    match value {
        Value::Int32(n) => i64::from(n),
        Value::Int64(n) => n,
        _ => 0,
    }
}

/// The changes of the counters at `paths` while the command runs.
fn changes(client: &mut Client, command: &str, paths: &[&[&str]]) -> Vec<i64> {
    let before = client.shell("{serverStatus: 1}");
    let reply = client.shell(command);
    assert!(is_ok(&reply), "{command}: {reply:?}");
    let after = client.shell("{serverStatus: 1}");
    paths.iter().map(|path| number(&after, path) - number(&before, path)).collect()
}

const KEYS: &[&str] = &["metrics", "queryExecutor", "scanned"];
const DOCS: &[&str] = &["metrics", "queryExecutor", "scannedObjects"];

#[test]
fn what_writes_look_at_is_counted() {
    let mut client = Client::new(&server());
    client.shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
    client
        .shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}, {_id: 3, a: 2, b: 1}]}");
    for (command, expect) in [
        ("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {b: 2}}}]}", [1, 1]),
        ("{update: 'c', updates: [{q: {a: 1}, u: {$set: {b: 2}}, multi: true}]}", [2, 2]),
        ("{update: 'c', updates: [{q: {b: 7}, u: {$set: {b: 2}}, multi: true}]}", [0, 3]),
        ("{findAndModify: 'c', query: {b: 1}, update: {$set: {b: 3}}}", [0, 3]),
        (
            "{explain: {delete: 'c', deletes: [{q: {a: 1}, limit: 0}]}, verbosity: 'queryPlanner'}",
            [0, 0],
        ),
        ("{delete: 'c', deletes: [{q: {a: 1}, limit: 0}]}", [2, 2]),
    ] {
        assert_eq!(changes(&mut client, command, &[KEYS, DOCS]), expect, "{command}");
    }
    let command = "{update: 'c', updates: [{q: {_id: 3}, u: {$set: {a: 2}}}]}";
    let document = |name| ["metrics", "document", name];
    let (updated, inserted) = (document("updated"), document("inserted"));
    assert_eq!(changes(&mut client, command, &[&updated, &inserted]), [1, 0]);
    let command = "{bulkWrite: 1, ops: [{insert: 0, document: {_id: 9}}, {update: 0, filter: \
                   {_id: 9}, updateMods: {$set: {c: 1}}}], nsInfo: [{ns: 'test.c'}]}";
    let before = client.shell("{serverStatus: 1}");
    let body = json::parse(command).unwrap();
    assert!(is_ok(&client.run("admin", body.as_doc())));
    let after = client.shell("{serverStatus: 1}");
    for path in [&updated, &inserted] {
        assert_eq!(number(&after, path) - number(&before, path), 1, "{path:?}");
    }
}

#[test]
fn locks_and_scans_are_counted() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    let write = "{insert: 'c', documents: [{_id: 2}]}";
    let global = ["locks", "Global", "acquireCount", "w"];
    let collection = ["locks", "Collection", "acquireCount", "w"];
    assert_eq!(changes(&mut client, write, &[&global, &collection]), [1, 1]);
    let scans = ["metrics", "queryExecutor", "collectionScans", "total"];
    let sorts = ["metrics", "operation", "scanAndOrder"];
    let find = "{find: 'c', sort: {x: 1}}";
    assert_eq!(changes(&mut client, find, &[&scans, &sorts, &global]), [1, 1, 0]);
    client.run("admin", doc! { "fsync": 1, "lock": true }.as_doc());
    client.run("admin", doc! { "fsyncUnlock": 1 }.as_doc());
    let status = client.shell("{serverStatus: 1}");
    assert_eq!(number(&status, &["locks", "Global", "acquireCount", "W"]), 1);
}

#[test]
fn transactions_have_a_latency() {
    let mut client = Client::new(&member());
    assert!(is_ok(&client.shell("{create: 'c'}")));
    let lsid = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}";
    for (n, end) in [(1, "commitTransaction"), (2, "abortTransaction")] {
        let place = format!("{lsid}, txnNumber: NumberLong({n}), autocommit: false");
        let insert =
            format!("{{insert: 'c', documents: [{{_id: {n}}}], {place}, startTransaction: true}}");
        assert!(is_ok(&client.shell(&insert)));
        let end = json::parse(&format!("{{{end}: 1, {place}}}")).unwrap();
        assert!(is_ok(&client.run("admin", end.as_doc())));
    }
    let status = client.shell("{serverStatus: 1}");
    assert_eq!(number(&status, &["opLatencies", "transactions", "ops"]), 2);
    assert!(number(&status, &["opLatencies", "transactions", "latency"]) > 0);
}

/// The attributes of the slow-query log line with this comment.
fn slow_line(client: &mut Client, comment: &str) -> DocBuf {
    let log = client.run("admin", doc! { "getLog": "global" }.as_doc());
    let lines = log.get("log").as_array().unwrap_or(Array::EMPTY);
    let line = lines.iter().filter_map(|line| line.as_str()).find(|line| line.contains(comment));
    json::parse(line.unwrap()).unwrap().get("attr").as_doc().unwrap().to_buf()
}

#[test]
fn a_slow_write_says_what_it_did() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2}]}");
    client.run("test", doc! { "profile": 0, "slowms": 0 }.as_doc());
    client.shell("{update: 'c', updates: [{q: {a: 1}, u: {$set: {b: 1}}}], comment: 'slow u'}");
    client.shell("{findAndModify: 'c', query: {_id: 2}, remove: true, comment: 'slow f'}");
    let line = slow_line(&mut client, "slow u");
    assert_eq!(line.get("planSummary").as_str(), Some("COLLSCAN"));
    for (name, expect) in
        [("docsExamined", 1), ("keysExamined", 0), ("nMatched", 1), ("nModified", 1)]
    {
        assert_eq!(number(&line, &[name]), expect, "{name}");
    }
    let line = slow_line(&mut client, "slow f");
    assert_eq!(line.get("planSummary").as_str(), Some("EXPRESS_IXSCAN { _id: 1 }"));
    for (name, expect) in [("docsExamined", 1), ("ndeleted", 1), ("keysDeleted", 1)] {
        assert_eq!(number(&line, &[name]), expect, "{name}");
    }
    assert!(line.get("locks").as_doc().is_some_and(|locks| !locks.is_empty()));
}

/// Polls currentOp until a command of this name runs on `test.c` and its plan is known.
fn wait_for(admin: &mut Client, command: &str) -> DocBuf {
    // Updates and deletes show the running statement.
    let (path, value) = match command {
        "update" => ("op".to_owned(), "update"),
        "delete" => ("op".to_owned(), "remove"),
        _ => (format!("command.{command}"), "c"),
    };
    loop {
        let asked = DocBuf::build(|w| {
            w.put("currentOp", 1);
            w.put(&path, value);
        });
        let reply = admin.run("admin", asked.as_doc());
        let found = reply.get("inprog").as_array().and_then(|list| list.iter().next());
        if let Some(Value::Doc(op)) = found
            && op.get("planSummary").as_str().is_some()
        {
            return op.to_buf();
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_running_count_shows_its_plan_and_endless_scripts_end() {
    const ENDLESS: &str = "function() { while (true) { } }";
    let server = server();
    let mut admin = Client::new(&server);
    admin.shell("{insert: 'c', documents: [{_id: 1}]}");
    for (name, command) in [
        ("count", format!("{{count: 'c', query: {{$where: '{ENDLESS}'}}}}")),
        ("distinct", format!("{{distinct: 'c', key: 'a', query: {{$where: '{ENDLESS}'}}}}")),
        ("delete", format!("{{delete: 'c', deletes: [{{q: {{$where: '{ENDLESS}'}}, limit: 0}}]}}")),
        (
            "mapReduce",
            format!(
                "{{mapReduce: 'c', map: '{ENDLESS}', reduce: '{ENDLESS}', out: {{inline: 1}}}}"
            ),
        ),
    ] {
        let body = json::parse(&command).unwrap();
        let reordered = DocBuf::build(|w| {
            body.as_doc().iter().for_each(|e| w.put_element(e));
            w.put("maxTimeMS", 30);
        });
        let reply = admin.run("test", reordered.as_doc());
        assert_eq!(reply.get("code"), Value::Int32(50), "{name}: {reply:?}");
        let mut client = Client::new(&server);
        let thread = std::thread::spawn(move || client.shell(&command));
        let op = wait_for(&mut admin, name);
        assert_eq!(op.get("planSummary").as_str(), Some("COLLSCAN"), "{name}");
        let Value::Int32(id) = op.get("opid") else { panic!("{op:?}") };
        assert!(is_ok(&admin.run("admin", doc! { "killOp": 1, "op": id }.as_doc())));
        let reply = thread.join().unwrap();
        assert_eq!(reply.get("code"), Value::Int32(11601), "{name}: {reply:?}");
    }
}

/// The number of profile entries of finds with this comment.
fn profiled(client: &mut Client, comment: &str) -> i64 {
    let reply = client
        .shell(&format!("{{count: 'system.profile', query: {{'command.comment': '{comment}'}}}}"));
    number(&reply, &["n"])
}

#[test]
fn profiles_honour_rate_and_filter() {
    let mut client = Client::new(&server());
    let mut finds = |profile: &str, comment: &str| {
        assert!(is_ok(&client.shell(profile)), "{profile}");
        for _ in 0..200 {
            client.shell(&format!("{{find: 'c', comment: '{comment}'}}"));
        }
        profiled(&mut client, comment)
    };
    assert_eq!(finds("{profile: 1, slowms: 0}", "all"), 200);
    assert_eq!(finds("{profile: 1, slowms: 0, sampleRate: 0}", "none"), 0);
    let half = finds("{profile: 1, slowms: 0, sampleRate: 0.5}", "half");
    assert!((40..160).contains(&half), "{half}");
    assert_eq!(finds("{profile: 2, sampleRate: 0}", "level two takes all"), 200);
    assert_eq!(finds("{profile: 1, filter: {nreturned: 1}}", "does not match"), 0);
    assert_eq!(finds("{profile: 1, filter: {nreturned: 0}}", "matches"), 200);
    assert_eq!(finds("{profile: 2, filter: {nreturned: 1}}", "level two anyway"), 200);
}

#[test]
fn profiles_tell_of_failed_statements() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    assert!(is_ok(&client.shell("{profile: 2}")));
    let duplicate = (11000, "DuplicateKey", "E11000 duplicate key error");
    let immutable = (66, "ImmutableField", "_id");
    let failing = [
        ("{insert: 'c', documents: [{_id: 1}], comment: 'W'}", duplicate),
        ("{insert: 'c', documents: [{_id: 1}, {_id: 2}], ordered: false, comment: 'W'}", duplicate),
        ("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {_id: 9}}}], comment: 'W'}", immutable),
        (
            "{findAndModify: 'c', query: {_id: 1}, update: {$set: {_id: 9}}, comment: 'W'}",
            immutable,
        ),
    ];
    for (at, (command, (code, name, text))) in failing.iter().enumerate() {
        let reply = client.shell(&command.replace("'W'", &format!("'w{at}'")));
        let asked = format!(
            "{{find: 'system.profile', filter: {{'command.comment': 'w{at}'}}, singleBatch: true}}"
        );
        let found = client.shell(&asked);
        let batch = found.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        let Some(Value::Doc(entry)) = batch.iter().next() else { panic!("{command}: {reply:?}") };
        assert_eq!(entry.get("ok"), Value::Int32(0), "{command}: {entry:?}");
        assert_eq!(entry.get("errCode"), Value::Int32(*code), "{command}");
        assert_eq!(entry.get("errName").as_str(), Some(*name), "{command}");
        assert!(entry.get("errMsg").as_str().unwrap().contains(text), "{command}: {entry:?}");
    }
}

/// The profile entries that match the filter, in the order in which they were written.
fn entries(client: &mut Client, filter: &str) -> Vec<DocBuf> {
    let found = client.shell(&format!("{{find: 'system.profile', filter: {filter}}}"));
    let batch = found.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    batch.iter().map(|entry| entry.as_doc().unwrap().to_buf()).collect()
}

/// The end of a statement's description; the comment of the command is part of it.
const ONE: &str = r#","multi":false,"upsert":false,"comment":"both"}"#;
const MANY: &str = r#","multi":true,"upsert":false,"comment":"both"}"#;
const BOTH: &str = r#","comment":"both"}"#;

/// Component, type and namespace of the slow-query log lines that contain a word.
fn told_in_the_log(client: &mut Client, word: &str) -> Vec<String> {
    let log = client.run("admin", doc! { "getLog": "global" }.as_doc());
    let lines = log.get("log").as_array().unwrap_or(Array::EMPTY);
    let lines = lines.iter().filter_map(|line| line.as_str());
    let lines: Vec<_> = lines.filter(|line| line.contains(word)).map(json::parse).collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let line = line.as_ref().unwrap();
            let attr = line.get("attr").as_doc().unwrap();
            let text = |doc: Doc<'_>, name: &str| doc.get(name).as_str().unwrap().to_owned();
            let counted = !attr.get("docsExamined").is_missing();
            assert_eq!(counted, attr.get("reslen").is_missing());
            (text(line.as_doc(), "c"), text(attr, "type"), text(attr, "ns"))
        })
        .collect();
    told.iter().map(|(c, kind, ns)| format!("{c} {kind} {ns}")).collect()
}

#[test]
fn each_statement_has_an_entry_of_its_own() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}, {_id: 3, a: 2}]}");
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    client.shell(
        "{update: 'c', ordered: false, comment: 'both', updates: [
            {q: {_id: 1}, u: {$set: {b: 1}}},
            {u: {$set: {_id: 9}}, q: {_id: 2}},
            {q: {a: 1}, u: {$set: {b: 1}}, multi: true}]}",
    );
    client.shell(
        "{delete: 'c', comment: 'both', deletes: [
            {q: {_id: 3}, limit: 1}, {q: {a: 1}, limit: 0, collation: {locale: 'en'}}]}",
    );
    assert!(is_ok(&client.shell("{profile: 0, slowms: 100}")));
    let told = entries(&mut client, "{'command.comment': 'both'}");
    let shown: Vec<String> = told
        .iter()
        .map(|entry| {
            let number = |name| number(entry, &[name]);
            let looked = (number("keysExamined"), number("docsExamined"));
            let plan = entry.get("planSummary").as_str().unwrap_or("none").to_owned();
            let op = entry.get("op").as_str().unwrap().to_owned();
            let command = json::to_relaxed(entry.get("command").as_doc().unwrap());
            let failed = entry.get("ok") == Value::Int32(0);
            assert_eq!(entry.get("ns").as_str(), Some("test.c"));
            assert!(!entry.get("locks").as_doc().unwrap().is_empty());
            assert!(failed || !entry.get("execStats").is_missing(), "{entry:?}");
            for none in ["protocol", "responseLength", "queryShapeHash"] {
                assert!(entry.get(none).is_missing(), "{none}");
            }
            format!("{op} {command} {plan} {looked:?} {failed}")
        })
        .collect();
    let express = "EXPRESS_IXSCAN { _id: 1 } (1, 1)";
    assert_eq!(
        shown,
        [
            format!(r#"update {{"q":{{"_id":1}},"u":{{"$set":{{"b":1}}}}{ONE} {express} false"#),
            format!(r#"update {{"q":{{"_id":2}},"u":{{"$set":{{"_id":9}}}}{ONE} {express} true"#),
            format!(
                r#"update {{"q":{{"a":1}},"u":{{"$set":{{"b":1}}}}{MANY} COLLSCAN (0, 3) false"#
            ),
            format!(r#"remove {{"q":{{"_id":3}},"limit":1{BOTH} {express} false"#),
            format!(
                r#"remove {{"q":{{"a":1}},"limit":0,"collation":{{"locale":"en"}}{BOTH} COLLSCAN (0, 2) false"#
            ),
        ]
    );
    let counts = |at: usize, name| number(&told[at], &[name]);
    assert_eq!((counts(0, "nMatched"), counts(0, "nModified"), counts(0, "nUpserted")), (1, 1, 0));
    assert_eq!((counts(2, "nMatched"), counts(2, "nModified")), (2, 1));
    assert_eq!((counts(3, "ndeleted"), counts(4, "ndeleted")), (1, 2));
    assert_eq!(told[1].get("errCode"), Value::Int32(66));

    let told = told_in_the_log(&mut client, "both");
    let (update, delete, whole) =
        ("WRITE update test.c", "WRITE remove test.c", "COMMAND command test.$cmd");
    assert_eq!(told, [update, update, update, whole, delete, delete, whole]);
}

#[test]
fn parameters_without_effect_say_what_holds_instead() {
    let mut client = Client::new(&server());
    for (name, value, told) in [
        ("syncdelay", "30", "storage.syncPeriodSecs"),
        ("internalQueryFrameworkControl", "'trySbeEngine'", "one executor"),
        ("maxTransactionLockRequestTimeoutMillis", "100", "fail at a conflict"),
        ("internalQueryExecYieldPeriodMS", "20", "need not yield"),
        ("writePeriodicNoops", "false", "oplog"),
    ] {
        let set = format!("{{setParameter: 1, {name}: {value}}}");
        let set = client.run("admin", json::parse(&set).unwrap().as_doc());
        assert!(is_ok(&set), "{name}: {set:?}");
        let log = |client: &mut Client, which: &str| {
            let log = client.run("admin", doc! { "getLog": which }.as_doc());
            let lines = log.get("log").as_array().unwrap_or(Array::EMPTY);
            let mut lines = lines.iter().filter_map(|line| line.as_str());
            lines.any(|line| line.contains(told) && line.contains(&format!("\"{name}: ")))
        };
        assert!(log(&mut client, "global"), "{name}");
        // Shells show those as warnings of the start.
        assert!(!log(&mut client, "startupWarnings"), "{name}");
    }
    let bad = doc! { "setParameter": 1, "internalQueryFrameworkControl": "sbe" };
    let refused = client.run("admin", bad.as_doc());
    assert_eq!(refused.get("code"), Value::Int32(2), "{refused:?}");
}

#[test]
fn several_parameters_are_set_at_once() {
    let mut client = Client::new(&server());
    let mut set = |body: &str| client.run("admin", json::parse(body).unwrap().as_doc());
    let read = "{getParameter: 1, ttlMonitorSleepSecs: 1, cursorTimeoutMillis: 1}";
    let values = |reply: &DocBuf| {
        (number(reply, &["ttlMonitorSleepSecs"]), number(reply, &["cursorTimeoutMillis"]))
    };
    let both = set("{setParameter: 1, ttlMonitorSleepSecs: 70, cursorTimeoutMillis: 9000}");
    assert!(is_ok(&both) && both.get("was").is_missing(), "{both:?}");
    assert_eq!(values(&set(read)), (70, 9000));
    // Nothing is set if a name is unknown, can be set at the start only, or has a wrong value.
    let refusals =
        [("noSuchThing: 1", 72), ("maxSessions: 5", 20), ("cursorTimeoutMillis: 'x'", 2)];
    for (bad, code) in refusals {
        let refused = set(&format!("{{setParameter: 1, ttlMonitorSleepSecs: 80, {bad}}}"));
        assert_eq!(number(&refused, &["code"]), code, "{refused:?}");
        assert_eq!(values(&set(read)), (70, 9000));
    }
    let one = set("{setParameter: 1, ttlMonitorSleepSecs: 60, comment: 'back'}");
    assert_eq!(number(&one, &["was"]), 70);
}

#[test]
fn few_documents_in_memory_have_a_size() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}]}");
    let positive = |value| nagi_bson::number::as_f64(value).is_some_and(|n| n > 0.0);
    let stats = client.shell("{dbStats: 1}");
    for field in ["storageSize", "indexSize", "totalSize"] {
        assert!(positive(stats.get(field)), "{stats:?}");
    }
    let listed = client.run("admin", doc! { "listDatabases": 1 }.as_doc());
    assert!(positive(listed.get("totalSize")), "{listed:?}");
}

#[test]
fn each_statement_of_a_bulk_write_has_an_entry_where_it_wrote() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}]}");
    let other = json::parse("{insert: 'd', documents: [{_id: 1}]}").unwrap();
    client.run("other", other.as_doc());
    assert!(is_ok(&client.shell("{profile: 2}")));
    let level = json::parse("{profile: 2}").unwrap();
    assert!(is_ok(&client.run("other", level.as_doc())));
    let bulk = "{bulkWrite: 1, ordered: false, comment: 'bulk', nsInfo: [{ns: 'test.c'}, {ns: 'other.d'}], ops: [
        {insert: 0, document: {_id: 3}}, {insert: 0, document: {_id: 1}},
        {update: 0, filter: {a: 1}, updateMods: {$set: {b: 1}}, multi: true},
        {update: 1, filter: {_id: 1}, updateMods: {$set: {_id: 2}}},
        {delete: 1, filter: {_id: 1}}]}";
    let body = json::parse(bulk).unwrap();
    let reply = client.run("admin", body.as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let told = entries(&mut client, "{'command.comment': 'bulk'}");
    let find =
        json::parse("{find: 'system.profile', filter: {'command.comment': 'bulk'}}").unwrap();
    let elsewhere = client.run("other", find.as_doc());
    let batch = elsewhere.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    let elsewhere = batch.iter().map(|entry| entry.as_doc().unwrap().to_buf());
    let shown: Vec<String> = told
        .into_iter()
        .chain(elsewhere)
        .map(|entry| {
            let text = |name| entry.get(name).as_str().unwrap_or("none").to_owned();
            let command = json::to_relaxed(entry.get("command").as_doc().unwrap());
            let counts: Vec<i64> =
                ["ninserted", "nMatched", "nModified", "ndeleted", "docsExamined", "errCode"]
                    .iter()
                    .map(|name| number(&entry, &[name]))
                    .collect();
            assert!(!entry.get("locks").as_doc().unwrap().is_empty());
            assert!(matches!(entry.get("numYield"), Value::Int32(_)));
            let stages = !entry.get("execStats").is_missing();
            format!(
                "{} {} {command} {} {counts:?} {stages}",
                text("op"),
                text("ns"),
                text("planSummary")
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#"insert test.c {"insert":0,"comment":"bulk"} none [1, 0, 0, 0, 0, 11000] false"#,
            concat!(
                r#"update test.c {"update":0,"filter":{"a":1},"updateMods":{"$set":{"b":1}},"multi":true,"#,
                r#""upsert":false,"comment":"bulk"} COLLSCAN [0, 2, 2, 0, 3, 0] true"#
            ),
            concat!(
                r#"update other.d {"update":1,"filter":{"_id":1},"updateMods":{"$set":{"_id":2}},"multi":false,"#,
                r#""upsert":false,"comment":"bulk"} EXPRESS_IXSCAN { _id: 1 } [0, 0, 0, 0, 1, 66] true"#
            ),
            concat!(
                r#"remove other.d {"delete":1,"filter":{"_id":1},"multi":false,"comment":"bulk"} "#,
                r#"EXPRESS_IXSCAN { _id: 1 } [0, 0, 0, 1, 1, 0] true"#
            ),
        ]
    );
}

#[test]
fn the_plan_below_the_stages_of_a_pipeline_is_profiled() {
    let mut client = Client::new(&server());
    client.shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 1}, {_id: 3, a: 2}]}");
    assert!(is_ok(&client.shell("{profile: 2}")));
    for (at, (pipeline, stage, examined)) in [
        ("[{$match: {a: 1}}]", "FETCH", 2),
        ("[{$match: {a: 1}}, {$group: {_id: '$_id'}}]", "FETCH", 2),
        ("[{$match: {x: null}}, {$unwind: '$a'}, {$sort: {a: 1}}, {$limit: 1}]", "COLLSCAN", 3),
        ("[{$match: {a: 2}}, {$out: 'o'}]", "FETCH", 1),
        ("[{$match: {a: 2}}, {$lookup: {from: 'c', as: 'x', pipeline: []}}]", "FETCH", 1),
    ]
    .iter()
    .enumerate()
    {
        let reply = client.shell(&format!(
            "{{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}, comment: 'stages{at}'}}"
        ));
        assert!(is_ok(&reply), "{reply:?}");
        let told = entries(&mut client, &format!("{{'command.comment': 'stages{at}'}}"));
        let stats = told[0].get("execStats").as_doc().unwrap_or(Doc::EMPTY).to_buf();
        assert_eq!(stats.get("stage").as_str(), Some(*stage), "{pipeline}: {stats:?}");
        assert_eq!(number(&stats, &["docsExamined"]), *examined, "{pipeline}: {stats:?}");
        assert_eq!(told[0].get("queryFramework").as_str(), Some("classic"));
    }
}

#[test]
fn entries_of_deep_and_long_operations_are_cut() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    assert!(is_ok(&client.shell("{profile: 2}")));
    for levels in [100, 150, 177, 178, 179, 180, 190, 196] {
        let deep = format!("{}1{}", "{a: ".repeat(levels), "}".repeat(levels));
        let filters = [
            format!("{{find: 'c', filter: {{a: {{$eq: {deep}}}}}, comment: 'find {levels}'}}"),
            format!(
                "{{delete: 'c', deletes: [{{q: {{a: {deep}}}, limit: 1}}], comment: 'delete {levels}'}}"
            ),
        ];
        for (command, kind) in filters.iter().zip(["query", "remove"]) {
            let reply = client.shell(command);
            let told = entries(&mut client, "{op: {$in: ['query', 'remove']}, ns: 'test.c'}");
            let last = told.last().unwrap();
            assert_eq!(last.get("op").as_str(), Some(kind), "{levels} {reply:?}");
            let text = json::to_relaxed(last.get("command").as_doc().unwrap());
            assert!(text.contains(&levels.to_string()), "{levels}: {text}");
        }
    }
    let long = "x".repeat(300_000);
    client.shell(&format!("{{find: 'c', filter: {{a: '{long}'}}, comment: 'long'}}"));
    let told = entries(&mut client, "{'command.comment': 'long'}");
    let stats = told[0].get("execStats").as_doc().unwrap();
    assert!(stats.get("$truncated").as_str().is_some_and(|text| text.contains("COLLSCAN")));
}

#[test]
fn a_running_operation_shows_what_it_examined() {
    let server = server();
    let mut admin = Client::new(&server);
    for at in 0..40 {
        let docs: Vec<String> =
            (0..100).map(|n| format!("{{_id: {}, a: 1}}", at * 100 + n)).collect();
        assert!(is_ok(&admin.shell(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")))));
    }
    let endless = "function() { while (this._id >= 3000) { } return false; }";
    for (name, command) in [
        ("find", format!("{{find: 'c', filter: {{$where: '{endless}'}}}}")),
        (
            "update",
            format!(
                "{{update: 'c', updates: [{{q: {{$where: '{endless}'}}, u: {{$set: {{b: 1}}}}, multi: true}}]}}"
            ),
        ),
    ] {
        let mut client = Client::new(&server);
        let thread = std::thread::spawn(move || client.shell(&command));
        let op = loop {
            let op = wait_for(&mut admin, name);
            if number(&op, &["docsExamined"]) >= 2900 {
                break op;
            }
        };
        assert_eq!(number(&op, &["keysExamined"]), 0);
        assert_eq!(op.get("planSummary").as_str(), Some("COLLSCAN"));
        // Reads take no locks: they see a snapshot.
        let (locks, stats) = (op.get("locks").to_string(), op.get("lockStats").to_string());
        if name == "update" {
            assert_eq!(locks, "{ Global: \"w\", Collection: \"w\" }");
            let count = "{ acquireCount: { w: 1 } }";
            assert!(stats.starts_with(&format!("{{ Global: {count}, Collection: ")), "{stats}");
        } else {
            assert_eq!((locks.as_str(), stats.as_str()), ("{}", "{}"));
        }
        let Value::Int32(id) = op.get("opid") else { panic!("{op:?}") };
        assert!(is_ok(&admin.run("admin", doc! { "killOp": 1, "op": id }.as_doc())));
        assert_eq!(thread.join().unwrap().get("code"), Value::Int32(11601), "{name}");
    }
}

/// The documents of `top` and of `$collStats` for `test.c`.
fn usage(client: &mut Client) -> (DocBuf, DocBuf) {
    let body = doc! { "top": 1 };
    let top = client.run("admin", body.as_doc());
    let totals = top.get("totals").as_doc().unwrap().get("test.c").as_doc().unwrap_or(Doc::EMPTY);
    let stats = client.shell(
        "{aggregate: 'c', pipeline: [{$collStats: {latencyStats: {}, queryExecStats: {}}}], cursor: {}}",
    );
    let Value::Array(batch) = stats.get("cursor").as_doc().unwrap().get("firstBatch") else {
        panic!("{stats:?}")
    };
    let first = batch.iter().next().unwrap().as_doc().unwrap();
    (totals.to_buf(), first.to_buf())
}

#[test]
fn scans_of_writes_are_counted() {
    let mut client = Client::new(&server());
    client.shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1, b: 1}, {_id: 2, a: 1, b: 1}]}");
    const SCANS: &[&str] = &["metrics", "queryExecutor", "collectionScans", "total"];
    let mut total = 0;
    for (command, expect) in [
        ("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {c: 1}}}]}", 0),
        ("{update: 'c', updates: [{q: {a: 1}, u: {$set: {c: 2}}, multi: true}]}", 0),
        (
            "{update: 'c', updates: [{q: {b: 1}, u: {$set: {c: 3}}, multi: true}, {q: {c: 9}, u: {$set: {d: 1}}}]}",
            2,
        ),
        ("{findAndModify: 'c', query: {b: 1}, update: {$set: {c: 4}}}", 1),
        ("{delete: 'c', deletes: [{q: {c: 9}, limit: 0}]}", 1),
        ("{find: 'c', filter: {b: 1}}", 1),
    ] {
        assert_eq!(changes(&mut client, command, &[SCANS]), [expect], "{command}");
        total += expect;
    }
    let (_, stats) = usage(&mut client);
    assert_eq!(number(&stats, &["queryExecStats", "collectionScans", "total"]), total, "{stats:?}");
}

#[test]
fn statements_of_bulk_writes_are_counted_for_their_collections() {
    let mut client = Client::new(&server());
    client.shell("{create: 'c'}");
    let (top_before, before) = usage(&mut client);
    let command = "{bulkWrite: 1, ops: [{insert: 0, document: {_id: 9}}, {insert: 1, document: {_id: 1}}, {update: 0, \
                   filter: {b: 9}, updateMods: {$set: {c: 1}}}, {delete: 0, filter: {_id: 9}}], nsInfo: [{ns: \
                   'test.c'}, {ns: 'test.d'}]}";
    let reply = client.run("admin", json::parse(command).unwrap().as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let (top, stats) = usage(&mut client);
    for kind in ["insert", "update", "remove"] {
        let count = number(&top, &[kind, "count"]) - number(&top_before, &[kind, "count"]);
        assert_eq!(count, 1, "{kind}: {top:?}");
    }
    let ops = |stats: &DocBuf| number(stats, &["latencyStats", "writes", "ops"]);
    assert_eq!(ops(&stats) - ops(&before), 3, "{stats:?}");
    let scans = |stats: &DocBuf| number(stats, &["queryExecStats", "collectionScans", "total"]);
    assert_eq!(scans(&stats) - scans(&before), 1, "{stats:?}");
}

#[test]
fn long_names_are_not_kept() {
    let mut client = Client::new(&server());
    let name = "x".repeat(1 << 16);
    let reply = client.shell(&format!("{{find: '{name}'}}"));
    assert_eq!(reply.get("code").to_string(), "73");
    client.shell(&format!("{{update: '{name}', updates: [{{q: {{}}, u: {{$set: {{a: 1}}}}}}]}}"));
    let top = client.run("admin", doc! { "top": 1 }.as_doc());
    assert!(!json::to_relaxed(top.as_doc()).contains("xxxx"), "it is in top");
}
