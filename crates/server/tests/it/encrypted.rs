//! Commands of clients with Queryable Encryption that run at the same time.

use std::sync::Arc;

use nagi_bson::{Binary, DocBuf, DocWriter, Value, json};
use nagi_lang::encrypted::{FIND_EQUALITY, INSERT, SUBTYPE, derive, seal};
use nagi_server::Server;

use crate::client::{Client, is_ok, member};

const CREATE: &str = "{create: 'c', encryptedFields: {fields: [{path: 'n', bsonType: 'int', keyId: {$binary: \
                      {base64: 'EdWLigxsTWmgvQAAAAAAAQ==', subType: '04'}}, queries: {queryType: 'equality'}}]}}";

fn put(out: &mut DocWriter<'_>, name: &str, bytes: &[u8]) {
    out.put(name, Value::Binary(Binary { subtype: 0, bytes }));
}

/// What a client sends to store the value `n`.
fn insert_payload(n: u8) -> Vec<u8> {
    let esc = derive(&[n + 100; 32], 0);
    let mut sealed = Vec::new();
    seal(&[77; 32], [6; 16], &esc, &mut sealed);
    let doc = DocBuf::build(|out| {
        put(out, "d", &derive(&[n; 32], 0));
        put(out, "s", &esc);
        put(out, "p", &sealed);
        put(out, "u", &[9; 16]);
        out.put("t", 16);
        put(out, "v", &[5; 64]);
        put(out, "e", &[8; 32]);
        put(out, "l", &[n + 50; 32]);
        out.put("k", 0_i64);
    });
    [&[INSERT], doc.as_bytes()].concat()
}

/// What a client sends to find the value `n`.
fn find_payload(n: u8) -> Vec<u8> {
    let doc = DocBuf::build(|out| {
        put(out, "d", &[n; 32]);
        put(out, "s", &[n + 100; 32]);
        put(out, "l", &[n + 50; 32]);
        out.put("cm", 0_i64);
    });
    [&[FIND_EQUALITY], doc.as_bytes()].concat()
}

fn encrypted(bytes: &[u8]) -> Value<'_> {
    Value::Binary(Binary { subtype: SUBTYPE, bytes })
}

/// Writes `{n: <payload>}`, and what it is set to.
fn put_change((query, update): (&str, &str), n: u8, out: &mut DocWriter<'_>) {
    out.doc(query, |out| out.put("n", encrypted(&find_payload(n))));
    out.doc(update, |out| out.doc("$set", |out| out.put("n", encrypted(&insert_payload(n)))));
    out.put("upsert", true);
}

/// The entries of the profile and the lines of the log that name the collection `c`.
fn told(client: &mut Client) -> Vec<String> {
    let log = client.run("admin", nagi_bson::doc! { "getLog": "global" }.as_doc());
    let profile = client.shell("{find: 'system.profile', filter: {ns: 'test.c'}}");
    let profile = profile.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    let slow = |line: &str| line.contains("Slow query") && line.contains("\"test.c\"");
    let lines = log.get("log").as_array().unwrap();
    let lines = lines.iter().filter_map(|line| line.as_str()).filter(|line| slow(line));
    lines.map(str::to_owned).chain(profile.iter().map(|entry| entry.to_string())).collect()
}

#[test]
fn batches_of_encrypted_queries_are_neither_logged_nor_profiled() {
    let server = member();
    let mut client = Client::new(&server);
    assert!(is_ok(&client.shell(CREATE)));
    client.shell("{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    let information = "encryptionInformation: {type: 1, schema: {'test.c': {}}}";
    for (information, entries) in [(information, false), ("comment: 1", true)] {
        for opening in [
            "{find: 'c', batchSize: 1, ",
            "{aggregate: 'c', pipeline: [{$match: {_id: {$gt: 0}}}], cursor: {batchSize: 1}, ",
        ] {
            let reply = client.shell(&format!("{opening}{information}}}"));
            let Value::Int64(id) = reply.get("cursor").as_doc().unwrap().get("id") else {
                panic!("{reply:?}")
            };
            let next = format!("{{getMore: {{$numberLong: '{id}'}}, collection: 'c', batchSize: 1");
            assert!(!is_ok(&client.shell(&format!("{next}, apiVersion: '1'}}"))), "another API");
            assert!(is_ok(&client.shell(&format!("{next}}}"))));
            assert!(is_ok(&client.shell(&format!("{next}, comment: 2}}"))));
        }
        assert_eq!(!told(&mut client).is_empty(), entries);
    }
}

fn upsert(server: &Arc<Server>, n: u8, find_and_modify: bool) {
    let information = json::parse("{type: 1, schema: {'test.c': {}}}").unwrap();
    let command = DocBuf::build(|out| {
        if find_and_modify {
            out.put("findAndModify", "c");
            put_change(("query", "update"), n, out);
        } else {
            out.put("update", "c");
            out.array("updates", |list| list.doc(|out| put_change(("q", "u"), n, out)));
        }
        out.put("encryptionInformation", &information);
    });
    let reply = Client::new(server).run("test", command.as_doc());
    assert!(is_ok(&reply) && reply.get("writeErrors").is_missing(), "{reply:?}");
}

#[test]
fn upserts_of_one_value_insert_one_document() {
    let server = member();
    let mut client = Client::new(&server);
    assert!(is_ok(&client.shell(CREATE)));
    for n in 1..=40 {
        std::thread::scope(|threads| {
            for find_and_modify in [false, true, false, true] {
                let server = &server;
                threads.spawn(move || upsert(server, n, find_and_modify));
            }
        });
        let counted = client.shell("{count: 'c'}");
        assert_eq!(counted.get("n"), Value::Int32(i32::from(n)), "upserts of {n} values");
    }
}
