//! `explain` with indexes that do not exist: the plan, estimates against the truth, every kind of index and command,
//! that nothing is changed, and who may.

use nagi_bson::{DocBuf, Value, json, number};

use crate::client::{Client, is_ok, server};
use crate::login::{guarded, log_in};

/// Twenty groups of documents in `c`; the sample is a third of them.
const DOCS: i64 = 30_000;

fn fill(client: &mut Client, count: i64, document: fn(i64) -> String) {
    for first in (0..count).step_by(1000) {
        let all: Vec<String> = (first..count.min(first + 1000)).map(document).collect();
        let reply = client.shell(&format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
        assert!(is_ok(&reply), "{reply:?}");
    }
}

fn large() -> Client {
    let mut client = Client::new(&server());
    fill(&mut client, DOCS, |n| {
        format!("{{_id: {n}, a: {}, b: {}, c: 'text {n}'}}", n % 1000, (n * 7919) % 30_011)
    });
    client
}

fn ok(client: &mut Client, command: &str) -> DocBuf {
    let reply = client.shell(command);
    assert!(is_ok(&reply), "{command}: {reply:?}");
    reply
}

/// Explains a command with hypothetical indexes, `executionStats`.
fn tried(client: &mut Client, command: &str, indexes: &str) -> DocBuf {
    ok(
        client,
        &format!(
            "{{explain: {command}, verbosity: 'executionStats', hypotheticalIndexes: [{indexes}]}}"
        ),
    )
}

/// A value by its path.
fn at<'d>(reply: &'d DocBuf, path: &str) -> Value<'d> {
    path.split('.').fold(Value::Doc(reply.as_doc()), |value, name| match value {
        Value::Doc(doc) => doc.get(name),
        Value::Array(list) => list.get(name.parse().unwrap()),
        _ => Value::Missing,
    })
}

fn figure(reply: &DocBuf, path: &str) -> f64 {
    number::as_f64(at(reply, path)).unwrap_or_else(|| panic!("{path} in {reply:?}"))
}

fn text<'d>(reply: &'d DocBuf, path: &str) -> &'d str {
    at(reply, path).as_str().unwrap_or_else(|| panic!("{path} in {reply:?}"))
}

fn is_used(reply: &DocBuf) -> bool {
    at(reply, "hypothetical.indexes.0.used").is_truthy()
}

/// The estimates of an index, and after it was built, the figures of the real plan, must be alike.
#[test]
fn estimates_are_near_what_the_built_index_does() {
    let mut client = large();
    for (command, index, key) in [
        ("{find: 'c', filter: {a: 7}}", "{key: {a: 1}, name: 'a_1'}", "a_1"),
        (
            "{find: 'c', filter: {a: {$lt: 100}}, sort: {b: -1}, limit: 10}",
            "{key: {b: 1}, name: 'b_1'}",
            "b_1",
        ),
        (
            "{count: 'c', query: {a: {$gte: 500}, b: {$lt: 5000}}}",
            "{key: {a: 1, b: 1}, name: 'a_1_b_1'}",
            "a_1_b_1",
        ),
    ] {
        let reply = tried(&mut client, command, index);
        assert!(is_used(&reply), "{command}: {reply:?}");
        assert_eq!(text(&reply, "hypothetical.present.planSummary"), "COLLSCAN");
        // Fewer only if the time for the sample was over.
        let (documents, millis) = ("hypothetical.sample.documents", "hypothetical.sample.millis");
        let is_late = figure(&reply, millis) >= 5_000.0;
        assert!(is_late || figure(&reply, documents) == 10_000.0, "{reply:?}");
        assert_eq!(text(&reply, "hypothetical.sample.method"), "random");
        let scanned = figure(&reply, "hypothetical.present.estimate.totalDocsExamined");
        assert_eq!(scanned, DOCS as f64, "{command}");
        let estimate =
            |name: &str| figure(&reply, &format!("hypothetical.withIndexes.estimate.{name}"));
        let size = figure(&reply, "hypothetical.indexes.0.expectedSizeBytes");
        assert!(figure(&reply, "hypothetical.examinedRatio") > 3.0, "{command}: {reply:?}");

        ok(&mut client, &format!("{{createIndexes: 'c', indexes: [{index}]}}"));
        let truth =
            ok(&mut client, &format!("{{explain: {command}, verbosity: 'executionStats'}}"));
        for name in ["totalKeysExamined", "totalDocsExamined"] {
            let (expected, seen) =
                (estimate(name), figure(&truth, &format!("executionStats.{name}")));
            assert!(
                expected <= 2.0 * seen + 100.0 && seen <= 2.0 * expected + 100.0,
                "{command} {name}: expected {expected}, is {seen}"
            );
        }
        let stats = ok(&mut client, "{collStats: 'c'}");
        let built = figure(&stats, &format!("indexSizes.{key}"));
        assert!((0.6..1.7).contains(&(size / built)), "{key}: expected {size}, is {built}");
        ok(&mut client, &format!("{{dropIndexes: 'c', index: '{key}'}}"));
    }
}

