//! `nagiAdvise`: which of several indexes is advised for a query, and which queries it understands.

use nagi_bson::{Doc, DocBuf, Value, json, number};

use crate::client::{Client, is_ok, server};

fn ok(client: &mut Client, command: &str) -> DocBuf {
    let reply = client.run("shop", json::parse(command).unwrap().as_doc());
    assert!(is_ok(&reply), "{command}: {reply:?}");
    reply
}

/// A collection `shop.c` with 3000 documents, and every operation counts as slow.
fn prepare(one: &dyn Fn(i64) -> String) -> Client {
    let mut client = Client::new(&server());
    for first in (0..3000).step_by(1000) {
        let all: Vec<String> = (first..first + 1000).map(one).collect();
        ok(&mut client, &format!("{{insert: 'c', documents: [{}]}}", all.join(", ")));
    }
    all_are_slow(&mut client);
    client
}

fn all_are_slow(client: &mut Client) {
    let reply = client.run("admin", json::parse("{profile: 0, slowms: 0}").unwrap().as_doc());
    assert!(is_ok(&reply));
}

fn advised(client: &mut Client, more: &str) -> DocBuf {
    let command = format!("{{nagiAdvise: 1, database: 'shop'{more}}}");
    let reply = client.run("admin", json::parse(&command).unwrap().as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    reply
}

fn docs<'d>(doc: Doc<'d>, name: &str) -> Vec<Doc<'d>> {
    match doc.get(name) {
        Value::Array(list) => list.iter().filter_map(|item| item.as_doc()).collect(),
        other => panic!("{name} is {other}"),
    }
}

/// The advised indexes, each with the shapes that it serves.
fn indexes(reply: &DocBuf) -> Vec<(String, Vec<String>)> {
    let text = |doc: &Doc<'_>, name: &str| doc.get(name).as_str().unwrap_or("").to_owned();
    let created = docs(reply.as_doc(), "advice").into_iter();
    let created = created.filter(|advice| text(advice, "kind") == "createIndex");
    let mut all: Vec<(String, Vec<String>)> = created
        .map(|advice| {
            let shapes = docs(advice, "shapes");
            let mut shapes: Vec<String> = shapes.iter().map(|shape| text(shape, "shape")).collect();
            shapes.sort();
            (text(&advice, "name"), shapes)
        })
        .collect();
    all.sort();
    all
}

fn names(reply: &DocBuf) -> Vec<String> {
    indexes(reply).into_iter().map(|(name, _)| name).collect()
}

/// The reasons for which shapes get no index.
fn reasons(reply: &DocBuf) -> Vec<String> {
    let text = |row: &Doc<'_>| row.get("reason").as_str().unwrap().to_owned();
    docs(reply.as_doc(), "notAdvised").iter().map(text).collect()
}

fn ratio(reply: &DocBuf, name: &str) -> f64 {
    let all = docs(reply.as_doc(), "advice");
    let one = all.iter().find(|advice| advice.get("name").as_str() == Some(name)).unwrap();
    let measured = one.get("measured").as_doc().unwrap_or_else(|| panic!("{one}"));
    number::as_f64(measured.get("examinedRatio")).unwrap()
}

/// "Equality, sort, range" is a guess: the data tell.
#[test]
fn the_range_comes_first_where_it_finds_less() {
    let one = |n: i64| format!("{{a: {}, b: {n}, e: {}}}", n % 500, n % 700);
    let mut client = prepare(&one);
    for n in 0..3 {
        ok(&mut client, &format!("{{find: 'c', filter: {{b: {{$lt: -{n}}}}}, sort: {{a: 1}}}}"));
        ok(
            &mut client,
            &format!("{{find: 'c', filter: {{a: {{$gt: {n}}}}}, sort: {{e: 1}}, limit: 5}}"),
        );
    }
    let reply = advised(&mut client, "");
    assert_eq!(names(&reply), ["b_1", "e_1_a_1"], "{reply:?}");
    assert!(ratio(&reply, "b_1") > 1000.0, "{reply:?}");
    // Without a trial it is the usual one.
    let reply = advised(&mut client, ", measure: false");
    assert_eq!(names(&reply), ["a_1_b_1", "e_1_a_1"], "{reply:?}");
}

