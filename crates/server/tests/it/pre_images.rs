//! `config.system.preimages` through commands: what the log has before changes, as documents.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, doc, json};

use crate::client::{Client, is_ok, member, server_with};
use crate::login::log_in;

fn run(client: &mut Client, db: &str, command: &str) -> DocBuf {
    client.run(db, json::parse(command).unwrap().as_doc())
}

fn batch(reply: &DocBuf, name: &str) -> Vec<DocBuf> {
    assert!(is_ok(reply), "{reply:?}");
    let batch = reply.get("cursor").as_doc().unwrap().get(name);
    batch.as_array().unwrap().iter().map(|doc| doc.as_doc().unwrap().to_buf()).collect()
}

fn found(client: &mut Client, db: &str, command: &str) -> Vec<DocBuf> {
    batch(&run(client, db, command), "firstBatch")
}

/// The pre-images that were written last.
fn images(client: &mut Client) -> Vec<DocBuf> {
    found(client, "config", "{find: 'system.preimages'}")
}

fn part<'d>(doc: &'d DocBuf, name: &str) -> Doc<'d> {
    doc.get(name).as_doc().unwrap()
}

fn shown(images: &[DocBuf]) -> Vec<String> {
    images.iter().map(|image| part(image, "preImage").to_string()).collect()
}

/// Writes that leave five images, of which two are of one transaction.
fn change(client: &mut Client) {
    let within = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, txnNumber: NumberLong(1), \
        autocommit: false";
    for (db, command) in [
        ("test", "{create: 'p', changeStreamPreAndPostImages: {enabled: true}}".to_owned()),
        ("test", "{insert: 'p', documents: [{_id: 1, a: 1}, {_id: 2, a: 2}, {_id: 3}]}".to_owned()),
        ("test", "{insert: 'q', documents: [{_id: 1}]}".to_owned()),
        ("test", "{update: 'p', updates: [{q: {_id: 1}, u: {$set: {a: 5}}}]}".to_owned()),
        ("test", "{update: 'q', updates: [{q: {_id: 1}, u: {$set: {a: 5}}}]}".to_owned()),
        ("test", "{update: 'p', updates: [{q: {_id: 1}, u: {b: 1}}]}".to_owned()),
        (
            "test",
            format!("{{insert: 'p', documents: [{{_id: 4}}], startTransaction: true, {within}}}"),
        ),
        (
            "test",
            format!(
                "{{update: 'p', updates: [{{q: {{_id: 2}}, u: {{$inc: {{a: 1}}}}}}], {within}}}"
            ),
        ),
        ("test", format!("{{delete: 'p', deletes: [{{q: {{_id: 2}}, limit: 1}}], {within}}}")),
        ("admin", format!("{{commitTransaction: 1, {within}}}")),
        ("test", "{delete: 'p', deletes: [{q: {_id: 3}, limit: 1}]}".to_owned()),
    ] {
        let reply = run(client, db, &command);
        assert!(is_ok(&reply), "{command}: {reply:?}");
    }
}

const IMAGES: [&str; 5] =
    ["{ _id: 1, a: 1 }", "{ _id: 1, a: 5 }", "{ _id: 2, a: 2 }", "{ _id: 2, a: 3 }", "{ _id: 3 }"];

#[test]
fn images_are_documents_with_the_place_of_their_change() {
    let server = member();
    let mut client = Client::new(&server);
    assert!(images(&mut client).is_empty());
    change(&mut client);
    let all = images(&mut client);
    assert_eq!(shown(&all), IMAGES);
    let log = found(&mut client, "local", "{find: 'oplog.rs', batchSize: 1000}");
    let stats =
        "{aggregate: 'system.preimages', pipeline: [{$collStats: {count: {}}}], cursor: {}}";
    assert_eq!(found(&mut client, "config", stats)[0].get("count"), Value::Int32(5));
    let positions = [0, 0, 1, 2, 0];
    for (image, position) in all.iter().zip(positions) {
        let names: Vec<String> = image.as_doc().iter().map(|e| e.name().to_owned()).collect();
        assert_eq!(names, ["_id", "operationTime", "preImage"]);
        let id = part(image, "_id");
        assert_eq!(id.get("applyOpsIndex"), Value::Int64(position));
        let entry = log.iter().find(|entry| entry.get("ts") == id.get("ts")).unwrap();
        assert_eq!(entry.get("wall"), image.get("operationTime"));
        let ops = part(entry, "o").get("applyOps").as_array();
        let op = match &ops {
            Some(ops) => ops.iter().nth(position as usize).unwrap().as_doc().unwrap(),
            None => entry.as_doc(),
        };
        assert_eq!(op.get("ui"), id.get("nsUUID"));
        assert!(matches!(op.get("op").as_str(), Some("u" | "d")));
    }
    let one = doc! { "find": "system.preimages", "filter": { "_id": (part(&all[3], "_id")) } };
    assert!(batch(&client.run("config", one.as_doc()), "firstBatch") == all[3..4]);
}

