//! Slow operations by shape.

use nagi_bson::{DocBuf, Value, number};

use crate::harness::{Reply, Running, start};
use crate::logins::{cookie, with_users};

const ALL_ARE_SLOW: &str = "{profile: 0, slowms: 0}";

/// The rows of the reply.
fn rows(running: &Running, headers: &str) -> Vec<DocBuf> {
    let reply = running.get("/api/slow", headers);
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = reply.json();
    let Value::Array(shapes) = reply.as_doc().get("shapes") else { panic!("{reply:?}") };
    shapes.iter().map(|row| row.as_doc().unwrap().to_buf()).collect()
}

fn text<'a>(row: &'a DocBuf, name: &str) -> &'a str {
    row.as_doc().get(name).as_str().unwrap_or("")
}

fn row<'a>(rows: &'a [DocBuf], ns: &str, operation: &str) -> &'a DocBuf {
    let found =
        rows.iter().find(|row| text(row, "ns") == ns && text(row, "operation") == operation);
    found.unwrap_or_else(|| panic!("{ns} {operation}: {rows:?}"))
}

fn one(running: &Running, row: &DocBuf) -> Reply {
    let (ns, operation) = (text(row, "ns"), text(row, "operation"));
    let (hash, stages) = (text(row, "planCacheShapeHash"), text(row, "stagesHash"));
    let path = format!("/api/slow?ns={ns}&operation={operation}&planCacheShapeHash={hash}");
    running.get(&format!("{path}&stagesHash={stages}"), "")
}

#[test]
fn shapes_with_sums_and_their_slowest_example() {
    let running = start(false);
    running.command("", "shop", "{insert: 'c', documents: [{a: 1}, {a: 2}, {a: 3}]}");
    running.command("", "admin", ALL_ARE_SLOW);
    for a in 1..4 {
        let command =
            format!("{{find: 'c', filter: {{a: {{$gte: NumberLong({a})}}}}, sort: {{b: 1}}}}");
        running.command("", "shop", &command);
    }
    running.command("", "shop", "{insert: 'c', documents: [{a: 4}]}");
    running.command("", "shop", "{update: 'c', updates: [{q: {a: 1}, u: {$set: {b: 1}}}]}");
    let all = rows(&running, "");
    let find = row(&all, "shop.c", "find");
    assert_eq!(text(find, "shape"), "{ a: { $gte: ? } } sort { b: 1 }");
    let figure = |name: &str| number::as_f64(find.as_doc().get(name)).unwrap();
    assert_eq!((figure("count"), figure("docsExamined"), figure("nReturned")), (3.0, 9.0, 6.0));
    assert!(figure("totalMicros") >= figure("slowestMicros") && figure("lastMs") > 1e12);
    assert!(find.as_doc().get("example").is_missing());
    // Operations without a plan are there too.
    assert_eq!(text(row(&all, "shop.c", "insert"), "planCacheShapeHash"), "");
    row(&all, "shop.c", "update");
    // The command has its types.
    let example = one(&running, find);
    assert_eq!(example.status, 200, "{example:?}");
    assert!(example.body.contains(r#""$gte":{"$numberLong":""#), "{}", example.body);
    let insert = one(&running, row(&all, "shop.c", "insert"));
    assert!(insert.body.contains(r#""example":{"insert":"c""#), "{}", insert.body);
    let unknown = running.get("/api/slow?ns=shop.c&operation=find&planCacheShapeHash=1", "");
    assert_eq!(unknown.status, 404);
    let bad = running.get("/api/slow?ns=shop.c&operation=find&planCacheShapeHash=x", "");
    assert_eq!(bad.status, 400);
}

#[test]
fn a_command_of_any_length_has_a_row() {
    let running = start(false);
    running.command("", "shop", "{insert: 'c', documents: [{a: 1}]}");
    running.command("", "admin", ALL_ARE_SLOW);
    let long = "1234567890, ".repeat(20_000);
    running.command("", "shop", &format!("{{find: 'c', filter: {{a: {{$in: [{long}]}}, b: 5}}}}"));
    let all = rows(&running, "");
    let find = row(&all, "shop.c", "find");
    assert_eq!(text(find, "shape"), "{ a: { $in: ? }, b: ? }");
    let example = one(&running, find).body;
    let cut = r#""example":{"$truncated":true,"find":"c","filter":{"a":{"$in":[{"$numberInt":"1234567890"}"#;
    assert!(example.contains(cut) && example.len() < 8000, "{} {example}", example.len());
}

#[test]
fn the_next_batches_of_a_long_aggregation_are_in_its_row() {
    let running = start(false);
    running.command("", "shop", "{insert: 'c', documents: [{a: 1}, {a: 1}, {a: 1}]}");
    running.command("", "admin", ALL_ARE_SLOW);
    let long = "1234567890, ".repeat(1000);
    let reply = running.command(
        "",
        "shop",
        &format!(
            "{{aggregate: 'c', cursor: {{batchSize: 1}}, \
             pipeline: [{{$match: {{a: {{$in: [{long} 1]}}}}}}, {{$set: {{b: 1}}}}]}}"
        ),
    );
    let id = reply.as_doc().get("cursor").as_doc().unwrap().get("id");
    let id = number::truncate_to_i64(id).unwrap();
    let more = format!("{{getMore: NumberLong('{id}'), collection: 'c'}}");
    let more = running.command("", "shop", &more);
    assert!(!more.as_doc().get("cursor").is_missing(), "{more:?}");
    let all = rows(&running, "");
    let own: Vec<_> = all.iter().filter(|row| text(row, "operation") == "aggregate").collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(text(own[0], "shape"), "{ a: { $in: ? } } | $match, $set");
    assert_eq!(number::as_f64(own[0].as_doc().get("count")), Some(2.0));
    let example = one(&running, own[0]).body;
    for part in [r#""pipeline":[{"$match":{"a":{"$in":["#, r#","..."]}}},{"$set":"..."}]"#] {
        assert!(example.contains(part), "{part}: {example}");
    }
}

#[test]
fn they_are_for_those_who_may_read_the_log() {
    let running = with_users();
    let (ann, bob) = (cookie(&running, "ann"), cookie(&running, "bob"));
    assert_eq!(running.get("/api/slow", "").status, 401);
    for path in ["/api/slow", "/api/slow?ns=a.b&operation=find"] {
        let refused = running.get(path, &bob);
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("Unauthorized"), "{}", refused.body);
    }
    running.command(&ann, "admin", ALL_ARE_SLOW);
    let monitor = "{createUser: 'cat', pwd: 'secret', roles: ['clusterMonitor']}";
    running.command(&ann, "admin", monitor);
    let cat = cookie(&running, "cat");
    let all = rows(&running, &cat);
    let created = row(&all, "admin.$cmd", "createUser");
    let path = format!("/api/slow?ns={}&operation=createUser", text(created, "ns"));
    let example = running.get(&path, &cat).body;
    assert!(example.contains(r#""pwd":"xxx""#) && !example.contains("secret"), "{example}");
}

#[test]
fn a_log_without_values_has_no_examples() {
    let running = start(false);
    running.command("", "admin", ALL_ARE_SLOW);
    running.command("", "shop", "{find: 'c', filter: {a: 'secret'}}");
    running.command("", "admin", "{setParameter: 1, redactClientLogData: true}");
    let all = rows(&running, "");
    let example = one(&running, row(&all, "shop.c", "find"));
    let is_redacted = example.body.contains(r#""redacted":true"#);
    assert!(is_redacted && !example.body.contains("secret"), "{}", example.body);
}
