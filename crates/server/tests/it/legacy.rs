//! The legacy opcodes: OP_INSERT, OP_UPDATE, OP_DELETE, OP_QUERY, OP_GET_MORE, and getLastError.

use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_server::Outcome;

use crate::client::{Client, server};

/// A frame with this opcode and body.
fn frame(opcode: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    for number in [16 + body.len() as i32, 9, 0, opcode] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    frame.extend_from_slice(body);
    frame
}

pub(crate) fn query(
    client: &mut Client,
    ns: &str,
    to_return: i32,
    query: &DocBuf,
) -> (i32, i64, Vec<DocBuf>) {
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(ns.as_bytes());
    body.push(0);
    body.extend_from_slice(&0_i32.to_le_bytes());
    body.extend_from_slice(&to_return.to_le_bytes());
    body.extend_from_slice(query.as_bytes());
    client.frame = frame(2004, &body);
    assert_eq!(client.send(), Outcome::Reply);
    op_reply(&client.out)
}

/// The flags, cursor id and documents of an OP_REPLY.
fn op_reply(bytes: &[u8]) -> (i32, i64, Vec<DocBuf>) {
    let int = |at: usize| i32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let id = i64::from_le_bytes(*bytes[20..].first_chunk().unwrap());
    let (mut docs, mut rest) = (Vec::new(), &bytes[36..]);
    while !rest.is_empty() {
        let (doc, tail) = Doc::parse_prefix(rest).unwrap();
        docs.push(doc.to_buf());
        rest = tail;
    }
    assert_eq!(docs.len() as i32, int(32));
    (int(16), id, docs)
}

pub(crate) fn insert(client: &mut Client, ns: &str, docs: &[DocBuf]) {
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(ns.as_bytes());
    body.push(0);
    docs.iter().for_each(|doc| body.extend_from_slice(doc.as_bytes()));
    client.frame = frame(2002, &body);
    assert_eq!(client.send(), Outcome::NoReply);
}

pub(crate) fn kill_cursor(client: &mut Client, id: i64) {
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(&1_i32.to_le_bytes());
    body.extend_from_slice(&id.to_le_bytes());
    client.frame = frame(2007, &body);
    assert_eq!(client.send(), Outcome::NoReply);
}

pub(crate) fn last_error(client: &mut Client) -> DocBuf {
    let gle = doc! { "getlasterror": 1, "w": 1 };
    query(client, "test.$cmd", -1, &gle).2.remove(0)
}

#[test]
fn writes_and_their_outcome() {
    let mut client = Client::new(&server());
    insert(&mut client, "test.c", &[doc! { "_id": 1 }, doc! { "_id": 2 }]);
    let gle = last_error(&mut client);
    assert_eq!((gle.get("err"), gle.get("n")), (Value::Null, Value::Int32(0)));
    insert(&mut client, "test.c", &[doc! { "_id": 1 }]);
    let gle = last_error(&mut client);
    assert_eq!(gle.get("code"), Value::Int32(11000));
    assert!(gle.get("err").as_str().unwrap().starts_with("E11000"));
    assert!(gle.get("ok").is_truthy());
    // An OP_UPDATE with upsert.
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(b"test.c\0");
    body.extend_from_slice(&1_i32.to_le_bytes());
    body.extend_from_slice(doc! { "_id": 7 }.as_bytes());
    body.extend_from_slice(doc! { "$set": { "a": 1 } }.as_bytes());
    client.frame = frame(2001, &body);
    assert_eq!(client.send(), Outcome::NoReply);
    let gle = last_error(&mut client);
    assert_eq!(gle.get("updatedExisting"), Value::Bool(false));
    assert_eq!((gle.get("n"), gle.get("upserted")), (Value::Int32(1), Value::Int32(7)));
    // An OP_DELETE of all documents.
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(b"test.c\0");
    body.extend_from_slice(&0_i32.to_le_bytes());
    body.extend_from_slice(Doc::EMPTY.as_bytes());
    client.frame = frame(2006, &body);
    assert_eq!(client.send(), Outcome::NoReply);
    assert_eq!(last_error(&mut client).get("n"), Value::Int32(3));
}

