//! The wire protocol: flags, sequences, checksums, streams, compression, malformed messages.

use nagi_bson::{DocWriter, Value, doc};
use nagi_server::Outcome;

use crate::client::{Client, is_ok, server};

const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

#[test]
fn a_sequence_stands_for_an_array() {
    let mut client = Client::new(&server());
    client.frame.clear();
    let start = nagi_wire::begin_msg(&mut client.frame, 1, 0, 0);
    let mut writer = DocWriter::new(&mut client.frame);
    writer.put("insert", "c");
    writer.put("$db", "test");
    writer.finish();
    let docs = (0..3).map(|n| doc! { "_id": n }).collect::<Vec<_>>();
    let docs = docs.iter().map(|doc| doc.as_doc());
    nagi_wire::append_sequence(&mut client.frame, "documents", docs);
    nagi_wire::finish_msg(&mut client.frame, start);
    assert_eq!(client.send(), Outcome::Reply);
    assert_eq!(client.reply().get("n"), Value::Int32(3));
    assert_eq!(client.shell("{count: 'c'}").get("n"), Value::Int32(3));
}

#[test]
fn a_fire_and_forget_write_has_no_reply() {
    let mut client = Client::new(&server());
    let body = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": { "w": 0 } };
    client.message("test", MORE_TO_COME, body.as_doc());
    assert_eq!(client.send(), Outcome::NoReply);
    assert!(client.out.is_empty());
    assert_eq!(client.shell("{count: 'c'}").get("n"), Value::Int32(1));
    client.message("test", MORE_TO_COME, doc! { "noSuch": 1 }.as_doc());
    assert_eq!(client.send(), Outcome::NoReply);
}

#[test]
fn a_cursor_streams_when_asked() {
    let mut client = Client::new(&server());
    for n in 0..10 {
        client.run("test", doc! { "insert": "c", "documents": [{ "_id": n }] }.as_doc());
    }
    let reply = client.shell("{find: 'c', batchSize: 2}");
    let id = reply.get("cursor").as_doc().unwrap().get("id");
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 3 };
    client.message("test", EXHAUST_ALLOWED, more.as_doc());
    let mut outcome = client.send();
    let mut batches = 1;
    while outcome == Outcome::Stream {
        assert_eq!(client.out[16] & MORE_TO_COME as u8, MORE_TO_COME as u8);
        client.out.clear();
        let server = client.server.clone();
        outcome = server.resume(&mut client.connection, &mut client.out);
        batches += 1;
    }
    assert_eq!(outcome, Outcome::Reply);
    assert!(is_ok(&client.reply()));
    assert!((3..=4).contains(&batches), "{batches}");
}

#[test]
fn a_compressed_request_gets_a_compressed_reply() {
    let mut client = Client::new(&server());
    for compressor in
        [nagi_wire::Compressor::Snappy, nagi_wire::Compressor::Zlib, nagi_wire::Compressor::Zstd]
    {
        let text = "text ".repeat(100);
        client.message("test", 0, doc! { "ping": 1, "comment": &text }.as_doc());
        nagi_wire::compress(&mut client.frame, 0, compressor, &mut Vec::new());
        assert_eq!(client.send(), Outcome::Reply);
        client.message("test", 0, doc! { "listCommands": 1, "comment": &text }.as_doc());
        nagi_wire::compress(&mut client.frame, 0, compressor, &mut Vec::new());
        assert_eq!(client.send(), Outcome::Reply);
        let mut plain = Vec::new();
        assert_eq!(nagi_wire::decompress(&client.out, &mut plain).unwrap(), compressor);
        client.out = plain;
        assert!(is_ok(&client.reply()));
    }
}

#[test]
fn broken_frames_close_and_broken_contents_do_not() {
    let mut client = Client::new(&server());
    client.message("test", 0, doc! { "ping": 1 }.as_doc());
    let good = client.frame.clone();
    // A length inside the body that does not fit.
    client.frame[21] = 0xFF;
    let outcome = client.send();
    assert!(matches!(outcome, Outcome::Reply | Outcome::Close));
    // Every prefix and a flip of every byte: no panic, and the server continues to work.
    for end in 16..good.len() {
        client.frame = good[..end].to_vec();
        client.frame[..4].copy_from_slice(&(end as u32).to_le_bytes());
        client.send();
    }
    for at in 0..good.len() {
        client.frame = good.clone();
        client.frame[at] ^= 0x55;
        client.send();
    }
    client.frame = good;
    assert_eq!(client.send(), Outcome::Reply);
    assert!(is_ok(&client.reply()));
}

#[test]
fn a_waiting_hello_ends_with_its_time() {
    let mut client = Client::new(&server());
    let hello = client.run("admin", doc! { "hello": 1 }.as_doc());
    let version = hello.get("topologyVersion");
    let body = doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 20 };
    assert!(is_ok(&client.run("admin", body.as_doc())));
    client.message("admin", EXHAUST_ALLOWED, body.as_doc());
    assert_eq!(client.send(), Outcome::Stream);
    client.out.clear();
    let server = client.server.clone();
    assert_eq!(server.resume(&mut client.connection, &mut client.out), Outcome::Stream);
    assert!(is_ok(&client.reply()));
}

#[test]
fn stopping_interrupts_and_refuses() {
    let mut client = Client::new(&server());
    client.server.stop();
    let reply = client.shell("{find: 'c'}");
    assert_eq!(reply.get("code"), Value::Int32(11600));
}