/// A filter that nothing matches, and a limit that is reached early.
#[test]
fn limits_are_extrapolated_by_where_the_plan_stops() {
    let mut client = large();
    let reply = tried(
        &mut client,
        "{find: 'c', filter: {a: {$gte: 0}}, limit: 5}",
        "{key: {a: 1}, name: 'a'}",
    );
    assert_eq!(figure(&reply, "hypothetical.present.estimate.totalDocsExamined"), 5.0);
    assert_eq!(figure(&reply, "hypothetical.present.estimate.nReturned"), 5.0);
    let reply =
        tried(&mut client, "{find: 'c', filter: {a: -1}, limit: 5}", "{key: {a: 1}, name: 'a'}");
    assert_eq!(figure(&reply, "hypothetical.present.estimate.totalDocsExamined"), DOCS as f64);
    assert!(figure(&reply, "hypothetical.withIndexes.estimate.totalKeysExamined") <= 3.0);
}

#[test]
fn an_index_that_does_not_help_is_not_used() {
    let mut client = large();
    let reply = tried(&mut client, "{find: 'c', filter: {a: 7}}", "{key: {b: 1}, name: 'b'}");
    assert!(!is_used(&reply), "{reply:?}");
    assert_eq!(text(&reply, "hypothetical.withIndexes.planSummary"), "COLLSCAN");
    // Of two, the better one is used.
    let both = "{key: {b: 1}, name: 'b'}, {key: {a: 1, b: 1}, name: 'ab'}";
    let reply = tried(&mut client, "{find: 'c', filter: {a: 7}, sort: {b: 1}}", both);
    assert!(!is_used(&reply) && at(&reply, "hypothetical.indexes.1.used").is_truthy(), "{reply:?}");
    assert!(at(&reply, "hypothetical.present.estimate.sortsInMemory").is_truthy());
    assert!(!at(&reply, "hypothetical.withIndexes.estimate.sortsInMemory").is_truthy());
    assert_eq!(text(&reply, "queryPlanner.winningPlan.stage"), "FETCH");
    assert_eq!(text(&reply, "queryPlanner.winningPlan.inputStage.indexName"), "ab");
}

#[test]
fn every_kind_of_index() {
    let mut client = Client::new(&server());
    fill(&mut client, 500, |n| {
        format!(
            "{{_id: {n}, a: {n}, tags: ['t{}', 't{}'], at: {{type: 'Point', coordinates: [{}, {}]}}, \
             words: 'word{n} other', s: {{x: {n}}}, flag: {}}}",
            n % 50,
            n % 7,
            n % 90,
            n % 45,
            n % 10 == 0
        )
    });
    let near = "{at: {$geoWithin: {$centerSphere: [[10, 10], 0.01]}}}";
    for (filter, index) in [
        ("{a: 3, flag: false}", "{key: {a: 1, flag: -1}, name: 'i'}"),
        ("{tags: 't3'}", "{key: {tags: 1}, name: 'i'}"),
        ("{a: 3}", "{key: {a: 'hashed'}, name: 'i'}"),
        ("{'s.x': 3}", "{key: {'s.$**': 1}, name: 'i'}"),
        ("{a: 3}", "{key: {a: 1}, name: 'i', sparse: true}"),
        ("{a: 3}", "{key: {a: 1}, name: 'i', unique: true}"),
        ("{a: 30, flag: true}", "{key: {a: 1}, name: 'i', partialFilterExpression: {flag: true}}"),
        (near, "{key: {at: '2dsphere'}, name: 'i'}"),
    ] {
        let reply = tried(&mut client, &format!("{{find: 'c', filter: {filter}}}"), index);
        assert!(is_used(&reply), "{filter} {index}: {reply:?}");
        let is_multikey = at(&reply, "hypothetical.indexes.0.isMultiKey").is_truthy();
        assert_eq!(is_multikey, filter.contains("tags"), "{filter}");
    }
    // A partial index that does not contain all matches is not used.
    let partial = "{key: {a: 1}, name: 'i', partialFilterExpression: {flag: true}}";
    assert!(!is_used(&tried(&mut client, "{find: 'c', filter: {a: 30}}", partial)));
    // A text search has no plan without its index, which is no reason not to try it.
    let text_index = "{key: {words: 'text'}, name: 'i'}";
    let reply = tried(&mut client, "{find: 'c', filter: {$text: {$search: 'word3'}}}", text_index);
    assert!(is_used(&reply), "{reply:?}");
    assert_eq!(figure(&reply, "hypothetical.present.code"), 27.0);
    assert_eq!(figure(&reply, "hypothetical.withIndexes.estimate.nReturned"), 1.0);
    let nearest = "{find: 'c', filter: {at: {$near: {$geometry: {type: 'Point', coordinates: [1, 1]}}}}, limit: 3}";
    let reply = tried(&mut client, nearest, "{key: {at: '2dsphere'}, name: 'i'}");
    assert!(is_used(&reply), "{reply:?}");
}

