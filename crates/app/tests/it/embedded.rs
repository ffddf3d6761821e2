//! One data directory, opened in turn by the server and by the library.

use nagi::{Database, Engine, ErrorKind, Options, Value, doc};

use crate::process::{Folder, Server};

fn options() -> Options {
    Options::new().cache_mb(64)
}

/// Writes by the server, reads and writes by the library, reads by the server.
fn exchange(name: &str, options: &Options, server_options: &[&str]) {
    let folder = Folder::new(name);
    let server = Server::start_with(&folder.data(), server_options);
    let mut client = server.client();
    assert_eq!(
        client.run("{insert: 'c', documents: [{_id: 1}, {_id: 2}]}").get("n"),
        Value::Int32(2)
    );
    client.run("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}");
    let refused = Database::open(folder.data(), options.clone()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InUse, "{refused:?}");
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));

    let db = Database::open(folder.data(), options.clone()).unwrap();
    let c = db.database("test").collection("c");
    assert_eq!((c.count(doc! {}).unwrap(), c.list_indexes().unwrap().len()), (2, 2));
    c.insert_one(doc! { "_id": 3, "a": 5 }).unwrap();
    let data = folder.data().display().to_string();
    let output = crate::process::ended(&["--dbpath", &data, "--port", "0", "--nounixsocket"]);
    assert_eq!(output.status.code(), Some(100));
    assert!(String::from_utf8_lossy(&output.stdout).contains("DBPathInUse"));
    db.close().unwrap();

    let server = Server::start_with(&folder.data(), server_options);
    let mut client = server.client();
    assert_eq!(client.run("{count: 'c', query: {a: 5}}").get("n"), Value::Int32(1));
    assert_eq!(client.run("{count: 'c'}").get("n"), Value::Int32(3));
}

#[test]
fn the_library_and_the_server_take_turns() {
    exchange("turns", &options(), &[]);
}

#[test]
fn they_take_turns_with_lmdb() {
    exchange("turns-lmdb", &options().engine(Engine::Lmdb), &["--storageEngine", "mmapv1"]);
}

#[test]
fn they_take_turns_as_a_member() {
    exchange("turns-set", &options().replica_set("rs0"), &["--replSet", "rs0", "--initiate"]);
    let folder = Folder::new("other-set");
    let db = Database::open(folder.data(), options().replica_set("rs0")).unwrap();
    db.close().unwrap();
    let other = Database::open(folder.data(), options().replica_set("rs1")).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Options, "{other:?}");
}