#[test]
fn reads_of_all_kinds() {
    let server = member();
    let mut client = Client::new(&server);
    change(&mut client);
    let all = images(&mut client);
    let backward = "{find: 'system.preimages', sort: {$natural: -1}}";
    let backward = found(&mut client, "config", backward);
    assert!(backward.iter().rev().eq(all.iter()));
    // Each getMore continues at a key.
    for (order, expected) in [(1, &all), (-1, &backward)] {
        let find =
            format!("{{find: 'system.preimages', sort: {{$natural: {order}}}, batchSize: 1}}");
        let opened = run(&mut client, "config", &find);
        let id = part(&opened, "cursor").get("id").to_string();
        let mut found = batch(&opened, "firstBatch");
        let more =
            format!("{{getMore: NumberLong({id}), collection: 'system.preimages', batchSize: 1}}");
        while found.len() < expected.len() {
            found.extend(batch(&run(&mut client, "config", &more), "nextBatch"));
        }
        assert!(found == *expected);
    }
    for (command, n) in [
        ("{count: 'system.preimages'}", "5"),
        ("{count: 'system.preimages', query: {'_id.applyOpsIndex': 0}}", "3"),
        ("{count: 'system.preimages', skip: 1, limit: 2}", "2"),
    ] {
        assert_eq!(run(&mut client, "config", command).get("n").to_string(), n, "{command}");
    }
    let group = "{aggregate: 'system.preimages', cursor: {}, pipeline: [{$match: {'preImage.a': {$exists: true}}}, \
        {$group: {_id: null, n: {$sum: 1}}}]}";
    assert_eq!(found(&mut client, "config", group)[0].get("n"), Value::Int32(4));
    let listed = "{listCollections: 1, filter: {name: 'system.preimages'}}";
    let listed = found(&mut client, "config", listed).remove(0);
    assert_eq!(listed.get("type").as_str(), Some("collection"));
    let options = part(&listed, "options").to_string();
    assert_eq!(
        options,
        "{ clusteredIndex: { v: 2, key: { _id: 1 }, name: \"_id_\", unique: true } }"
    );
}

#[test]
fn clients_do_not_change_it() {
    let server = member();
    let mut client = Client::new(&server);
    change(&mut client);
    for (command, code) in [
        ("{insert: 'system.preimages', documents: [{_id: 1}]}", 73),
        ("{delete: 'system.preimages', deletes: [{q: {}, limit: 0}]}", 73),
        ("{update: 'system.preimages', updates: [{q: {}, u: {$set: {a: 1}}}]}", 73),
        ("{drop: 'system.preimages'}", 20),
        ("{createIndexes: 'system.preimages', indexes: [{key: {a: 1}, name: 'a'}]}", 73),
    ] {
        let reply = run(&mut client, "config", command);
        let code_of = |of: Doc<'_>| of.get("code").to_string();
        let refused = match reply.get("writeErrors").as_array() {
            Some(errors) => code_of(errors.iter().next().unwrap().as_doc().unwrap()),
            None => code_of(reply.as_doc()),
        };
        assert_eq!(refused, code.to_string(), "{command}: {reply:?}");
    }
    assert_eq!(images(&mut client).len(), 5);
    // It is not logged itself.
    let logged = "{find: 'oplog.rs', filter: {ns: /^config/}}";
    assert!(found(&mut client, "local", logged).is_empty());
}

#[test]
fn the_right_to_read_it_is_that_of_a_system_collection() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), Some("rs"), true);
    let mut root = Client::new(&server);
    assert!(is_ok(&root.run("admin", doc! { "replSetInitiate": 1 }.as_doc())));
    let user = doc! { "createUser": "root", "pwd": "pwd", "roles": ["root"] };
    assert!(is_ok(&root.run("admin", user.as_doc())));
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    let role = doc! { "createRole": "images", "roles": [], "privileges": [{
        "resource": { "db": "config", "collection": "system.preimages" }, "actions": ["find"]
    }] };
    assert!(is_ok(&root.run("admin", role.as_doc())));
    for (role, db, allowed) in [
        ("backup", "admin", false),
        ("images", "admin", true),
        ("read", "config", false),
        ("readAnyDatabase", "admin", false),
        ("clusterMonitor", "admin", false),
    ] {
        let user = doc! {
            "createUser": (role), "pwd": "p", "roles": [{ "role": (role), "db": (db) }]
        };
        assert!(is_ok(&root.run("admin", user.as_doc())), "{role}");
        let mut client = Client::new(&server);
        assert!(is_ok(&log_in(&mut client, "admin", role, "p")));
        for command in [
            "{find: 'system.preimages'}",
            "{count: 'system.preimages'}",
            "{aggregate: 'system.preimages', pipeline: [], cursor: {}}",
        ] {
            assert_eq!(is_ok(&run(&mut client, "config", command)), allowed, "{role} {command}");
        }
    }
}
