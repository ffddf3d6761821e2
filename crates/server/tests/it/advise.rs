//! `nagiAdvise`: from slow operations to advice, what is left out, and who may see what.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, json, number};
use nagi_budget::Budget;
use nagi_kv::reuse::{CacheEstimate, Reuse};
use nagi_store::{Store, StoreOptions};

use crate::client::{Client, is_ok, server, server_over};
use crate::login::{guarded, log_in};

fn ok(client: &mut Client, db: &str, command: &str) -> DocBuf {
    let reply = client.run(db, json::parse(command).unwrap().as_doc());
    assert!(is_ok(&reply), "{command}: {reply:?}");
    reply
}

/// A collection `shop.orders` with indexes, and every operation counts as slow.
fn prepare(client: &mut Client) {
    for first in (0..6000).step_by(1000) {
        let one = |n: i64| {
            format!("{{_id: {n}, a: {}, b: {}, c: {n}, e: {n}, s: 'x{n}'}}", n % 300, n % 70)
        };
        let all: Vec<String> = (first..first + 1000).map(one).collect();
        ok(client, "shop", &format!("{{insert: 'orders', documents: [{}]}}", all.join(", ")));
    }
    ok(
        client,
        "shop",
        "{createIndexes: 'orders', indexes: [{key: {s: 1}, name: 's'}, {key: {s: 1, b: 1}, name: 'sb'}, \
         {key: {c: 1}, name: 'c', unique: true}]}",
    );
    ok(client, "admin", "{profile: 0, slowms: 0}");
}

fn run_slow(client: &mut Client) {
    for n in 0..4 {
        ok(client, "shop", &format!("{{find: 'orders', filter: {{a: {n}}}}}"));
        ok(
            client,
            "shop",
            &format!("{{find: 'orders', filter: {{b: {n}, a: 5}}, sort: {{e: -1}}}}"),
        );
        ok(client, "shop", &format!("{{find: 'orders', filter: {{_id: {n}}}}}"));
        ok(client, "shop", "{count: 'orders', query: {b: {$ne: 1}}}");
        let update = format!("{{q: {{d: {n}}}, u: {{$set: {{x: {n}}}}}, multi: true}}");
        ok(client, "shop", &format!("{{update: 'orders', updates: [{update}]}}"));
    }
}

fn advised(client: &mut Client, more: &str) -> DocBuf {
    ok(client, "admin", &format!("{{nagiAdvise: 1{more}}}"))
}

fn docs<'d>(doc: Doc<'d>, name: &str) -> Vec<Doc<'d>> {
    match doc.get(name) {
        Value::Array(list) => list.iter().filter_map(|item| item.as_doc()).collect(),
        other => panic!("{name} is {other}"),
    }
}

fn find<'d>(reply: &'d DocBuf, kind: &str, name: &str) -> Option<Doc<'d>> {
    docs(reply.as_doc(), "advice").into_iter().find(|advice| {
        advice.get("kind").as_str() == Some(kind) && advice.get("name").as_str() == Some(name)
    })
}

fn figure(doc: Doc<'_>, name: &str) -> f64 {
    number::as_f64(doc.get(name)).unwrap_or_else(|| panic!("{name} in {doc}"))
}