/// To sort three documents is cheaper than to read all in order.
#[test]
fn an_order_of_few_documents_needs_no_index() {
    let mut client = prepare(&|n| format!("{{a: {n}, b: {n}}}"));
    for n in 0..3 {
        ok(
            &mut client,
            &format!("{{find: 'c', filter: {{b: {{$mod: [1000, {n}]}}}}, sort: {{a: 1}}}}"),
        );
    }
    let reply = advised(&mut client, "");
    assert_eq!(names(&reply), [""; 0], "{reply:?}");
    assert!(reasons(&reply)[0].contains("would examine only 0.5 times less"), "{reply:?}");
}

#[test]
fn branches_may_be_better_than_an_index_for_the_order() {
    let one = |n: i64| format!("{{a: {}, b: {n}, t: {}, dt: {n}}}", n % 500, n % 600);
    let mut client = prepare(&one);
    ok(&mut client, "{createIndexes: 'c', indexes: [{key: {dt: 1}, name: 'dt_1'}]}");
    for n in 0..3 {
        let filter = format!("{{$or: [{{a: {n}, b: {{$gt: 3}}}}, {{t: {n}}}]}}");
        ok(&mut client, &format!("{{find: 'c', filter: {filter}, sort: {{dt: -1}}, limit: 5}}"));
        ok(&mut client, &format!("{{find: 'c', filter: {{x: {n}}}, sort: {{dt: -1}}, limit: 5}}"));
    }
    let reply = advised(&mut client, "");
    let found = names(&reply);
    assert!(found.iter().any(|name| name.starts_with("a_1")), "{reply:?}");
    assert!(found.iter().any(|name| name.starts_with("t_1")), "{reply:?}");
    assert!(found.iter().all(|name| name != "dt_1"), "{reply:?}");
    // Nothing is guessed beside an index that can be used.
    let reply = advised(&mut client, ", measure: false");
    assert!(
        reasons(&reply).contains(&"the index dt_1 begins with the fields that it needs".to_owned()),
        "{reply:?}"
    );
}

/// An index on two arrays cannot be built, one on either can.
#[test]
fn what_was_merged_is_tried_alone_if_it_cannot_be_built() {
    let one = |n: i64| format!("{{arr: [{}, {}], arr2: [1, 2]}}", n % 50, n % 53);
    let mut client = prepare(&one);
    for n in 0..3 {
        ok(&mut client, &format!("{{find: 'c', filter: {{arr: {n}, arr2: 1}}}}"));
        ok(&mut client, "{find: 'c', filter: {arr: {$elemMatch: {$gt: 51}}}}");
    }
    let reply = advised(&mut client, "");
    let both = ["{ arr: ?, arr2: ? }", "{ arr: { $elemMatch: { $gt: ? } } }"];
    assert_eq!(indexes(&reply), [("arr_1".to_owned(), both.map(str::to_owned).to_vec())]);
    assert_eq!(reasons(&reply), [""; 0], "{reply:?}");
}

/// The planner moves conditions to the beginning, and uses an index for them.
#[test]
fn conditions_within_a_pipeline() {
    let one = |n: i64| format!("{{a: {n}, b: {n}, c: {n}, st: {}}}", n % 3);
    for (pipeline, index, shape) in [
        ("[{$addFields: {z: 1}}, {$match: {a: 3}}]", "a_1", "{} | $addFields, $match"),
        ("[{$project: {b: 1}}, {$match: {b: {$lt: 3}}}]", "b_1", "{} | $project, $match"),
        ("[{$set: {z: '$$x'}}, {$match: {c: 4}}]", "c_1", "{} | $set, $match"),
    ] {
        let mut client = prepare(&one);
        ok(
            &mut client,
            &format!("{{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}, let: {{x: 1}}}}"),
        );
        let reply = advised(&mut client, "");
        assert_eq!(indexes(&reply), [(index.to_owned(), vec![shape.to_owned()])], "{reply:?}");
        assert!(ratio(&reply, index) > 100.0, "{reply:?}");
    }
}

