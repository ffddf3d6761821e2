//! What is told of slow operations: their rows by shape, their plan, their conflicts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, Value, doc, number};
use nagi_server::Server;

use crate::client::{Client, is_ok, member, server};

fn ok(client: &mut Client, command: &str) -> DocBuf {
    let reply = client.shell(command);
    assert!(is_ok(&reply), "{command}: {reply:?}");
    reply
}

/// Every operation counts as slow from now on.
fn all_are_slow(client: &mut Client) {
    assert!(is_ok(&client.run("admin", doc! { "profile": 0, "slowms": 0 }.as_doc())));
}

/// The rows of a namespace, those of one operation.
fn rows(server: &Server, ns: &str, operation: &str) -> Vec<DocBuf> {
    let all = DocBuf::build(|out| server.write_slow_shapes(out));
    let Value::Array(shapes) = all.get("shapes") else { panic!("{all:?}") };
    let shapes = shapes.iter().filter_map(|row| row.as_doc());
    let of = |row: &nagi_bson::Doc<'_>| {
        row.get("ns").as_str() == Some(ns) && row.get("operation").as_str() == Some(operation)
    };
    shapes.filter(of).map(|row| row.to_buf()).collect()
}

fn figure(doc: &DocBuf, name: &str) -> f64 {
    number::as_f64(doc.get(name)).unwrap_or_else(|| panic!("{name} in {doc:?}"))
}

/// The row with its example.
fn one(server: &Server, of: (&str, &str), hashes: (u32, u32)) -> DocBuf {
    let mut is_known = false;
    let row = DocBuf::build(|out| is_known = server.write_slow_shape(of, hashes, out));
    assert!(is_known, "{of:?} {hashes:?}");
    row
}

/// Many fast statements make a slow command, which has a line in the log.
#[test]
fn commands_with_statements_have_a_row() {
    let server = server();
    let mut client = Client::new(&server);
    ok(&mut client, "{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 2}]}");
    all_are_slow(&mut client);
    let statement = |id: i32| format!("{{q: {{_id: {id}, a: {id}}}, u: {{$inc: {{n: 1}}}}}}");
    let updates = format!("{{update: 'c', updates: [{}, {}]}}", statement(1), statement(2));
    ok(&mut client, &updates);
    ok(&mut client, "{delete: 'c', deletes: [{q: {a: 1}, limit: 1}]}");
    for (operation, statement, count) in [("update", "update", 2.0), ("delete", "remove", 1.0)] {
        let whole = rows(&server, "test.$cmd", operation);
        assert_eq!(whole.len(), 1, "{operation}: {whole:?}");
        assert_eq!((figure(&whole[0], "count"), figure(&whole[0], "docsExamined")), (1.0, 0.0));
        let own = rows(&server, "test.c", statement);
        assert_eq!(own.iter().map(|row| figure(row, "count")).sum::<f64>(), count, "{own:?}");
    }
    let example = one(&server, ("test.$cmd", "update"), (0, 0));
    let command = example.get("example").as_doc().map(|command| command.get("update").to_string());
    assert_eq!(command.as_deref(), Some("\"c\""), "{example:?}");
}

/// The hash of a plan's shape has only the filter and the sort at the beginning of a pipeline.
#[test]
fn pipelines_with_other_stages_have_rows_of_their_own() {
    let server = server();
    let mut client = Client::new(&server);
    ok(&mut client, "{insert: 'c', documents: [{a: 1}, {a: 2}]}");
    all_are_slow(&mut client);
    for pipeline in
        ["{$project: {v: '$a'}}", "{$project: {v: 5}}", "{$group: {_id: '$a'}}, {$count: 'n'}"]
    {
        ok(&mut client, &format!("{{aggregate: 'c', pipeline: [{pipeline}], cursor: {{}}}}"));
    }
    let found = rows(&server, "test.c", "aggregate");
    let mut texts: Vec<(&str, f64)> = found
        .iter()
        .map(|row| (row.get("shape").as_str().unwrap(), figure(row, "count")))
        .collect();
    texts.sort_by(|a, b| a.0.cmp(b.0));
    assert_eq!(texts, [("{} | $group, $count", 1.0), ("{} | $project", 2.0)]);
    let hash = |row: &DocBuf, name: &str| {
        u32::from_str_radix(row.get(name).as_str().unwrap(), 16).unwrap()
    };
    for row in &found {
        let hashes = (hash(row, "planCacheShapeHash"), hash(row, "stagesHash"));
        let own = one(&server, ("test.c", "aggregate"), hashes);
        assert_eq!(own.get("shape"), row.get("shape"));
    }
}