#[test]
fn indexes_are_merged_measured_and_help_when_built() {
    let mut client = Client::new(&server());
    prepare(&mut client);
    run_slow(&mut client);
    let reply = advised(&mut client, "");
    // `a =` and `a =, b =, sorted by e` are served by one index; `d =` needs another.
    let merged = find(&reply, "createIndex", "a_1_b_1_e_-1").unwrap_or_else(|| panic!("{reply:?}"));
    assert_eq!(docs(merged, "shapes").len(), 2, "{merged}");
    assert_eq!(
        docs(merged, "shapes").iter().map(|shape| figure(*shape, "count")).sum::<f64>(),
        8.0
    );
    let measured = merged.get("measured").as_doc().unwrap();
    assert!(figure(measured, "examinedRatio") > 100.0, "{measured}");
    let present = measured.get("present").as_doc().unwrap();
    assert_eq!(figure(present, "totalDocsExamined"), 6000.0);
    assert!(present.get("sortsInMemory").is_truthy(), "{measured}");
    assert!(!measured.get("withIndex").as_doc().unwrap().get("sortsInMemory").is_truthy());
    let other = find(&reply, "createIndex", "d_1").unwrap_or_else(|| panic!("{reply:?}"));
    assert_eq!(docs(other, "shapes")[0].get("operation").as_str(), Some("update"));

    let command = json::to_relaxed(merged.get("command").as_doc().unwrap());
    ok(&mut client, "shop", &command);
    let plan = ok(
        &mut client,
        "shop",
        "{explain: {find: 'orders', filter: {b: 3, a: 5}, sort: {e: -1}}, verbosity: 'executionStats'}",
    );
    let truth = figure(plan.get("executionStats").as_doc().unwrap(), "totalDocsExamined");
    let expected = figure(measured.get("withIndex").as_doc().unwrap(), "totalDocsExamined");
    assert!(truth <= expected + 30.0, "{truth} {expected}");

    let again = advised(&mut client, "");
    assert!(find(&again, "createIndex", "a_1_b_1_e_-1").is_none(), "{again:?}");
    let reasons: Vec<String> = docs(again.as_doc(), "notAdvised")
        .iter()
        .map(|row| row.get("reason").as_str().unwrap().to_owned())
        .collect();
    for reason in ["the index a_1_b_1_e_-1 begins with the fields", "neither a filter nor a sort"] {
        assert!(reasons.iter().any(|text| text.contains(reason)), "{reason}: {reasons:?}");
    }
}

#[test]
fn useless_indexes() {
    let mut client = Client::new(&server());
    prepare(&mut client);
    ok(&mut client, "shop", "{find: 'orders', filter: {s: 'x1'}, hint: 's'}");
    // Only the shorter one was used, so it is the longer one that may go, and not both.
    let reply = advised(&mut client, ", unusedSeconds: 0");
    assert!(find(&reply, "dropIndex", "sb").is_some(), "{reply:?}");
    assert!(find(&reply, "dropIndex", "s").is_none(), "{reply:?}");
    ok(&mut client, "shop", "{find: 'orders', filter: {s: 'x1', b: 1}, hint: 'sb'}");
    let reply = advised(&mut client, ", unusedSeconds: 0");
    assert!(find(&reply, "dropIndex", "sb").is_none(), "{reply:?}");
    let prefix = find(&reply, "dropIndex", "s").unwrap_or_else(|| panic!("{reply:?}"));
    assert_eq!(prefix.get("prefixOf").as_str(), Some("sb"));
    assert!(figure(prefix, "sizeBytes") > 0.0);
    // It is unique, so it does more than find documents.
    assert!(find(&reply, "dropIndex", "c").is_none());
    ok(&mut client, "shop", "{createIndexes: 'orders', indexes: [{key: {z: 1}, name: 'z'}]}");
    let reply = advised(&mut client, ", unusedSeconds: 0");
    assert!(find(&reply, "dropIndex", "z").is_some(), "{reply:?}");
    assert!(find(&advised(&mut client, ""), "dropIndex", "z").is_none(), "it is new");
    let command = prefix.get("command").as_doc().unwrap();
    ok(&mut client, "shop", &json::to_relaxed(command));
    assert!(find(&advised(&mut client, ", unusedSeconds: 0"), "dropIndex", "s").is_none());
}

fn reasons(reply: &DocBuf) -> Vec<String> {
    let text = |row: &Doc<'_>| row.get("reason").as_str().unwrap().to_owned();
    docs(reply.as_doc(), "notAdvised").iter().map(text).collect()
}