#[test]
fn negations_and_distinct_values() {
    let one = |n: i64| format!("{{a: {n}, st: {}}}", n % 3);
    for (command, index, shape) in [
        ("{find: 'c', filter: {a: {$exists: false}}}", "a_1", "{ a: { $exists: ? } }"),
        ("{find: 'c', filter: {a: {$not: {$gt: 5}}}}", "a_1", "{ a: { $not: { $gt: ? } } }"),
        ("{distinct: 'c', key: 'st'}", "st_1", "{} distinct st"),
    ] {
        let mut client = prepare(&one);
        ok(&mut client, command);
        let reply = advised(&mut client, "");
        assert_eq!(indexes(&reply), [(index.to_owned(), vec![shape.to_owned()])], "{reply:?}");
        assert!(ratio(&reply, index) > 100.0, "{reply:?}");
    }
}

#[test]
fn the_values_of_a_distinct_are_returned_ones() {
    let mut client = prepare(&|n| format!("{{a: {n}, st: {}}}", n % 3));
    ok(&mut client, "{distinct: 'c', key: 'st'}");
    let reply = advised(&mut client, "");
    let advice = docs(reply.as_doc(), "advice")[0];
    let reason = advice.get("reason").as_str().unwrap();
    assert!(reason.contains("read 1000 documents for each one returned"), "{reason}");
    let shape = docs(advice, "shapes")[0];
    assert_eq!(number::as_f64(shape.get("nReturned")), Some(3.0), "{shape}");
}

/// A join reads all of the other collection if its field has no index.
#[test]
fn the_field_of_a_join_needs_an_index() {
    let mut client = prepare(&|n| format!("{{st: {n}}}"));
    ok(&mut client, "{insert: 'few', documents: [{_id: 1, st: 3}, {_id: 2, st: 4}]}");
    let join = "{$lookup: {from: 'c', localField: 'st', foreignField: 'st', as: 'x'}}";
    let command = format!("{{aggregate: 'few', pipeline: [{join}], cursor: {{}}}}");
    ok(&mut client, &command);
    let reply = advised(&mut client, "");
    assert_eq!(indexes(&reply), [("st_1".to_owned(), vec!["{} | $lookup".to_owned()])]);
    let advice = docs(reply.as_doc(), "advice")[0];
    assert_eq!(advice.get("ns").as_str(), Some("shop.c"));
    assert_eq!(docs(advice, "shapes")[0].get("ns").as_str(), Some("shop.few"));
    let reason = advice.get("notMeasured").as_str();
    assert_eq!(reason, Some("what it reads of another collection is in no plan"), "{advice}");
    ok(&mut client, "{createIndexes: 'c', indexes: [{key: {st: 1}, name: 'st_1'}]}");
    ok(&mut client, &command);
    assert_eq!(indexes(&advised(&mut client, "")), []);
}

#[test]
fn a_hidden_index_is_to_be_shown_again() {
    let mut client = prepare(&|n| format!("{{a: {n}}}"));
    ok(&mut client, "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}");
    ok(&mut client, "{collMod: 'c', index: {name: 'a_1', hidden: true}}");
    ok(&mut client, "{find: 'c', filter: {a: 5}}");
    let reply = advised(&mut client, "");
    assert_eq!(indexes(&reply), []);
    let expected = "the index a_1 has the fields that it needs, but is hidden: unhide it";
    assert_eq!(reasons(&reply), [expected], "{reply:?}");
}

