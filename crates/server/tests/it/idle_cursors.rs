//! Open cursors are charged to their memory pool until they are closed. A cursor that exceeds the pool is
//! refused.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, doc};
use nagi_budget::{Budget, Pool};
use nagi_store::{Store, StoreOptions};

use crate::client::{Client, server_over};

const ROOM_BYTES: u64 = 16 << 20;

/// A client of a server with a small memory budget and some documents in `test.c`.
fn client() -> Client {
    let options = StoreOptions { budget: Budget::new(ROOM_BYTES), ..StoreOptions::default() };
    let store = Store::open(Arc::new(nagi_kv::Memory::new()), options).unwrap();
    let mut client = Client::new(&server_over(store, None, false, false));
    let insert = DocBuf::build(|out| {
        out.put("insert", "c");
        out.array("documents", |out| (0..10).for_each(|n| out.push(&doc! { "_id": n })));
    });
    assert!(client.run("test", insert.as_doc()).get("ok").is_truthy());
    client
}

fn find(client: &mut Client) -> DocBuf {
    client.run("test", doc! { "find": "c", "batchSize": 1 }.as_doc())
}

fn id_of(reply: &DocBuf) -> i64 {
    match reply.get("cursor").as_doc().map(|cursor| cursor.get("id")) {
        Some(Value::Int64(id)) => id,
        other => panic!("{other:?} in {reply:?}"),
    }
}

fn used(client: &Client) -> (u64, u64) {
    let budget = client.server.budget();
    (budget.pool(Pool::OpenCursors).used, budget.limit(Pool::OpenCursors))
}

/// Opens cursors until one is refused.
fn fill(client: &mut Client) -> Vec<i64> {
    let mut ids = Vec::new();
    loop {
        let reply = find(client);
        if !reply.get("ok").is_truthy() {
            assert_eq!(reply.get("code"), Value::Int32(146), "{reply:?}");
            return ids;
        }
        ids.push(id_of(&reply));
        let (used, limit) = used(client);
        assert!(used >= ids.len() as u64 * 1024 && used <= limit, "{used} of {limit}");
        assert!(ids.len() < 10_000, "none was refused");
    }
}

#[test]
fn the_pool_bounds_open_cursors_and_closed_ones_give_their_part_back() {
    let mut client = client();
    let ids = fill(&mut client);
    assert!(ids.len() > 100, "{}", ids.len());
    // Cursors that are open already continue to their end.
    let next = |id: i64, size: i32| doc! { "getMore": id, "collection": "c", "batchSize": size };
    let reply = client.run("test", next(ids[0], 2).as_doc());
    assert!(reply.get("ok").is_truthy(), "{reply:?}");
    let full = used(&client).0;
    let reply = client.run("test", next(ids[0], 100).as_doc());
    assert_eq!(id_of(&reply), 0, "{reply:?}");
    assert!(used(&client).0 < full, "one that ended");
    assert_ne!(id_of(&find(&mut client)), 0, "its place is free");
    let kill = DocBuf::build(|out| {
        out.put("killCursors", "c");
        out.array("cursors", |out| ids.iter().for_each(|id| out.push(*id)));
    });
    assert!(client.run("test", kill.as_doc()).get("ok").is_truthy());
    let (left, _) = used(&client);
    assert!(left <= full / ids.len() as u64 * 2, "only the last one is open: {left}");
    assert!(fill(&mut client).len() >= ids.len() - 2, "all places are free again");
}