#[test]
fn every_command_that_has_a_plan() {
    let mut client = large();
    let index = "{key: {a: 1}, name: 'a'}";
    for command in [
        "{aggregate: 'c', pipeline: [{$match: {a: 3}}, {$group: {_id: '$b'}}], cursor: {}}",
        "{aggregate: 'c', pipeline: [{$sort: {a: 1}}, {$limit: 3}], cursor: {}}",
        "{count: 'c', query: {a: 3}}",
        "{distinct: 'c', key: 'a', query: {a: {$lt: 5}}}",
        "{update: 'c', updates: [{q: {a: 3}, u: {$set: {x: 1}}, multi: true}]}",
        "{delete: 'c', deletes: [{q: {a: 3}, limit: 0}]}",
        "{findAndModify: 'c', query: {a: 3}, remove: true}",
    ] {
        let reply = tried(&mut client, command, index);
        assert!(is_used(&reply), "{command}: {reply:?}");
        assert!(figure(&reply, "hypothetical.examinedRatio") > 5.0, "{command}: {reply:?}");
    }
    assert_eq!(figure(&ok(&mut client, "{count: 'c'}"), "n"), DOCS as f64);
}

#[test]
fn collations_and_clustered_collections() {
    let mut client = Client::new(&server());
    ok(
        &mut client,
        "{create: 'c', collation: {locale: 'en', strength: 2}, clusteredIndex: {key: {_id: 1}, unique: true}}",
    );
    fill(&mut client, 300, |n| format!("{{_id: {n}, name: 'Name{n}'}}"));
    let reply =
        tried(&mut client, "{find: 'c', filter: {name: 'NAME7'}}", "{key: {name: 1}, name: 'i'}");
    assert!(is_used(&reply), "{reply:?}");
    assert_eq!(figure(&reply, "hypothetical.withIndexes.estimate.nReturned"), 1.0);
}

/// Neither indexes, plan caches, use counts nor the log tell of a trial.
#[test]
fn nothing_is_changed() {
    let mut client = large();
    ok(
        &mut client,
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}, {key: {b: 1}, name: 'b'}]}",
    );
    // Two candidates, so that the choice is stored.
    for _ in 0..3 {
        ok(&mut client, "{find: 'c', filter: {a: 3, b: {$lt: 3000}}}");
    }
    let state = |client: &mut Client| {
        [
            "{listIndexes: 'c'}",
            "{aggregate: 'c', pipeline: [{$planCacheStats: {}}], cursor: {}}",
            "{aggregate: 'c', pipeline: [{$indexStats: {}}], cursor: {}}",
            "{listCollections: 1}",
            "{collStats: 'c'}",
        ]
        .map(|command| {
            json::to_relaxed(
                ok(client, command).get("cursor").as_doc().unwrap_or(nagi_bson::Doc::EMPTY),
            )
        })
    };
    let log = |client: &mut Client| {
        let reply = client.run("admin", nagi_bson::doc! { "getLog": "global" }.as_doc());
        json::to_relaxed(reply.as_doc()).matches("Index build").count()
    };
    let (before, lines) = (state(&mut client), log(&mut client));
    let reply = tried(
        &mut client,
        "{find: 'c', filter: {a: 3, b: {$lt: 3000}}}",
        "{key: {a: 1, b: 1}, name: 'ab'}",
    );
    assert!(is_used(&reply), "{reply:?}");
    assert_eq!(state(&mut client), before);
    assert_eq!(log(&mut client), lines);
}

