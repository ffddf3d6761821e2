//! Query statistics, and the counters of operators and write concerns.

use nagi_bson::{Doc, DocBuf, Value, doc, json, number};

use crate::client::{Client, config_over, is_ok, server};
use nagi_server::ServerBuilder;
use nagi_store::{Store, StoreOptions};

/// A client of a server that records all queries.
fn recorded() -> Client {
    let mut client = Client::new(&server());
    admin(&mut client, "{setParameter: 1, internalQueryStatsRateLimit: -1}");
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 2}, {_id: 3, a: 3}]}");
    client
}

fn admin(client: &mut Client, command: &str) -> DocBuf {
    let body = json::parse(&command.replace('\'', "\"")).unwrap();
    let reply = client.run("admin", body.as_doc());
    assert!(is_ok(&reply), "{command}: {reply:?}");
    reply
}

/// The entries of the database `test`, by the text of their filter, key or pipeline.
fn entries(client: &mut Client, stage: &str) -> Vec<DocBuf> {
    let command = format!(
        "{{aggregate: 1, pipeline: [{{$queryStats: {stage}}}], cursor: {{batchSize: 1000}}}}"
    );
    let reply = admin(client, &command);
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    let own = |entry: &Doc<'_>| at(*entry, "key.collectionType") != Value::String("virtual");
    batch
        .iter()
        .filter_map(|entry| entry.as_doc())
        .filter(own)
        .map(|entry| entry.to_buf())
        .collect()
}

fn at<'a>(doc: Doc<'a>, path: &str) -> Value<'a> {
    let mut value = Value::Doc(doc);
    for name in path.split('.') {
        value = value.as_doc().unwrap_or(Doc::EMPTY).get(name);
    }
    value
}

/// The only entry of a command.
fn entry(client: &mut Client, command: &str) -> DocBuf {
    let all = entries(client, "{}");
    let mut found = all
        .into_iter()
        .filter(|entry| at(entry.as_doc(), "key.queryShape.command") == Value::String(command));
    let first = found.next().unwrap_or_else(|| panic!("no entry of {command}"));
    assert!(found.next().is_none(), "{command} has several entries");
    first
}

fn numbers(entry: &DocBuf, paths: &[&str]) -> Vec<f64> {
    let number = |path: &&str| number::as_f64(at(entry.as_doc(), path)).unwrap_or(f64::NAN);
    paths.iter().map(number).collect()
}

#[test]
fn nothing_is_recorded_unless_it_is_asked_for() {
    let mut client = Client::new(&server());
    client.shell("{find: 'c', filter: {a: 1}}");
    assert_eq!(entries(&mut client, "{}").len(), 0);
    let status = client.shell("{serverStatus: 1}");
    for field in ["queryStatsStoreSizeEstimateBytes", "numRateLimitedRequests", "numEntries"] {
        let path = format!("metrics.queryStats.{field}");
        assert_eq!(at(status.as_doc(), &path), Value::Int64(0), "{path}");
    }
}

