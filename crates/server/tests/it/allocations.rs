//! A lookup by `_id` does not allocate once the buffers of the connection are warm.

use nagi_bson::doc;

use crate::client::{Client, is_ok, server};
use crate::login::{guarded, log_in};

#[test]
fn a_point_read_allocates_nothing() {
    read(Client::new(&server()));
}

#[test]
fn neither_does_one_that_is_checked() {
    let server = guarded();
    let mut root = Client::new(&server);
    log_in(&mut root, "admin", "root", "pwd");
    let user = doc! { "createUser": "u", "pwd": "p", "roles": ["readWrite"] };
    assert!(is_ok(&root.run("test", user.as_doc())));
    let mut client = Client::new(&server);
    assert!(is_ok(&log_in(&mut client, "test", "u", "p")));
    read(client);
}

fn read(mut client: Client) {
    let text = "x".repeat(1200);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "text": &text }] };
    assert!(is_ok(&client.run("test", insert.as_doc())));
    let find = doc! { "find": "c", "filter": { "_id": 1 } };
    client.message("test", 0, find.as_doc());
    for _ in 0..10 {
        client.send();
    }
    assert!(client.out.len() > 1200);
    let (_, counted) = nagi_testkit::count_allocations(|| {
        for _ in 0..100 {
            client.send();
        }
    });
    assert_eq!(counted.calls, 0, "allocations in 100 point reads");
}