/// The right to run a command suffices to explain it, but a trial reads the collection.
#[test]
fn a_trial_needs_the_right_to_read() {
    let server = guarded();
    let mut root = Client::new(&server);
    log_in(&mut root, "admin", "root", "pwd");
    ok(&mut root, "{insert: 'c', documents: [{a: 1}]}");
    for (name, actions) in [("writer", "['update']"), ("both", "['update', 'find']")] {
        ok(
            &mut root,
            &format!(
                "{{createRole: '{name}', roles: [], privileges: [{{resource: {{db: 'test', collection: 'c'}}, \
                  actions: {actions}}}]}}"
            ),
        );
        ok(&mut root, &format!("{{createUser: '{name}', pwd: 'p', roles: ['{name}']}}"));
    }
    let command = "explain: {update: 'c', updates: [{q: {a: 1}, u: {$set: {b: 1}}}]}";
    let trial = format!("{{{command}, hypotheticalIndexes: [{{key: {{a: 1}}, name: 'a'}}]}}");
    let mut writer = Client::new(&server);
    log_in(&mut writer, "test", "writer", "p");
    ok(&mut writer, &format!("{{{command}}}"));
    assert_eq!(writer.shell(&trial).get("code").to_string(), "13");
    let mut both = Client::new(&server);
    log_in(&mut both, "test", "both", "p");
    ok(&mut both, &trial);
}

/// Documents with many keys in eight indexes: the copy would need several times its limit of memory.
fn with_arrays(client: &mut Client) -> String {
    let numbers: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    for first in (0..240).step_by(40) {
        let one = |n: i64| format!("{{_id: {n}, b: 3, x: [{}]}}", numbers.join(", "));
        let all: Vec<String> = (first..first + 40).map(one).collect();
        ok(client, &format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
    }
    (0..8)
        .map(|n| format!("{{key: {{x: 1, f{n}: 1}}, name: 'x{n}'}}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn a_sample_ends_at_the_limit_of_memory_or_time() {
    let mut client = Client::new(&server());
    let indexes = with_arrays(&mut client);
    let began = std::time::Instant::now();
    let (reply, peak) =
        nagi_testkit::peak_bytes(|| tried(&mut client, "{find: 'c', filter: {b: 3}}", &indexes));
    assert!(peak < 200 << 20, "{peak} bytes");
    let sampled = figure(&reply, "hypothetical.sample.documents");
    assert!((1.0..120.0).contains(&sampled), "{reply:?}");
    assert_eq!(text(&reply, "hypothetical.sample.method"), "beginning");
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    // The client's own limit of time counts, too, while documents are copied.
    let began = std::time::Instant::now();
    let reply = client.shell(&format!(
        "{{explain: {{find: 'c', filter: {{b: 3}}}}, hypotheticalIndexes: [{indexes}], maxTimeMS: 100}}"
    ));
    assert_eq!(at(&reply, "code").to_string(), "50", "{reply:?}");
    assert!(began.elapsed().as_secs() < 3, "{:?}", began.elapsed());
}

#[test]
fn a_document_with_too_many_keys_is_left_out() {
    let mut client = Client::new(&server());
    let numbers: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    ok(
        &mut client,
        &format!("{{insert: 'c', documents: [{{_id: -1, x: [{}]}}]}}", numbers.join(", ")),
    );
    let indexes: Vec<String> =
        (0..8).map(|n| format!("{{key: {{x: 1, f{n}: 1}}, name: 'x{n}'}}")).collect();
    let indexes = indexes.join(", ");
    let alone = client.shell(&format!(
        "{{explain: {{find: 'c', filter: {{x: 3}}}}, hypotheticalIndexes: [{indexes}]}}"
    ));
    assert_eq!(at(&alone, "code").to_string(), "146", "{alone:?}");
    fill(&mut client, 50, |n| format!("{{_id: {n}, x: {n}}}"));
    let reply = tried(&mut client, "{find: 'c', filter: {x: 3}}", &indexes);
    assert_eq!(figure(&reply, "hypothetical.sample.leftOut"), 1.0, "{reply:?}");
    assert_eq!(figure(&reply, "hypothetical.sample.documents"), 50.0);
}