/// All of them were one row, whatever they asked for.
#[test]
fn expressions_have_rows_of_their_own() {
    let server = server();
    let mut client = Client::new(&server);
    ok(&mut client, "{insert: 'c', documents: [{a: 1, b: 2}]}");
    all_are_slow(&mut client);
    for filter in ["{$gt: ['$a', 5]}", "{$gt: ['$a', 7]}", "{$eq: ['$a', '$b']}"] {
        ok(&mut client, &format!("{{find: 'c', filter: {{$expr: {filter}}}}}"));
    }
    let found = rows(&server, "test.c", "find");
    let mut texts: Vec<(&str, f64)> = found
        .iter()
        .map(|row| (row.get("shape").as_str().unwrap(), figure(row, "count")))
        .collect();
    texts.sort_by(|a, b| a.0.cmp(b.0));
    let expected =
        [("{ $expr: { $eq: [ $a, $b ] } }", 1.0), ("{ $expr: { $gt: [ $a, ? ] } }", 2.0)];
    assert_eq!(texts, expected);
}

/// The fields of `distinct` commands are not in the shape of their plans.
#[test]
fn distinct_values_have_rows_by_their_fields() {
    let server = server();
    let mut client = Client::new(&server);
    ok(&mut client, "{insert: 'c', documents: [{a: 1, b: 2}, {a: 1, b: 3}]}");
    all_are_slow(&mut client);
    ok(&mut client, "{distinct: 'c', key: 'a'}");
    ok(&mut client, "{distinct: 'c', key: 'b'}");
    let found = rows(&server, "test.c", "distinct");
    let mut texts: Vec<(&str, f64)> = found
        .iter()
        .map(|row| (row.get("shape").as_str().unwrap(), figure(row, "nReturned")))
        .collect();
    texts.sort_by(|a, b| a.0.cmp(b.0));
    assert_eq!(texts, [("{} distinct a", 1.0), ("{} distinct b", 2.0)]);
}

/// Statements of `bulkWrite` have other fields than those of `update` and `delete`.
#[test]
fn statements_of_a_bulk_write_have_a_shape() {
    let server = server();
    let mut client = Client::new(&server);
    ok(&mut client, "{insert: 'c', documents: [{a: 1}]}");
    all_are_slow(&mut client);
    let update = "{update: 0, filter: {a: 5}, updateMods: {$set: {q: 1}}}";
    let delete = "{delete: 0, filter: {b: {$lt: -1}}}";
    let command =
        format!("{{bulkWrite: 1, ops: [{update}, {delete}], nsInfo: [{{ns: 'test.c'}}]}}");
    let command = nagi_bson::json::parse(&command).unwrap();
    assert!(is_ok(&client.run("admin", command.as_doc())));
    for (operation, shape) in [("update", "{ a: ? }"), ("remove", "{ b: { $lt: ? } }")] {
        let found = rows(&server, "test.c", operation);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].get("shape").as_str(), Some(shape));
    }
}

/// A long command can be recognized in its entry of the profile.
#[test]
fn a_long_command_keeps_the_beginning_of_its_filter() {
    let mut client = Client::new(&server());
    ok(&mut client, "{insert: 'c', documents: [{a: 1}]}");
    ok(&mut client, "{profile: 2}");
    let numbers: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let filter = format!("{{tenant: 5, a: {{$in: [{}]}}}}", numbers.join(", "));
    ok(&mut client, &format!("{{find: 'c', filter: {filter}, comment: 'x'}}"));
    ok(&mut client, &format!("{{aggregate: 'c', pipeline: [{{$match: {filter}}}], cursor: {{}}}}"));
    ok(&mut client, &format!("{{update: 'c', updates: [{{q: {filter}, u: {{$set: {{z: 1}}}}}}]}}"));
    ok(&mut client, "{profile: 0}");
    for (at, field) in [
        ("command.find", "command.filter.tenant"),
        ("command.aggregate", "command.pipeline.$match.tenant"),
        ("command.u", "command.q.tenant"),
    ] {
        let kept = format!("'command.$truncated': true, '{at}': {{$exists: true}}, '{field}': 5");
        let reply = ok(&mut client, &format!("{{find: 'system.profile', filter: {{{kept}}}}}"));
        let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").to_string();
        assert!(batch.contains("$in: [ 0, 1, 2, 3"), "{at}: {batch}");
    }
}