#[test]
fn queries_of_one_shape_have_one_entry() {
    let mut client = recorded();
    for value in ["1", "7", "2.5"] {
        let found = client.shell(&format!("{{find: 'c', filter: {{a: {value}}}, sort: {{a: 1}}}}"));
        assert!(is_ok(&found));
    }
    // It fails.
    client.shell("{find: 'c', filter: {a: {$foo: 1}}}");
    let entry = entry(&mut client, "find");
    let found = numbers(
        &entry,
        &[
            "metrics.execCount",
            "metrics.docsReturned.sum",
            "metrics.docsReturned.max",
            "metrics.docsReturned.min",
            "metrics.docsExamined.sum",
            "metrics.docsExamined.sumOfSquares",
            "metrics.hasSortStage.true",
            "metrics.hasSortStage.false",
            "metrics.usedDisk.false",
        ],
    );
    assert_eq!(found, [3.0, 1.0, 1.0, 0.0, 9.0, 27.0, 3.0, 0.0, 3.0]);
    let doc = entry.as_doc();
    assert_eq!(at(doc, "key.collectionType"), Value::String("collection"));
    assert_eq!(at(doc, "key.readConcern.level"), Value::String("local"));
    assert_eq!(at(doc, "key.readConcern.provenance"), Value::String("implicitDefault"));
    let shape = json::to_relaxed(at(doc, "key.queryShape").as_doc().unwrap());
    let expected = concat!(
        r#"{"cmdNs":{"db":"test","coll":"c"},"command":"find","#,
        r#""filter":{"a":{"$eq":"?number"}},"sort":{"a":1}}"#
    );
    assert_eq!(shape, expected);
    assert!(
        matches!(at(doc, "asOf"), Value::Timestamp(at) if at >> 32 > 1_700_000_000 && at as u32 == 0)
    );
    assert!(matches!(at(doc, "metrics.sumOfSquares"), Value::Missing));
    assert!(matches!(at(doc, "metrics.totalExecMicros.sumOfSquares"), Value::Decimal128(_)));
    assert_eq!(doc.get("queryShapeHash").as_str().map(str::len), Some(64));
    assert_eq!(doc.get("keyHash").as_str().map(str::len), Some(44));
}