#[test]
fn an_index_that_cannot_be_built_is_refused_alone() {
    let mut client = Client::new(&server());
    // One of both alone would find all documents.
    let one = |n: i64| format!("{{_id: {n}, x: [0, 1, 2], y: [0, 1, 2], a: {}}}", n % 500);
    let all: Vec<String> = (0..1000).map(one).collect();
    ok(&mut client, "shop", &format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
    // The name of an index that would be advised is taken.
    ok(
        &mut client,
        "shop",
        "{createIndexes: 'c', indexes: [{key: {z: 1}, name: 'z_1', sparse: true}]}",
    );
    ok(&mut client, "admin", "{profile: 0, slowms: 0}");
    for n in 0..3 {
        ok(
            &mut client,
            "shop",
            &format!("{{find: 'c', filter: {{x: {n}, y: {n}, a: {{$mod: [500, {n}]}}}}}}"),
        );
        ok(&mut client, "shop", &format!("{{find: 'c', filter: {{a: {n}}}}}"));
        ok(&mut client, "shop", &format!("{{find: 'c', filter: {{z: {n}, $or: [{{a: 1}}]}}}}"));
    }
    let reply = advised(&mut client, "");
    assert!(find(&reply, "createIndex", "x_1_y_1").is_none(), "{reply:?}");
    let reasons = reasons(&reply);
    let parallel = "the index x_1_y_1 was tried: it cannot be built: cannot index parallel arrays";
    assert!(reasons.iter().any(|text| text.starts_with(parallel)), "{reasons:?}");
    let other = find(&reply, "createIndex", "a_1").unwrap_or_else(|| panic!("{reply:?}"));
    assert!(other.get("measured").as_doc().is_some(), "{other}");
}

/// An index for one branch of `$or` is of no use without those for the others.
#[test]
fn the_branches_of_or_are_tried_together() {
    let mut client = Client::new(&server());
    let one = |n: i64| {
        let (a, b) = (n % 300, n % 200);
        format!("{{_id: {n}, a: {a}, b: {b}, e: {a}, x: [0, 1, 2], y: [0, 1, 2]}}")
    };
    let all: Vec<String> = (0..1200).map(one).collect();
    ok(&mut client, "shop", &format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
    ok(&mut client, "admin", "{profile: 0, slowms: 0}");
    for n in 0..3 {
        for filter in [
            format!("{{$or: [{{a: {n}}}, {{b: {n}}}]}}"),
            format!("{{e: {n}}}"),
            format!("{{$or: [{{e: {n}}}, {{x: {n}, y: {n}, q: {{$mod: [5, 7]}}}}]}}"),
        ] {
            ok(&mut client, "shop", &format!("{{find: 'c', filter: {filter}}}"));
        }
    }
    let reply = advised(&mut client, "");
    let texts = |name: &str| -> Vec<String> {
        let advice = find(&reply, "createIndex", name).unwrap_or_else(|| panic!("{reply:?}"));
        let text = |shape: &Doc<'_>| shape.get("shape").as_str().unwrap().to_owned();
        docs(advice, "shapes").iter().map(text).collect()
    };
    assert_eq!(texts("a_1"), ["{ $or: [ { a: ? }, { b: ? } ] }"]);
    assert_eq!(texts("b_1"), texts("a_1"));
    // The index for its other branch cannot be built.
    assert_eq!(texts("e_1"), ["{ e: ? }"]);
    let left = docs(reply.as_doc(), "notAdvised");
    let left: Vec<_> = left.iter().map(|row| row.get("shape").as_str().unwrap()).collect();
    assert_eq!(left, ["{ $or: [ { e: ? }, { x: ?, y: ?, q: { $mod: ? } } ] }"], "{reply:?}");
}

/// The planner takes comparisons with constants from an expression.
#[test]
fn an_expression_may_need_an_index() {
    let mut client = Client::new(&server());
    let all: Vec<String> = (0..1000).map(|n| format!("{{_id: {n}, b: {n}}}")).collect();
    ok(&mut client, "shop", &format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
    ok(&mut client, "admin", "{profile: 0, slowms: 0}");
    ok(&mut client, "shop", "{find: 'c', filter: {$expr: {$eq: ['$b', 5]}}}");
    let reply = advised(&mut client, "");
    let advice = find(&reply, "createIndex", "b_1").unwrap_or_else(|| panic!("{reply:?}"));
    let measured = advice.get("measured").as_doc().unwrap_or_else(|| panic!("{advice}"));
    assert!(figure(measured, "examinedRatio") > 10.0, "{measured}");
}

/// A query whose client gives it little time must not take more when it is tried.
#[test]
fn an_example_is_tried_for_no_longer_than_its_client_waits() {
    let mut client = Client::new(&server());
    let all: Vec<String> = (0..2000).map(|n| format!("{{_id: {n}, q: 1}}")).collect();
    ok(&mut client, "shop", &format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
    ok(&mut client, "admin", "{profile: 0, slowms: 0}");
    let slow = "{$gt: [{$reduce: {input: {$range: [0, 10000]}, initialValue: 0, in: {$add: ['$$value', \
                '$$this']}}}, -1]}";
    // It would need seconds for all documents.
    let command = format!("{{find: 'c', filter: {{q: 1, $expr: {slow}}}, maxTimeMS: 300}}");
    let reply = client.run("shop", json::parse(&command).unwrap().as_doc());
    assert_eq!(reply.get("code").to_string(), "50", "{reply:?}");
    let began = std::time::Instant::now();
    let reply = advised(&mut client, "");
    assert!(began.elapsed().as_secs() < 10, "{:?} {reply:?}", began.elapsed());
    let advice = find(&reply, "createIndex", "q_1").unwrap_or_else(|| panic!("{reply:?}"));
    let reason = advice.get("notMeasured").as_str().unwrap_or("");
    assert!(reason.contains("exceeded time limit"), "{advice}");
}

#[test]
fn scope_and_options() {
    let mut client = Client::new(&server());
    prepare(&mut client);
    run_slow(&mut client);
    let reply = advised(&mut client, ", measure: false");
    let advice = find(&reply, "createIndex", "a_1_b_1_e_-1").unwrap();
    assert_eq!(advice.get("notMeasured").as_str(), Some("measure is false"));
    let missing =
        client.run("admin", json::parse("{nagiAdvise: 1, database: 'othre'}").unwrap().as_doc());
    assert_eq!(
        missing.get("code").to_string(),
        "26",
        "a wrong name is not 'no advice': {missing:?}"
    );
    ok(&mut client, "other", "{create: 'c'}");
    let other = advised(&mut client, ", database: 'other', unusedSeconds: 0");
    assert_eq!(docs(other.as_doc(), "advice").len(), 0, "{other:?}");
    assert_eq!(docs(other.as_doc(), "notAdvised").len(), 0);
    // Below the threshold nothing is noted.
    let mut quiet = Client::new(&server());
    prepare(&mut quiet);
    ok(&mut quiet, "admin", "{profile: 0, slowms: 100000}");
    run_slow(&mut quiet);
    let reply = advised(&mut quiet, "");
    assert!(find(&reply, "createIndex", "a_1_b_1_e_-1").is_none(), "{reply:?}");
}

#[test]
fn rights() {
    let server = guarded();
    let mut root = Client::new(&server);
    log_in(&mut root, "admin", "root", "pwd");
    prepare(&mut root);
    run_slow(&mut root);
    for (name, roles) in [
        ("reader", "['readAnyDatabase']"),
        ("monitor", "['clusterMonitor']"),
        ("both", "['clusterMonitor', 'readAnyDatabase']"),
    ] {
        ok(&mut root, "admin", &format!("{{createUser: '{name}', pwd: 'p', roles: {roles}}}"));
    }
    let as_user = |name: &str| {
        let mut client = Client::new(&server);
        log_in(&mut client, "admin", name, "p");
        client.run("admin", json::parse("{nagiAdvise: 1, unusedSeconds: 0}").unwrap().as_doc())
    };
    assert_eq!(as_user("reader").get("code").to_string(), "13");
    let monitor = as_user("monitor");
    let advice = find(&monitor, "createIndex", "a_1_b_1_e_-1").unwrap();
    assert_eq!(advice.get("notMeasured").as_str(), Some("the user may not read the collection"));
    assert!(find(&monitor, "dropIndex", "s").is_some(), "{monitor:?}");
    let both = as_user("both");
    assert!(find(&both, "createIndex", "a_1_b_1_e_-1").unwrap().get("measured").as_doc().is_some());
    // An update is tried as the find that its plan is, which a reader may run.
    let update = find(&both, "createIndex", "d_1").unwrap();
    assert!(update.get("measured").as_doc().is_some(), "{update}");
}

const MIB: u64 = 1 << 20;

/// What is known of a cache of 100 MiB after `rounds` reads of each of 160 blocks of 1 MiB.
fn estimate(rounds: u64) -> CacheEstimate {
    let capacity = 100 * MIB;
    let reuse = Reuse::new(0, capacity);
    for _ in 0..rounds {
        (0..160).for_each(|block| reuse.read(block, MIB));
    }
    let (curve, sampled) = reuse.curve(160 * rounds).unwrap();
    CacheEstimate { curve, sampled, capacity, reserved: 0, density: 1.0 }
}

/// A client of a server with a budget of 256 MiB, whose engine knows this of its cache.
fn with_estimate(rounds: u64) -> Client {
    let engine = nagi_kv::Faulty::new(Arc::new(nagi_kv::Memory::new()), nagi_kv::Faults::default());
    let engine = engine.with_cache_estimate(estimate(rounds));
    let options = StoreOptions {
        record_cache_bytes: 1 << 20,
        budget: Budget::new(256 * MIB),
        ..StoreOptions::default()
    };
    let store = Store::open(Arc::new(engine), options).unwrap();
    Client::new(&server_over(store, None, false, false))
}

#[test]
fn a_cache_that_is_too_small() {
    let mut client = with_estimate(200);
    let reply = advised(&mut client, "");
    let known = docs(reply.as_doc(), "caches");
    assert_eq!(known.len(), 1, "documents were not read: {reply:?}");
    assert_eq!(known[0].get("cache").as_str(), Some("blocks"));
    assert_eq!(figure(known[0], "sampledReads"), 32_000.0);
    let advice = docs(reply.as_doc(), "advice");
    let [advice] = advice.as_slice() else { panic!("{reply:?}") };
    assert_eq!(advice.get("kind").as_str(), Some("cacheSize"));
    let wanted = figure(*advice, "bytesFor99Percent");
    assert!((160.0..190.0).contains(&(wanted / MIB as f64)), "{advice}");
    assert_eq!(figure(known[0], "bytesFor99Percent"), wanted);
    // The budget grows by what the cache lacks, and is rounded up to 64 MiB.
    assert_eq!(figure(*advice, "presentCacheSizeGB"), 0.25);
    assert_eq!(figure(*advice, "cacheSizeGB"), 0.375, "{advice}");
    let sizes = docs(advice.get("measured").as_doc().unwrap(), "sizes");
    let rates: Vec<f64> = sizes.iter().map(|size| figure(*size, "hitRate")).collect();
    assert!(rates.len() >= 5 && rates[0] < 0.1 && *rates.last().unwrap() > 0.99, "{rates:?}");
    assert!(advice.get("reason").as_str().unwrap().contains("it would answer 99 %"), "{advice}");

    // The caches belong to no database.
    ok(&mut client, "shop", "{create: 'c'}");
    let other = advised(&mut client, ", database: 'shop'");
    assert!(docs(other.as_doc(), "caches").is_empty() && docs(other.as_doc(), "advice").is_empty());
}

#[test]
fn thin_evidence_says_nothing_of_caches() {
    let mut client = with_estimate(6);
    let status = ok(&mut client, "admin", "{serverStatus: 1}");
    assert!(json::to_relaxed(status.as_doc()).contains("\"sampledReads\":960"), "{status:?}");
    let reply = advised(&mut client, "");
    assert!(docs(reply.as_doc(), "caches").is_empty(), "{reply:?}");
    assert!(docs(reply.as_doc(), "advice").is_empty(), "{reply:?}");
}