/// `$merge` runs an update for each document, by `_id`.
#[test]
fn the_plan_of_a_pipeline_with_merge_is_its_own() {
    let mut client = Client::new(&server());
    ok(&mut client, "{insert: 'c', documents: [{i: 1}, {i: 2}, {i: 3}]}");
    ok(&mut client, "{profile: 2}");
    ok(
        &mut client,
        "{aggregate: 'c', pipeline: [{$match: {i: {$gte: 0}}}, {$merge: 't'}], cursor: {}}",
    );
    ok(&mut client, "{profile: 0}");
    let found = ok(&mut client, "{find: 'system.profile', filter: {'command.aggregate': 'c'}}");
    let batch = found.get("cursor").as_doc().unwrap().get("firstBatch").to_string();
    let merged = ok(&mut client, "{count: 't'}");
    assert_eq!(merged.get("n").to_string(), "3");
    assert!(batch.contains("COLLSCAN") && !batch.contains("EXPRESS"), "{batch}");
}

fn conflicts(client: &mut Client) -> f64 {
    let status = client.run("admin", doc! { "serverStatus": 1 }.as_doc());
    let metrics = status.get("metrics").as_doc().unwrap().get("operation").as_doc().unwrap();
    number::as_f64(metrics.get("writeConflicts")).unwrap()
}

/// Waits until an update on `test.w` shows a conflict in currentOp.
fn wait_for_conflict(admin: &mut Client) {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let command = doc! { "currentOp": 1, "op": "update" };
        let reply = admin.run("admin", command.as_doc());
        let list = reply.get("inprog").as_array().unwrap();
        let ops: Vec<_> = list.iter().filter_map(|op| op.as_doc()).collect();
        let shows = |op: &nagi_bson::Doc<'_>| {
            op.get("ns").as_str() == Some("test.w") && !op.get("writeConflicts").is_missing()
        };
        if ops.iter().any(shows) {
            return;
        }
        assert!(Instant::now() < end, "no conflict is shown: {reply:?}");
        std::thread::yield_now();
    }
}

/// A write that waits for another client's transaction shows its conflict at once, in a session and without.
#[test]
fn a_write_that_waits_for_a_transaction_counts_its_conflict() {
    let server: Arc<Server> = member();
    let mut holder = Client::new(&server);
    let mut admin = Client::new(&server);
    ok(&mut holder, "{insert: 'w', documents: [{_id: 1}]}");
    let own = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddee01\")}";
    let other =
        "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddee02\")}, txnNumber: NumberLong(1)";
    for (number, fields) in [(1, String::new()), (2, format!(", {other}"))] {
        let before = conflicts(&mut admin);
        let txn = format!("{own}, txnNumber: NumberLong({number}), autocommit: false");
        let update = "updates: [{q: {_id: 1}, u: {$inc: {a: 1}}}]";
        ok(&mut holder, &format!("{{update: 'w', {update}, {txn}, startTransaction: true}}"));
        let mut writer = Client::new(&server);
        let thread = std::thread::spawn(move || {
            writer.shell(&format!(
                "{{update: 'w', updates: [{{q: {{_id: 1}}, u: {{$inc: {{b: 1}}}}}}]{fields}}}"
            ))
        });
        wait_for_conflict(&mut admin);
        let commit = format!("{{commitTransaction: 1, {txn}}}");
        let commit = nagi_bson::json::parse(&commit).unwrap();
        assert!(is_ok(&holder.run("admin", commit.as_doc())));
        let reply = thread.join().unwrap();
        assert_eq!(reply.get("nModified").to_string(), "1", "{reply:?}");
        assert!(conflicts(&mut admin) > before, "{number}");
    }
}