#[test]
fn finds_in_batches() {
    let mut client = Client::new(&server());
    let docs = (0..10).map(|n| doc! { "_id": n }).collect::<Vec<_>>();
    insert(&mut client, "test.c", &docs);
    let wrapped = doc! { "$query": {}, "$orderby": { "_id": -1 } };
    let (_, id, first) = query(&mut client, "test.c", 4, &wrapped);
    assert_eq!((first.len(), first[0].get("_id")), (4, Value::Int32(9)));
    assert_ne!(id, 0);
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(b"test.c\0");
    body.extend_from_slice(&0_i32.to_le_bytes());
    body.extend_from_slice(&id.to_le_bytes());
    client.frame = frame(2005, &body);
    assert_eq!(client.send(), Outcome::Reply);
    let (_, rest_id, rest) = op_reply(&client.out);
    assert_eq!((rest_id, rest.len()), (0, 6));
    // The cursor is closed: the reply has the flag CursorNotFound.
    client.send();
    assert_eq!(op_reply(&client.out).0 & 1, 1);
    assert_eq!(query(&mut client, "test.c", -3, &DocBuf::new()).2.len(), 3);
    let (flags, _, docs) = query(&mut client, "test.c", 0, &doc! { "$query": { "$bad": 1 } });
    assert_eq!(flags & 2, 2);
    assert!(docs[0].get("$err").as_str().is_some());
    let count = doc! { "count": "c", "query": {}, "fields": null };
    assert!(query(&mut client, "test.$cmd", -1, &count).2[0].get("n").is_truthy());
}

#[test]
fn indexes_are_inserted_and_listed_as_they_were() {
    let mut client = Client::new(&server());
    let spec = doc! { "ns": "test.c", "key": { "a": 1 }, "name": "a_1", "unique": true };
    insert(&mut client, "test.system.indexes", &[spec]);
    assert_eq!(last_error(&mut client).get("err"), Value::Null);
    let (_, _, indexes) = query(&mut client, "test.system.indexes", 0, &doc! { "ns": "test.c" });
    let names = indexes.iter().map(|i| i.get("name").as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["_id_", "a_1"]);
    let (_, _, namespaces) = query(&mut client, "test.system.namespaces", 0, &DocBuf::new());
    let names = namespaces.iter().map(|one| one.get("name").as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["test.c", "test.c.$_id_", "test.c.$a_1"]);
    let (_, _, ops) = query(&mut client, "admin.$cmd.sys.inprog", -1, &DocBuf::new());
    assert!(ops[0].get("inprog").as_array().is_some());
}

#[test]
fn tailable_cursors_wait() {
    let mut client = Client::new(&server());
    client.shell("{create: 'c', capped: true, size: 4096}");
    insert(&mut client, "test.c", &[doc! { "_id": 1 }]);
    // The flags TailableCursor and AwaitData.
    let mut body = 0x22_i32.to_le_bytes().to_vec();
    body.extend_from_slice(b"test.c\0");
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(Doc::EMPTY.as_bytes());
    client.frame = frame(2004, &body);
    assert_eq!(client.send(), Outcome::Reply);
    let (_, id, first) = op_reply(&client.out);
    assert_eq!(first.len(), 1);
    assert_ne!(id, 0);
    insert(&mut client, "test.c", &[doc! { "_id": 2 }]);
    let mut body = 0_i32.to_le_bytes().to_vec();
    body.extend_from_slice(b"test.c\0");
    body.extend_from_slice(&0_i32.to_le_bytes());
    body.extend_from_slice(&id.to_le_bytes());
    client.frame = frame(2005, &body);
    assert_eq!(client.send(), Outcome::Reply);
    let (_, same_id, next) = op_reply(&client.out);
    assert_eq!((same_id, next.len()), (id, 1));
    // A tailable cursor on a collection that is not capped is an error.
    client.shell("{insert: 'plain', documents: [{_id: 1}]}");
    let mut body = 2_i32.to_le_bytes().to_vec();
    body.extend_from_slice(b"test.plain\0");
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(Doc::EMPTY.as_bytes());
    client.frame = frame(2004, &body);
    assert_eq!(client.send(), Outcome::Reply);
    let (flags, _, docs) = op_reply(&client.out);
    assert_eq!((flags & 2, docs[0].get("code")), (2, Value::Int32(2)));
}
