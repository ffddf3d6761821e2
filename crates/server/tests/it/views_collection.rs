//! `system.views` shows the views of a database after every change of them.

use std::sync::Arc;

use nagi_bson::{Array, DocBuf, Value, doc, json};
use nagi_kv::Memory;
use nagi_store::{Namespace, Store, StoreOptions};

use crate::client::{Client, is_ok, member, server_over};

fn batch(reply: &DocBuf) -> Vec<String> {
    assert!(is_ok(reply), "{reply:?}");
    let cursor = reply.get("cursor").as_doc().unwrap();
    let batch = cursor.get("firstBatch").as_array().unwrap_or(Array::EMPTY);
    batch.iter().map(|doc| json::to_relaxed(doc.as_doc().unwrap())).collect()
}

fn views(client: &mut Client) -> Vec<String> {
    batch(&client.shell("{find: 'system.views', sort: {_id: 1}}"))
}

fn names(client: &mut Client) -> Vec<String> {
    let listed = client.shell("{listCollections: 1, nameOnly: true, filter: {name: /^[^c]/}}");
    let mut names: Vec<String> = batch(&listed);
    names.sort();
    names
}

const MIRROR: &str = r#"{"name":"system.views","type":"collection"}"#;

#[test]
fn views_have_documents() {
    let store = Store::open(Arc::new(Memory::new()), StoreOptions::default()).unwrap();
    let server = server_over(store.clone(), None, false, true);
    let mut client = Client::new(&server);
    let mut run = |text: &str| assert!(is_ok(&client.shell(text)), "{text}");
    run("{insert: 'c', documents: [{_id: 1}]}");
    run("{create: 'v', viewOn: 'c', pipeline: [{$match: {a: 1}}]}");
    run("{create: 'w', viewOn: 'v', pipeline: [], collation: {locale: 'simple'}}");
    let v = r#"{"_id":"test.v","viewOn":"c","pipeline":[{"$match":{"a":1}}]}"#;
    let shown = views(&mut client);
    assert_eq!(shown[0], v);
    assert!(shown[1].starts_with(r#"{"_id":"test.w","viewOn":"v","pipeline":[]"#), "{shown:?}");
    assert_eq!(
        names(&mut client),
        [MIRROR, r#"{"name":"v","type":"view"}"#, r#"{"name":"w","type":"view"}"#]
    );
    let write = client.shell("{insert: 'system.views', documents: [{_id: 1}]}");
    assert!(!is_ok(&write), "{write:?}");
    let mut run = |text: &str| assert!(is_ok(&client.shell(text)), "{text}");
    run("{collMod: 'v', viewOn: 'c', pipeline: [{$limit: 1}]}");
    run("{drop: 'w'}");
    let changed = r#"{"_id":"test.v","viewOn":"c","pipeline":[{"$limit":1}]}"#;
    assert_eq!(views(&mut client), [changed]);
    // The next start repairs the collection after a crash.
    let mirror = Namespace::new("test", "system.views").unwrap();
    store.drop_collection(&mirror).unwrap();
    let again = server_over(store, None, false, true);
    let mut client = Client::new(&again);
    assert_eq!(views(&mut client), [changed]);
    assert!(is_ok(&client.shell("{drop: 'v'}")));
    assert!(views(&mut client).is_empty());
    assert_eq!(names(&mut client), [MIRROR]);
    assert!(is_ok(&client.shell("{create: 'x', viewOn: 'c', pipeline: []}")));
    assert!(is_ok(&client.shell("{drop: 'system.views'}")));
    assert!(names(&mut client).is_empty());
    assert!(is_ok(&client.run("test", doc! { "dropDatabase": 1 }.as_doc())));
}

#[test]
fn no_transaction_makes_a_view() {
    let mut client = Client::new(&member());
    let refused = client.shell(
        "{create: 'v', viewOn: 'c', pipeline: [], lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')},
          txnNumber: NumberLong(1), autocommit: false, startTransaction: true}",
    );
    assert_eq!(refused.get("code"), Value::Int32(263), "{refused:?}");
    assert!(names(&mut client).is_empty());
}