/// Statements of `bulkWrite` have other fields than those of `update` and `delete`.
#[test]
fn statements_of_a_bulk_write() {
    let mut client = prepare(&|n| format!("{{a: {n}, b: {n}}}"));
    let update = "{update: 0, filter: {a: 5}, updateMods: {$set: {q: 1}}, multi: true}";
    let delete = "{delete: 0, filter: {b: {$lt: -1}}, multi: false}";
    let command =
        format!("{{bulkWrite: 1, ops: [{update}, {delete}], nsInfo: [{{ns: 'shop.c'}}]}}");
    let reply = client.run("admin", json::parse(&command).unwrap().as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let reply = advised(&mut client, "");
    let one = |name: &str, shape: &str| (name.to_owned(), vec![shape.to_owned()]);
    assert_eq!(indexes(&reply), [one("a_1", "{ a: ? }"), one("b_1", "{ b: { $lt: ? } }")]);
    assert!(ratio(&reply, "a_1") > 100.0 && ratio(&reply, "b_1") > 100.0, "{reply:?}");
}

/// A field with few values finds little, the branches of `$or` beside it much.
#[test]
fn branches_may_be_better_than_a_field_beside_them() {
    let mut client =
        prepare(&|n| format!("{{on: {}, g: {}, d: {n}, p: 'x'}}", n % 2 == 0, n % 500));
    for n in 0..3 {
        let filter = format!("{{on: true, $or: [{{g: {n}}}, {{d: {n}}}]}}");
        ok(&mut client, &format!("{{find: 'c', filter: {filter}}}"));
    }
    let shape = vec!["{ on: ?, $or: [ { g: ? }, { d: ? } ] }".to_owned()];
    let reply = advised(&mut client, "");
    assert_eq!(
        indexes(&reply),
        [("d_1".to_owned(), shape.clone()), ("g_1".to_owned(), shape)],
        "{reply:?}"
    );
    assert!(ratio(&reply, "d_1") > 100.0, "{reply:?}");
}

/// The branches of one of them, not of both.
#[test]
fn one_of_two_ors_is_enough() {
    let mut client =
        prepare(&|n| format!("{{on: {}, g: {}, d: {n}, p: 'x'}}", n % 2 == 0, n % 500));
    let few = "{$or: [{g: 7}, {d: 8}]}, {$or: [{on: true}, {p: 'q'}]}";
    ok(&mut client, &format!("{{find: 'c', filter: {{$and: [{few}]}}}}"));
    assert_eq!(names(&advised(&mut client, "")), ["d_1", "g_1"]);
}

/// Its scripts are not run: what it reads is what a find with its query reads.
#[test]
fn the_query_of_a_map_reduce() {
    let mut client = prepare(&|n| format!("{{g: {n}}}"));
    let scripts = "map: 'function() { emit(1, 1) }', reduce: 'function(k, v) { return 1 }'";
    ok(&mut client, &format!("{{mapReduce: 'c', {scripts}, query: {{g: 5}}, out: {{inline: 1}}}}"));
    let reply = advised(&mut client, "");
    assert_eq!(indexes(&reply), [("g_1".to_owned(), vec!["{ g: ? }".to_owned()])], "{reply:?}");
    assert!(ratio(&reply, "g_1") > 100.0, "{reply:?}");
}

#[test]
fn a_long_command_is_said_to_be_too_long() {
    let mut client = prepare(&|n| format!("{{g: {n}}}"));
    let values: Vec<String> = (0..900).map(|n| n.to_string()).collect();
    ok(&mut client, &format!("{{find: 'c', filter: {{g: {{$in: [{}]}}}}}}", values.join(", ")));
    let reply = advised(&mut client, "");
    let expected = "the command is longer than 4 KiB, and only its beginning is kept";
    assert_eq!(reasons(&reply), [expected], "{reply:?}");
}

/// A pipeline that begins with one document by `_id` needs no plan, but may read another collection.
#[test]
fn what_a_pipeline_reads_of_another_collection() {
    let graph = "{$graphLookup: {from: 'c', startWith: '$g', connectFromField: 'up', connectToField: 'g', as: 'x'}}";
    for (stage, index) in [
        (graph, Some("g_1")),
        ("{$unionWith: {coll: 'c', pipeline: [{$match: {g: 5}}]}}", Some("g_1")),
        ("{$lookup: {from: 'c', localField: 'g', foreignField: 'g', as: 'x'}}", Some("g_1")),
        ("{$unionWith: {coll: 'c', pipeline: [{$match: {g: {$ne: 5}}}]}}", None),
    ] {
        let mut client = prepare(&|n| format!("{{g: {n}}}"));
        ok(&mut client, "{insert: 'few', documents: [{_id: 1, g: 3}, {_id: 2, g: 4}]}");
        let pipeline = format!("[{{$match: {{_id: 1}}}}, {stage}]");
        ok(&mut client, &format!("{{aggregate: 'few', pipeline: {pipeline}, cursor: {{}}}}"));
        let reply = advised(&mut client, "");
        assert_eq!(names(&reply), Vec::from_iter(index), "{stage} {reply:?}");
        let left = reasons(&reply);
        match index {
            Some(_) => assert_eq!(left, [""; 0], "{stage}"),
            None => assert!(left.len() == 1 && !left[0].is_empty(), "{stage} {left:?}"),
        }
    }
}

/// What a pipeline reads of its own collection, and what it joins, may both need an index.
#[test]
fn a_join_behind_a_filter_needs_two_indexes() {
    let mut client = prepare(&|n| format!("{{st: {n}}}"));
    let few: Vec<String> = (0..1000).map(|n| format!("{{q: {n}, st: {n}}}")).collect();
    ok(&mut client, &format!("{{insert: 'few', documents: [{}]}}", few.join(", ")));
    let join = "{$lookup: {from: 'c', localField: 'st', foreignField: 'st', as: 'x'}}";
    let pipeline = format!("[{{$match: {{q: {{$lt: 3}}}}}}, {join}]");
    ok(&mut client, &format!("{{aggregate: 'few', pipeline: {pipeline}, cursor: {{}}}}"));
    let reply = advised(&mut client, "");
    assert_eq!(names(&reply), ["q_1", "st_1"], "{reply:?}");
    let all = docs(reply.as_doc(), "advice");
    let own = all.iter().find(|advice| advice.get("name").as_str() == Some("q_1")).unwrap();
    let reason = own.get("reason").as_str().unwrap();
    assert!(reason.ends_with("less, without what they read of other collections"), "{reason}");
    // A scan of the own collection is not taken for one of the other.
    let mut client = prepare(&|n| format!("{{st: {n}}}"));
    ok(&mut client, "{insert: 'few', documents: [{q: 1, st: 3}]}");
    let join = "{$lookup: {from: 'few', localField: 'st', foreignField: 'st', as: 'x'}}";
    let pipeline = format!("[{{$match: {{st: {{$lt: 3}}}}}}, {join}]");
    ok(&mut client, &format!("{{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}}}"));
    assert_eq!(names(&advised(&mut client, "")), ["st_1"]);
}

#[test]
fn each_shape_without_advice_is_listed() {
    let mut client = prepare(&|n| format!("{{a: {n}}}"));
    for n in 0..70 {
        ok(
            &mut client,
            &format!("{{find: 'c', filter: {{a: {{$mod: [5, 1]}}, x{n}: {{$ne: 1}}}}}}"),
        );
    }
    let reply = advised(&mut client, "");
    let left = docs(reply.as_doc(), "notAdvised").len();
    assert_eq!(left + indexes(&reply).iter().map(|(_, shapes)| shapes.len()).sum::<usize>(), 70);
}