#[test]
fn options_and_kinds_of_collections_distinguish_queries() {
    let mut client = recorded();
    client.shell("{create: 'v', viewOn: 'c'}");
    client.shell("{create: 't', timeseries: {timeField: 't'}}");
    for (coll, kind) in
        [("c", "collection"), ("v", "view"), ("t", "timeseries"), ("no", "nonExistent")]
    {
        client.shell(&format!("{{find: '{coll}', filter: {{}}}}"));
        let all = entries(&mut client, "{}");
        let found = all
            .iter()
            .find(|entry| at(entry.as_doc(), "key.queryShape.cmdNs.coll") == Value::String(coll));
        let found = found.unwrap_or_else(|| panic!("{coll}"));
        assert_eq!(at(found.as_doc(), "key.collectionType"), Value::String(kind));
    }
    let before = entries(&mut client, "{}").len();
    client.shell("{find: 'c', filter: {}, batchSize: 10, comment: 'secret', maxTimeMS: 5000}");
    client.shell("{find: 'c', filter: {}, batchSize: 20, comment: 'other', maxTimeMS: 6000}");
    client.shell("{find: 'c', filter: {}, hint: {_id: 1}, readConcern: {level: 'majority'}}");
    let all = entries(&mut client, "{}");
    assert_eq!(all.len(), before + 2);
    let text: String = all.iter().map(|entry| json::to_relaxed(entry.as_doc())).collect();
    for part in [
        r#""batchSize":"?number","comment":"?string","maxTimeMS":"?number""#,
        r#""hint":{"_id":1},"readConcern":{"level":"majority","provenance":"clientSupplied"}"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("secret"));
}

#[test]
fn aggregate_distinct_and_count_are_recorded() {
    let mut client = recorded();
    client.shell(
        "{aggregate: 'c', pipeline: [{$match: {a: {$gte: 2}}}, {$group: {_id: '$a'}}], cursor: {}}",
    );
    client.shell("{distinct: 'c', key: 'a', query: {a: {$gt: 0}}}");
    client.shell("{count: 'c', query: {a: {$lt: 9}}}");
    let sum = &["metrics.execCount", "metrics.docsReturned.sum"];
    assert_eq!(numbers(&entry(&mut client, "aggregate"), sum), [1.0, 2.0]);
    assert_eq!(numbers(&entry(&mut client, "distinct"), sum), [1.0, 3.0]);
    assert_eq!(numbers(&entry(&mut client, "count"), sum), [1.0, 1.0]);
    client.shell("{find: 'c', filter: {_id: 2}}");
    let point = numbers(
        &entry(&mut client, "find"),
        &["metrics.keysExamined.sum", "metrics.docsReturned.sum"],
    );
    assert_eq!(point, [1.0, 1.0]);
}

#[test]
fn all_batches_of_a_cursor_are_one_execution() {
    let mut client = recorded();
    let open = |client: &mut Client| {
        let reply = client.shell("{find: 'c', filter: {a: {$gt: 0}}, batchSize: 2}");
        number::truncate_to_i64(at(reply.as_doc(), "cursor.id")).unwrap()
    };
    let id = open(&mut client);
    assert!(entries(&mut client, "{}").is_empty(), "the query has not ended");
    client.shell(&format!("{{getMore: NumberLong({id}), collection: 'c', batchSize: 10}}"));
    let figures = ["metrics.execCount", "metrics.docsReturned.sum", "metrics.docsExamined.sum"];
    assert_eq!(numbers(&entry(&mut client, "find"), &figures), [1.0, 3.0, 3.0]);
    let id = open(&mut client);
    client.shell(&format!("{{killCursors: 'c', cursors: [NumberLong({id})]}}"));
    assert_eq!(numbers(&entry(&mut client, "find"), &figures)[..2], [2.0, 5.0]);
}

#[test]
fn names_are_replaced_by_their_hashes() {
    let mut client = recorded();
    client.shell("{find: 'c', filter: {'a.b': {$gt: 1}}, hint: {_id: 1}}");
    let plain = entry(&mut client, "find");
    let stage = "{transformIdentifiers: {algorithm: 'hmac-sha-256', \
                 hmacKey: {$binary: {base64: 'YWJj', subType: '08'}}}}";
    let all = entries(&mut client, stage);
    let hidden = &all[0];
    assert_eq!(hidden.get("queryShapeHash"), plain.get("queryShapeHash"));
    assert_ne!(hidden.get("keyHash"), plain.get("keyHash"));
    // HMAC-SHA-256 of "test", "c", "a", "b" and "_id" with the key "abc", as OpenSSL computes it.
    let text = json::to_relaxed(hidden.as_doc());
    for hash in HASHES {
        assert!(text.contains(hash), "{hash}: {text}");
    }
    assert!(
        !text.contains("\"test\"") && !text.contains("\"a.b\"") && !text.contains("\"_id\""),
        "{text}"
    );
    assert!(text.contains("{\"$gt\":\"?number\"}"), "{text}");
}

/// Tags of members are names of data centres and the like.
#[test]
fn tags_of_the_read_preference_are_replaced() {
    let mut client = recorded();
    client.shell(
        "{find: 'c', filter: {}, $readPreference: {mode: 'secondary', tags: [{dc: 'east', a: 'b'}, {}]}}",
    );
    let plain = json::to_relaxed(entry(&mut client, "find").as_doc());
    assert!(plain.contains(r#""tags":[{"dc":"east","a":"b"},{}]"#), "{plain}");
    let stage = "{transformIdentifiers: {algorithm: 'hmac-sha-256', \
                 hmacKey: {$binary: {base64: 'YWJj', subType: '08'}}}}";
    let all = entries(&mut client, stage);
    let hidden = at(all[0].as_doc(), "key.$readPreference");
    let hidden = json::to_relaxed(hidden.as_doc().unwrap());
    let pair = format!("\"{}\":\"{}\"", HASHES[2], HASHES[3]);
    assert!(hidden.contains("\"mode\":\"secondary\"") && hidden.contains(&pair), "{hidden}");
    assert!(!hidden.contains("\"dc\"") && !hidden.contains("east"), "{hidden}");
}

/// Of "test", "c", "a", "b", "_id".
const HASHES: [&str; 5] = [
    "1kzPDUsUSRU9eCFfn/m5DsNzDeH9KzV+FTAmyaP62pY=",
    "w2JWfEpsEmdpWbW52fbHisGnILTTdLqCmAONzYhlGg8=",
    "opXVkwcMBl8yhaqPMl7C5NYfqxe3rCh85dks/M3kGSc=",
    "6EXZynKYHTCcU1Wl+idmndB/drWxC6Khdlmrgo/M5Sc=",
    "1Eju3rtZKJpDo0tEbOjSWSOUytLpS0JaWcY0pZLvM1U=",
];

#[test]
fn wrong_uses_have_mongodbs_errors() {
    let mut client = recorded();
    let mut code = |db: &str, collection: &str, stage: &str| {
        let command = format!("{{aggregate: {collection}, pipeline: [{stage}], cursor: {{}}}}");
        let body = json::parse(&command.replace('\'', "\"")).unwrap();
        number::truncate_to_i64(client.run(db, body.as_doc()).get("code")).unwrap_or(0)
    };
    for (db, collection, stage, expected) in [
        ("admin", "1", "{$queryStats: {}}", 0),
        ("test", "1", "{$queryStats: {}}", 73),
        ("admin", "'c'", "{$queryStats: {}}", 73),
        ("admin", "1", "{$match: {}}, {$queryStats: {}}", 73),
        ("admin", "1", "{$currentOp: {}}, {$queryStats: {}}", 40602),
        ("admin", "1", "{$currentOp: {}}, {$facet: {a: [{$queryStats: {}}]}}", 40600),
        // The same rule holds for a stage of another namespace.
        ("config", "'system.sessions'", "{$match: {}}, {$listSessions: {}}", 40602),
        ("config", "'system.sessions'", "{$facet: {a: [{$listSessions: {}}]}}", 40600),
        ("config", "'system.sessions'", "{$listSessions: {}}", 73),
        ("test", "'c'", "{$match: {}}, {$listSessions: {}}", 73),
        ("admin", "1", "{$queryStats: 1}", 9),
        ("admin", "1", "{$queryStats: {x: 1}}", 40415),
        ("admin", "1", "{$queryStats: {transformIdentifiers: {}}}", 40414),
        ("admin", "1", "{$queryStats: {transformIdentifiers: {algorithm: 'md5'}}}", 2),
        ("admin", "1", "{$queryStats: {transformIdentifiers: {algorithm: 'hmac-sha-256'}}}", 9),
        (
            "admin",
            "1",
            "{$queryStats: {transformIdentifiers: {algorithm: 'hmac-sha-256', hmacKey: 'x'}}}",
            14,
        ),
    ] {
        assert_eq!(code(db, collection, stage), expected, "{db} {collection} {stage}");
    }
}

#[test]
fn the_rate_limit_and_the_size_bound_what_is_kept() {
    let mut client = recorded();
    admin(&mut client, "{setParameter: 1, internalQueryStatsCacheSize: '64KB'}");
    for n in 0..300 {
        client.shell(&format!("{{find: 'c', filter: {{field{n}: 1}}}}"));
    }
    let status = |client: &mut Client, field: &str| {
        let status = client.shell("{serverStatus: 1}");
        number::truncate_to_i64(at(status.as_doc(), &format!("metrics.queryStats.{field}")))
            .unwrap()
    };
    assert!(status(&mut client, "numEvicted") > 100);
    assert!(status(&mut client, "queryStatsStoreSizeEstimateBytes") <= 64 << 10);
    assert!(status(&mut client, "numEntries") > 10);
    admin(&mut client, "{setParameter: 1, internalQueryStatsRateLimit: 1}");
    for _ in 0..50 {
        client.shell("{find: 'c', filter: {}}");
    }
    assert!(status(&mut client, "numRateLimitedRequests") >= 40);
    let long = "x".repeat(300 << 10);
    admin(&mut client, "{setParameter: 1, internalQueryStatsRateLimit: -1}");
    client.run("test", doc! { "find": "c", "filter": { "a": (long.as_str()) } }.as_doc());
    assert_eq!(status(&mut client, "numQueryStatsStoreWriteErrors"), 1);
    for bad in ["'64'", "'x%'", "5", "'-1MB'"] {
        let body = format!(
            "{{\"setParameter\": 1, \"internalQueryStatsCacheSize\": {}}}",
            bad.replace('\'', "\"")
        );
        let reply = client.run("admin", json::parse(&body).unwrap().as_doc());
        assert_eq!(reply.get("code"), Value::Int32(2), "{bad}");
    }
}

/// The number at a path of `serverStatus`.
fn counted(client: &mut Client, path: &str) -> i64 {
    let status = client.shell("{serverStatus: 1}");
    number::truncate_to_i64(at(status.as_doc(), path)).unwrap_or_else(|| panic!("{path}"))
}

#[test]
fn operators_are_counted_by_family() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    let paths = [
        "match.$gt",
        "match.$expr",
        "expressions.$add",
        "expressions.$sum",
        "groupAccumulators.$sum",
        "windowAccumulators.$sum",
    ];
    let read = |client: &mut Client| {
        paths.map(|path| counted(client, &format!("metrics.operatorCounters.{path}")))
    };
    assert_eq!(read(&mut client), [0; 6]);
    client.shell("{find: 'c', filter: {a: {$gt: 1}}, projection: {b: {$add: ['$a', 1]}}}");
    client.shell("{find: 'c', filter: {_id: {$gt: 1}}}");
    client.shell("{find: 'c', filter: {a: {$gt: 1}, $foo: 1}}");
    assert_eq!(read(&mut client), [2, 0, 1, 0, 0, 0], "a query that fails does not count");
    client.shell(
        "{aggregate: 'c', pipeline: [{$match: {$expr: {$gt: ['$a', 0]}}}, {$group: {_id: null, n: {$sum: {$add: [1, \
         2]}}}}, {$setWindowFields: {output: {s: {$sum: '$n'}}}}, {$project: {t: {$sum: ['$s', 1]}}}], cursor: {}}",
    );
    assert_eq!(read(&mut client), [2, 1, 2, 1, 1, 1]);
    client
        .shell("{update: 'c', updates: [{q: {a: {$gt: 5}}, u: [{$set: {b: {$add: ['$a', 1]}}}]}]}");
    client.shell("{delete: 'c', deletes: [{q: {a: {$gt: 5}}, limit: 1}]}");
    client.shell("{count: 'c', query: {a: {$gt: 5}}}");
    client.shell("{distinct: 'c', key: 'a', query: {a: {$gt: 5}}}");
    client.shell("{findAndModify: 'c', query: {a: {$gt: 5}}, remove: true}");
    assert_eq!(read(&mut client)[..3], [7, 1, 3]);
}

/// The counters of operators that a command has changed, with their differences.
fn used(client: &mut Client, db: &str, command: &str) -> Vec<String> {
    let read = |client: &mut Client| {
        let status = client.shell("{serverStatus: 1}");
        let families = at(status.as_doc(), "metrics.operatorCounters").as_doc().unwrap().to_buf();
        families
            .as_doc()
            .iter()
            .flat_map(|family| {
                let counters = family.value().as_doc().unwrap().iter().map(|counter| {
                    let count = number::truncate_to_i64(counter.value()).unwrap();
                    (format!("{}.{}", family.name(), counter.name()), count)
                });
                counters.collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let before = read(client);
    let reply = client.run(db, json::parse(command).unwrap().as_doc());
    assert!(is_ok(&reply), "{command}: {reply:?}");
    let changed = read(client).into_iter().zip(before).filter(|(now, before)| now.1 != before.1);
    changed.map(|(now, before)| format!("{} {}", now.0, now.1 - before.1)).collect()
}

#[test]
fn every_command_with_a_filter_or_a_pipeline_counts_its_operators() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    client.shell("{create: 'v', viewOn: 'c', pipeline: [{$match: {a: {$lt: 9}}}]}");
    client.shell("{create: 'vv', viewOn: 'v', pipeline: [{$set: {b: {$abs: '$a'}}}]}");
    let join = "{$lookup: {from: 'c', as: 'j', pipeline: [{$match: {a: {$lte: 1}}}]}}";
    let union = "{$unionWith: {coll: 'c', pipeline: [{$match: {a: {$ne: 1}}}]}}";
    let facet = "{$facet: {f: [{$match: {a: {$in: [1]}}}]}}";
    let nested = format!("{{aggregate: 'c', pipeline: [{join}, {union}, {facet}], cursor: {{}}}}");
    for (db, command, expected) in [
        ("test", "{find: 'c', filter: {a: 1}}", &["match.$eq 1"][..]),
        ("test", "{find: 'c', filter: {_id: 1}}", &["match.$eq 1"]),
        ("test", "{count: 'c', query: {a: {$gt: 1}}}", &["match.$gt 1"]),
        ("test", "{distinct: 'c', key: 'a', query: {a: {$gt: 1}}}", &["match.$gt 1"]),
        // MongoDB does not parse the filter of a change by _id.
        ("test", "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {b: 1}}}]}", &[]),
        (
            "test",
            "{update: 'c', updates: [{q: {_id: 1, a: 1}, u: {$set: {b: 1}}}]}",
            &["match.$eq 2"],
        ),
        (
            "test",
            "{delete: 'c', deletes: [{q: {_id: 7}, limit: 1}, {q: {a: {$gt: 7}}, limit: 1}]}",
            &["match.$gt 1"],
        ),
        (
            "test",
            "{findAndModify: 'c', query: {a: {$lt: 0}}, update: [{$set: {b: {$abs: 1}}}], fields: {d: {$add: [1, 2]}}}",
            &["expressions.$abs 1", "expressions.$add 1", "match.$lt 1"],
        ),
        (
            "admin",
            "{bulkWrite: 1, nsInfo: [{ns: 'test.c'}], ops: [{insert: 0, document: {a: 3, filter: {q: {$gt: 1}}}}, \
             {update: 0, filter: {a: {$gte: 9}}, updateMods: [{$set: {b: {$abs: 1}}}]}, {delete: 0, filter: {a: {$lt: \
             0}}}, {delete: 0, filter: {_id: 9}}]}",
            &["expressions.$abs 1", "match.$gte 1", "match.$lt 1"],
        ),
        (
            "test",
            "{explain: {update: 'c', updates: [{q: {a: {$gt: 1}}, u: {$set: {b: 1}}}]}, verbosity: 'queryPlanner'}",
            &["match.$gt 1"],
        ),
        ("test", "{explain: {find: 'v', filter: {a: {$gt: 1}}}}", &["match.$gt 1", "match.$lt 1"]),
        ("test", &nested, &["match.$in 1", "match.$lte 1", "match.$ne 1"]),
        ("test", "{find: 'vv', filter: {}}", &["expressions.$abs 1", "match.$lt 1"]),
        (
            "test",
            "{aggregate: 'v', pipeline: [{$match: {a: 1}}], cursor: {}}",
            &["match.$eq 1", "match.$lt 1"],
        ),
        ("test", "{count: 'v'}", &["match.$lt 1"]),
        ("test", "{create: 'd', validator: {a: {$gt: 0}}}", &["match.$gt 1"]),
        (
            "test",
            "{collMod: 'd', validator: {$expr: {$gt: ['$a', 0]}}}",
            &["expressions.$gt 1", "match.$expr 1"],
        ),
        ("test", "{insert: 'd', documents: [{a: 1}]}", &[]),
        (
            "test",
            "{mapReduce: 'c', map: 'function() { emit(1, 1); }', reduce: 'function() { return 1; }', query: {a: {$gt: \
             1}}, out: {inline: 1}}",
            &["match.$gt 1"],
        ),
    ] {
        assert_eq!(used(&mut client, db, command), expected, "{command}");
    }
}

#[test]
fn deletes_of_many_documents_and_bulk_builds_are_counted() {
    let mut client = Client::new(&server());
    let docs: Vec<String> = (0..1500).map(|n| format!("{{_id: {n}, a: {n}}}")).collect();
    client.shell(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
    client.shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}");
    let mut read = |path: &str| counted(&mut client, path);
    assert_eq!(read("indexBulkBuilder.count"), 1);
    assert_eq!(read("indexBulkBuilder.numSorted"), 1500);
    assert!(read("indexBulkBuilder.bytesSorted") > 1500);
    assert_eq!(read("indexBulkBuilder.spilledRanges"), 0);
    client.shell("{delete: 'c', deletes: [{q: {a: {$gte: 500}}, limit: 0}]}");
    let mut read = |path: &str| counted(&mut client, path);
    assert_eq!(read("batchedDeletes.docs"), 1000);
    assert!((10..=20).contains(&read("batchedDeletes.batches")));
    assert!(read("batchedDeletes.stagedSizeBytes") > 10_000);
    assert_eq!(read("batchedDeletes.refetchesDueToYield"), 0);
    client.shell("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}]}");
    assert_eq!(counted(&mut client, "batchedDeletes.docs"), 1000, "a delete of one is no batch");
}

#[test]
fn write_concerns_are_counted_where_the_server_was_started_for_that() {
    let section = |client: &mut Client| {
        client
            .shell("{serverStatus: 1}")
            .get("opWriteConcernCounters")
            .as_doc()
            .map(json::to_relaxed)
    };
    assert_eq!(section(&mut Client::new(&server())), None);
    let store =
        Store::open(std::sync::Arc::new(nagi_kv::Memory::new()), StoreOptions::default()).unwrap();
    let mut config = config_over(store, None, false, false);
    let name = "reportOpWriteConcernCountersInServerStatus".to_owned();
    config.parameters.push((name, "true".to_owned()));
    let mut client = Client::new(&ServerBuilder::new(config).unwrap().start().unwrap());
    client.shell("{insert: 'c', documents: [{_id: 1}, {_id: 2}], writeConcern: {w: 'majority'}}");
    client.shell("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 1}}}, {q: {a: 1}, u: {$set: {b: 1}}}]}");
    client.shell("{delete: 'c', deletes: [{q: {_id: 1}, limit: 1}], writeConcern: {w: 1}}");
    let text = section(&mut client).unwrap();
    assert!(
        text.starts_with(r#"{"insert":{"wmajority":2,"wnum":{},"wtag":{},"none":0,"#),
        "{text}"
    );
    assert!(text.contains(r#""update":{"wmajority":0,"wnum":{},"wtag":{},"none":2,"#), "{text}");
    assert!(
        text.contains(r#""implicitDefault":{"wmajority":0,"wnum":{"1":2},"wtag":{}}"#),
        "{text}"
    );
    assert!(
        text.contains(r#""delete":{"wmajority":0,"wnum":{"1":1},"wtag":{},"none":0,"#),
        "{text}"
    );
    // Operations of bulkWrite count by their kinds, findAndModify does not: the sums are those of opcounters.
    let bulk = "{bulkWrite: 1, nsInfo: [{ns: 'test.c'}], ops: [{insert: 0, document: {_id: 7}}, {insert: 0, document: \
                {_id: 8}}, {update: 0, filter: {_id: 7}, updateMods: {$set: {a: 1}}}, {update: 0, filter: {a: 1}, \
                updateMods: {$set: {b: 1}}}, {delete: 0, filter: {_id: 7}}, {delete: 0, filter: {a: {$gt: 1}}}], \
                writeConcern: {w: 'majority'}}";
    admin(&mut client, bulk);
    client.shell(
        "{findAndModify: 'c', query: {_id: 8}, update: {$set: {a: 1}}, writeConcern: {w: 1}}",
    );
    client.shell(
        "{findAndModify: 'c', query: {_id: 8}, remove: true, writeConcern: {w: 'majority'}}",
    );
    let text = section(&mut client).unwrap();
    for part in [
        r#""insert":{"wmajority":4,"wnum":{},"wtag":{},"none":0,"#,
        r#""update":{"wmajority":2,"wnum":{},"wtag":{},"none":2,"#,
        r#""delete":{"wmajority":2,"wnum":{"1":1},"wtag":{},"none":0,"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let ops = ["insert", "update", "delete"]
        .map(|kind| counted(&mut client, &format!("opcounters.{kind}")));
    assert_eq!(ops, [4, 4, 3]);
}

#[test]
fn spans_are_those_of_sampled_operations() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    let take = || server.take_spans(std::time::Duration::ZERO).0;
    assert!(take().is_empty(), "off");
    server.record_spans(1.0);
    client.shell("{hello: 1}");
    client.shell("{find: 'c', filter: {_id: 1}}");
    client.shell("{find: 'c', filter: {a: {$foo: 1}}}");
    client.shell("{dbStats: 1}");
    let spans = take();
    let names: Vec<_> =
        spans.iter().map(|span| (span.operation, span.collection.as_str())).collect();
    assert_eq!(names, [("find", "c"), ("find", "c"), ("dbStats", "")]);
    assert_eq!(
        (spans[0].returned, spans[0].plan_summary.as_str()),
        (Some(1), "EXPRESS_IXSCAN { _id: 1 }")
    );
    assert_eq!(spans[1].error, Some((2, "BadValue".to_owned())));
    assert!(spans[0].end_ns >= spans[0].begin_ns && spans[0].begin_ns > 1_600_000_000_000_000_000);
    assert_ne!(spans[0].trace_id, spans[1].trace_id);
    server.record_spans(0.0);
    client.shell("{find: 'c', filter: {}}");
    client.shell(
        "{find: 'c', filter: {}, comment: {traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'}}",
    );
    let spans = take();
    assert_eq!(spans.len(), 1);
    assert_eq!((spans[0].trace_id[0], spans[0].parent.unwrap()[0]), (0x0a, 0xb7));
}

/// The documents of all entries have several times the memory of the table: they are not made all at once.
#[test]
fn a_listing_makes_its_documents_one_by_one() {
    let mut client = recorded();
    for n in 0..60 {
        let name = format!("{}{n}", "f".repeat(10_000));
        assert!(is_ok(&client.shell(&format!("{{find: 'c', filter: {{{name}: 1}}}}"))));
    }
    for stage in [
        "{}",
        "{transformIdentifiers: {algorithm: 'hmac-sha-256', hmacKey: {$binary: {base64: 'bXkga2V5', \
                  subType: '08'}}}}",
    ] {
        let command = format!(
            "{{aggregate: 1, pipeline: [{{$queryStats: {stage}}}], cursor: {{batchSize: 2}}}}"
        );
        let (reply, peak) = nagi_testkit::peak_bytes(|| admin(&mut client, &command));
        assert!(peak < 300_000, "{peak} bytes for two documents of 10 KB");
        let cursor = reply.get("cursor").as_doc().unwrap();
        assert_eq!(cursor.get("firstBatch").as_array().unwrap().iter().count(), 2);
        // The entries are those of the beginning.
        client.shell("{find: 'c', filter: {another: 1}}");
        let Value::Int64(id) = cursor.get("id") else { panic!("{reply:?}") };
        let more = format!(
            "{{getMore: {{$numberLong: '{id}'}}, collection: '$cmd.aggregate', batchSize: 1000}}"
        );
        let more = admin(&mut client, &more);
        let next = more.get("cursor").as_doc().unwrap().get("nextBatch").as_array().unwrap();
        assert!(next.iter().count() >= 58, "{}", next.iter().count());
    }
}
