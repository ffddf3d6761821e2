//! Limits that are too large for the text of a golden case.

use nagi_bson::{DocBuf, Value};

use crate::client::{Client, server};

fn code(reply: &DocBuf) -> Value<'_> {
    reply.get("code")
}

fn pipeline_of(stages: usize) -> DocBuf {
    DocBuf::build(|out| {
        out.put("aggregate", "c");
        out.array("pipeline", |out| {
            (0..stages).for_each(|_| out.doc(|out| out.put("$limit", 5)));
        });
        out.doc("cursor", |_| ());
    })
}

#[test]
fn a_pipeline_has_at_most_1000_stages() {
    let mut client = Client::new(&server());
    let reply = client.run("test", pipeline_of(1000).as_doc());
    assert!(reply.get("ok").is_truthy(), "{reply:?}");
    let reply = client.run("test", pipeline_of(1001).as_doc());
    assert_eq!(code(&reply), Value::Int32(7_749_501), "{reply:?}");
}

#[test]
fn a_document_has_at_most_100_000_keys_of_one_index() {
    let mut client = Client::new(&server());
    let index = DocBuf::build(|out| {
        out.put("createIndexes", "c");
        out.array("indexes", |out| {
            out.doc(|out| {
                out.doc("key", |out| out.put("a", 1));
                out.put("name", "a_1");
            });
        });
    });
    assert!(client.run("test", index.as_doc()).get("ok").is_truthy());
    let insert = |count: i32| {
        DocBuf::build(|out| {
            out.put("insert", "c");
            out.array("documents", |out| {
                out.doc(|out| out.array("a", |out| (0..count).for_each(|n| out.push(n))));
            });
        })
    };
    let reply = client.run("test", insert(100_000).as_doc());
    assert_eq!(reply.get("n"), Value::Int32(1), "{reply:?}");
    let reply = client.run("test", insert(100_001).as_doc());
    let errors = reply.get("writeErrors").as_array().expect("one write error");
    let error = errors.get(0).as_doc().expect("a document");
    assert_eq!(error.get("code"), Value::Int32(201), "{reply:?}");
}

#[test]
fn a_key_is_as_long_as_its_value() {
    let mut client = Client::new(&server());
    let text = "x".repeat(1_000_000);
    let index = DocBuf::build(|out| {
        out.put("createIndexes", "c");
        out.array("indexes", |out| {
            out.doc(|out| {
                out.doc("key", |out| out.put("a", 1));
                out.put("name", "a_1");
                out.put("unique", true);
            });
        });
    });
    assert!(client.run("test", index.as_doc()).get("ok").is_truthy());
    let insert = DocBuf::build(|out| {
        out.put("insert", "c");
        out.array("documents", |out| out.doc(|out| out.put("a", text.as_str())));
    });
    assert_eq!(client.run("test", insert.as_doc()).get("n"), Value::Int32(1));
    let reply = client.run("test", insert.as_doc());
    assert!(reply.get("writeErrors").as_array().is_some(), "unique");
    let count = DocBuf::build(|out| {
        out.put("count", "c");
        out.doc("query", |out| out.put("a", text.as_str()));
    });
    assert_eq!(client.run("test", count.as_doc()).get("n"), Value::Int32(1));
}
