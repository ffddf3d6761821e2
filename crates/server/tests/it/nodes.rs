//! Several servers, each over a store of its own, that share the data of one engine: what one of them changes holds at
//! the others when it is answered.

use std::sync::{Arc, Barrier};

use nagi_bson::{DocBuf, Value, json, number::as_i64_exact};
use nagi_kv::Minimal;
use nagi_server::{ServerBuilder, Zone};
use nagi_store::Store;

use crate::client::{Client, is_ok, router_config, shared_store};
use crate::login::log_in;

/// A store that shares the data of the engine with others.
pub(crate) fn member(engine: &Arc<Minimal>, number: u16) -> Arc<Store> {
    shared_store(engine.clone(), &format!("node {number}"))
}

/// A server over such a store, which clients reach at a port of its own.
fn node(engine: &Arc<Minimal>, number: u16, authorization: bool) -> Client {
    let mut config = router_config(member(engine, number), authorization);
    config.port = 27017 + number;
    Client::new(&ServerBuilder::new(config).unwrap().start().unwrap())
}

pub(crate) fn two_with(authorization: bool) -> (Client, Client) {
    let engine = Arc::new(Minimal::new());
    (node(&engine, 0, authorization), node(&engine, 1, authorization))
}

pub(crate) fn two() -> (Client, Client) {
    two_with(false)
}

/// A client of the same server.
pub(crate) fn another(client: &Client) -> Client {
    Client::new(&client.server)
}

fn admin(client: &mut Client, text: &str) -> DocBuf {
    client.run("admin", json::parse(text).unwrap().as_doc())
}

/// Runs a command of the database `admin` that has to succeed.
pub(crate) fn does(client: &mut Client, text: &str) -> DocBuf {
    let reply = admin(client, text);
    assert!(is_ok(&reply), "{text}: {reply:?}");
    reply
}

pub(crate) fn code(reply: &DocBuf) -> i32 {
    match reply.get("code") {
        Value::Int32(code) => code,
        _ => 0,
    }
}

pub(crate) fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let Some(cursor) = reply.get("cursor").as_doc() else { panic!("{reply:?}") };
    let batch = cursor.get("firstBatch").as_array().unwrap();
    batch.iter().map(|doc| doc.as_doc().unwrap().to_buf()).collect()
}

pub(crate) fn find(client: &mut Client, db: &str, text: &str) -> Vec<DocBuf> {
    batch(&client.run(db, json::parse(text).unwrap().as_doc()))
}

fn count(client: &mut Client, collection: &str) -> usize {
    find(client, "test", &format!("{{find: '{collection}'}}")).len()
}

/// No command tells a count that lacks an acknowledged write of another server: none is read from memory.
#[test]
fn counts_without_a_filter_have_the_documents_of_all_servers() {
    let (mut one, mut other) = two();
    for round in 1..=20 {
        let text = format!("{{insert: 'c', documents: [{{_id: {round}}}]}}");
        assert!(is_ok(&one.run("test", json::parse(&text).unwrap().as_doc())));
        for (command, path) in [
            ("{count: 'c'}", "n"),
            ("{collStats: 'c'}", "count"),
            ("{dataSize: 'test.c'}", "numObjects"),
            ("{dbStats: 1}", "objects"),
        ] {
            let reply = other.run("test", json::parse(command).unwrap().as_doc());
            assert_eq!(as_i64_exact(reply.get(path)), Some(round), "{command}: {reply:?}");
        }
        let stage = "{aggregate: 'c', pipeline: [{$collStats: {count: {}}}], cursor: {}}";
        let found = find(&mut other, "test", stage);
        assert_eq!(as_i64_exact(found[0].get("count")), Some(round), "{found:?}");
        std::mem::swap(&mut one, &mut other);
    }
}

#[test]
fn servers_that_start_at_once_serve_one_database() {
    const COUNT: u16 = 3;
    let engine = Arc::new(Minimal::new());
    let mut nodes: Vec<Client> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..COUNT)
            .map(|n| {
                scope.spawn({
                    let engine = &engine;
                    move || node(engine, n, false)
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let ids: Vec<_> =
        nodes.iter_mut().map(|node| find(node, "config", "{find: 'version'}")).collect();
    assert!(ids[0].len() == 1 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    for (n, node) in nodes.iter_mut().enumerate() {
        // The first one creates the collection.
        let reply = node.shell(&format!("{{insert: 'c', documents: [{{_id: {n}, v: {n}}}]}}"));
        assert!(is_ok(&reply), "{reply:?}");
    }
    let made =
        nodes[1].shell("{createIndexes: 'c', indexes: [{key: {v: 1}, name: 'v', unique: true}]}");
    assert!(is_ok(&made), "{made:?}");
    for (n, node) in nodes.iter_mut().enumerate() {
        assert_eq!(count(node, "c"), usize::from(COUNT));
        let duplicate = node.shell(&format!("{{insert: 'c', documents: [{{_id: 'x{n}', v: 2}}]}}"));
        assert!(format!("{duplicate:?}").contains("E11000"), "{duplicate:?}");
        let moved = node.shell(&format!(
            "{{update: 'c', updates: [{{q: {{v: {n}}}, u: {{$inc: {{v: 10}}}}}}]}}"
        ));
        assert_eq!(moved.get("nModified"), Value::Int32(1), "{moved:?}");
    }
    assert!(is_ok(&nodes[2].shell("{drop: 'c'}")));
    assert!(nodes.iter_mut().all(|node| count(node, "c") == 0));
    let zone = Zone::parse("UTC").unwrap();
    for node in &nodes {
        node.server.record_start(&zone);
    }
    let starts = find(&mut nodes[0], "local", "{find: 'startup_log'}");
    assert!(!starts.is_empty());
}

#[test]
fn each_server_lists_all_of_them() {
    let engine = Arc::new(Minimal::new());
    let (stores, mut nodes): (Vec<_>, Vec<_>) = (0..2)
        .map(|n| {
            let store = member(&engine, n);
            let mut config = router_config(store.clone(), false);
            config.port = 27017 + n;
            (store, Client::new(&ServerBuilder::new(config).unwrap().start().unwrap()))
        })
        .unzip();
    let names = |node: &mut Client| -> Vec<String> {
        let all = find(node, "config", "{find: 'mongos', sort: {_id: 1}}");
        all.iter().map(|one| one.get("_id").as_str().unwrap().to_owned()).collect()
    };
    for node in &mut nodes {
        let listed = names(node);
        assert!(listed.len() == 2 && listed[0].ends_with(":27017"), "{listed:?}");
        assert!(listed[1].ends_with(":27018"), "{listed:?}");
        let all = find(
            node,
            "config",
            "{find: 'mongos', filter: {mongoVersion: '8.0.4', waiting: true}}",
        );
        for one in all {
            let (Value::DateTime(ping), Value::Int64(up)) = (one.get("ping"), one.get("up")) else {
                panic!("{one:?}")
            };
            let (Value::DateTime(created), now) = (one.get("created"), now_ms()) else {
                panic!("{one:?}")
            };
            assert!((now - 10_000..=now).contains(&ping) && (0..60).contains(&up), "{one:?}");
            assert!((now - 60_000..=now).contains(&created), "{one:?}");
        }
        let hello = node.shell("{hello: 1}");
        assert_eq!(hello.get("msg").as_str(), Some("isdbgrid"));
    }
    // One that has left is not listed any more.
    nodes[1].server.stop();
    nodes[1].server.join_jobs();
    stores[1].close().unwrap();
    assert_eq!(names(&mut nodes[0]).len(), 1);
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// What a client of the second server may do, who is logged in there all the time.
#[test]
fn users_and_roles_hold_at_all_servers_when_the_change_is_answered() {
    let (mut one, mut other) = two_with(true);
    does(&mut one, "{createUser: 'root', pwd: 'pwd', roles: ['root']}");
    assert!(is_ok(&log_in(&mut one, "admin", "root", "pwd")));
    does(&mut one, "{createUser: 'user', pwd: 'pwd', roles: [{role: 'readWrite', db: 'test'}]}");
    assert!(is_ok(&log_in(&mut other, "admin", "user", "pwd")));
    let insert = "{insert: 'c', documents: [{}]}";
    let mut may = |text: &str, expected: bool| {
        let reply = other.shell(text);
        assert_eq!(
            (is_ok(&reply), code(&reply)),
            (expected, if expected { 0 } else { 13 }),
            "{reply:?}"
        );
    };
    may(insert, true);
    does(&mut one, "{revokeRolesFromUser: 'user', roles: [{role: 'readWrite', db: 'test'}]}");
    may(insert, false);
    does(&mut one, "{grantRolesToUser: 'user', roles: [{role: 'read', db: 'test'}]}");
    may("{find: 'c'}", true);
    may(insert, false);
    does(
        &mut one,
        "{createRole: 'writer', roles: [], privileges: [{resource: {db: 'test', collection: 'c'}, \
          actions: ['insert']}]}",
    );
    does(&mut one, "{updateUser: 'user', roles: ['writer']}");
    may(insert, true);
    does(
        &mut one,
        "{revokePrivilegesFromRole: 'writer', privileges: [{resource: {db: 'test', collection: 'c'}, \
          actions: ['insert']}]}",
    );
    may(insert, false);
    does(
        &mut one,
        "{grantPrivilegesToRole: 'writer', privileges: [{resource: {db: 'test', collection: 'c'}, \
          actions: ['insert']}]}",
    );
    may(insert, true);
    does(&mut one, "{dropRole: 'writer'}");
    may(insert, false);
    // As restore tools write them.
    does(
        &mut one,
        "{update: 'system.users', updates: [{q: {user: 'user'}, u: {$set: {roles: [{role: 'readWrite', \
          db: 'test'}]}}}]}",
    );
    may(insert, true);
    does(&mut one, "{updateUser: 'user', pwd: 'new'}");
    assert!(is_ok(&log_in(&mut another(&other), "admin", "user", "new")));
    assert_eq!(code(&log_in(&mut another(&other), "admin", "user", "pwd")), 18);
    does(&mut one, "{dropUser: 'user'}");
    let reply = other.shell(insert);
    assert_eq!(code(&reply), 13, "{reply:?}");
    assert_eq!(code(&log_in(&mut another(&other), "admin", "user", "new")), 18);
}

#[test]
fn only_one_client_creates_the_first_user() {
    for _ in 0..10 {
        let (one, other) = two_with(true);
        let barrier = Barrier::new(2);
        let create = |mut client: Client, name: &str| {
            barrier.wait();
            admin(&mut client, &format!("{{createUser: '{name}', pwd: 'pwd', roles: ['root']}}"))
        };
        let (mut late, replies) = (
            another(&other),
            std::thread::scope(|scope| {
                let first = scope.spawn(|| create(one, "a"));
                let second = scope.spawn(|| create(other, "b"));
                [first.join().unwrap(), second.join().unwrap()]
            }),
        );
        let done = replies.iter().filter(|reply| is_ok(reply)).count();
        assert_eq!(done, 1, "{replies:?}");
        assert!(replies.iter().any(|reply| code(reply) == 13), "{replies:?}");
        let reply = admin(&mut late, "{createUser: 'c', pwd: 'pwd', roles: ['root']}");
        assert_eq!(code(&reply), 13, "{reply:?}");
    }
}

#[test]
fn parameters_of_the_cluster_hold_at_all_servers() {
    let (mut one, mut other) = two();
    for (n, node) in [(1, true), (2, false), (3, true)] {
        let (first, second) = if node { (&mut one, &mut other) } else { (&mut other, &mut one) };
        does(
            first,
            &format!("{{setClusterParameter: {{defaultMaxTimeMS: {{readOperations: {n}}}}}}}"),
        );
        let shown = does(second, "{getClusterParameter: 'defaultMaxTimeMS'}");
        assert!(format!("{shown:?}").contains(&format!("readOperations: {n}")), "{shown:?}");
    }
    other.shell("{insert: 'c', documents: [{}]}");
    let slow = "{find: 'c', filter: {$where: 'sleep(100) || true'}}";
    let reply = other.shell(slow);
    assert_eq!(code(&reply), 50, "its limit is that of the other server: {reply:?}");
    does(&mut one, "{setClusterParameter: {defaultMaxTimeMS: {readOperations: 0}}}");
    assert!(is_ok(&other.shell(slow)));
}

#[test]
fn default_concerns_hold_at_all_servers() {
    let (mut one, mut other) = two();
    does(&mut one, "{setDefaultRWConcern: 1, defaultReadConcern: {level: 'majority'}}");
    does(&mut other, "{setDefaultRWConcern: 1, defaultWriteConcern: {w: 1}}");
    for node in [&mut one, &mut other] {
        let shown = does(node, "{getDefaultRWConcern: 1}");
        assert_eq!(format!("{}", shown.get("defaultReadConcern")), "{ level: \"majority\" }");
        assert!(format!("{}", shown.get("defaultWriteConcern")).contains("w: 1"), "{shown:?}");
        assert_eq!(shown.get("defaultReadConcernSource").as_str(), Some("global"));
    }
    // Somebody writes what is none: the ones before stay, and later changes are followed.
    let broken = "{update: 'settings', updates: [{q: {_id: 'ReadWriteConcernDefaults'}, u: {$set: \
                   {defaultWriteConcern: {w: {}}}}}]}";
    assert!(is_ok(&one.run("config", json::parse(broken).unwrap().as_doc())));
    let shown = does(&mut other, "{getDefaultRWConcern: 1}");
    assert!(format!("{}", shown.get("defaultWriteConcern")).contains("w: 1"), "{shown:?}");
    let removed =
        "{delete: 'settings', deletes: [{q: {_id: 'ReadWriteConcernDefaults'}, limit: 1}]}";
    assert!(is_ok(&one.run("config", json::parse(removed).unwrap().as_doc())));
    for node in [&mut one, &mut other] {
        let shown = does(node, "{getDefaultRWConcern: 1}");
        assert_eq!(shown.get("defaultReadConcernSource").as_str(), Some("implicit"), "{shown:?}");
    }
    does(&mut other, "{setDefaultRWConcern: 1, defaultReadConcern: {level: 'available'}}");
    assert!(is_ok(&one.run("config", json::parse("{drop: 'settings'}").unwrap().as_doc())));
    for node in [&mut one, &mut other] {
        let shown = does(node, "{getDefaultRWConcern: 1}");
        assert_eq!(shown.get("defaultReadConcernSource").as_str(), Some("implicit"), "{shown:?}");
    }
}

#[test]
fn blocked_writes_are_refused_by_all_servers() {
    let (mut one, mut other) = two();
    does(&mut one, "{setUserWriteBlockMode: 1, global: true}");
    for node in [&mut one, &mut other] {
        assert_eq!(code(&node.shell("{insert: 'c', documents: [{}]}")), 371);
    }
    does(&mut other, "{setUserWriteBlockMode: 1, global: false}");
    for (n, node) in [&mut one, &mut other].into_iter().enumerate() {
        assert!(is_ok(&node.shell(&format!("{{insert: 'd', documents: [{{_id: {n}}}]}}"))));
    }
    assert_eq!(count(&mut one, "d"), 2);
}

#[test]
fn query_settings_hold_at_all_servers_and_none_are_lost() {
    const EACH: usize = 8;
    let (mut one, mut other) = two();
    one.shell("{insert: 'c', documents: [{_id: 1, a: 1}]}");
    let rejecting =
        "{setQuerySettings: {find: 'c', filter: {a: 1}, $db: 'test'}, settings: {reject: true}}";
    does(&mut one, rejecting);
    let find = "{find: 'c', filter: {a: 5}}";
    assert_eq!(code(&other.shell(find)), 411);
    does(&mut other, "{removeQuerySettings: {find: 'c', filter: {a: 1}, $db: 'test'}}");
    assert!(is_ok(&one.shell(find)));
    let again = admin(&mut one, "{removeQuerySettings: {find: 'c', filter: {a: 1}, $db: 'test'}}");
    assert_eq!(code(&again), 7_746_701, "{again:?}");
    // At once, each for shapes of its own: all are in one document.
    std::thread::scope(|scope| {
        for (name, node) in [("x", &mut one), ("y", &mut other)] {
            scope.spawn(move || {
                for n in 0..EACH {
                    let query = format!("{{find: 'c', filter: {{{name}{n}: 1}}, $db: 'test'}}");
                    does(
                        node,
                        &format!("{{setQuerySettings: {query}, settings: {{reject: true}}}}"),
                    );
                }
            });
        }
    });
    for node in [&mut one, &mut other] {
        let listed = does(node, "{aggregate: 1, pipeline: [{$querySettings: {}}], cursor: {}}");
        assert_eq!(batch(&listed).len(), 2 * EACH, "{listed:?}");
    }
}

#[test]
fn index_filters_hold_at_all_servers() {
    let (mut one, mut other) = two();
    one.shell("{insert: 'c', documents: [{a: 1, b: 1}]}");
    one.shell(
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}, {key: {b: 1}, name: 'b'}]}",
    );
    let used = |node: &mut Client| {
        let plan = node.shell("{explain: {find: 'c', filter: {a: 1, b: 1}}}");
        let plan = format!("{plan:?}");
        let at = plan.find("indexName: ").unwrap();
        plan[at + 12..at + 13].to_owned()
    };
    let filters = |node: &mut Client| {
        let listed = node.shell("{planCacheListFilters: 'c'}");
        listed.get("filters").as_array().unwrap().iter().count()
    };
    for (n, index) in ["a", "b", "a"].into_iter().enumerate() {
        let (first, second) =
            if n % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        let set =
            format!("{{planCacheSetFilter: 'c', query: {{a: 1, b: 1}}, indexes: ['{index}']}}");
        assert!(is_ok(&first.shell(&set)));
        assert_eq!((used(first), used(second)), (index.to_owned(), index.to_owned()));
        assert_eq!((filters(first), filters(second)), (1, 1));
    }
    assert!(is_ok(&one.shell("{planCacheSetFilter: 'c', query: {b: 1}, indexes: ['b']}")));
    assert_eq!(filters(&mut other), 2);
    assert!(is_ok(&other.shell("{planCacheClearFilters: 'c', query: {b: 1}}")));
    assert_eq!(filters(&mut one), 1);
    assert!(is_ok(&other.shell("{planCacheClearFilters: 'c'}")));
    assert_eq!((filters(&mut one), filters(&mut other)), (0, 0));
    let wrong = one.shell("{planCacheSetFilter: 'c', query: {b: 1}, indexes: [1]}");
    assert_eq!(code(&wrong), 2, "{wrong:?}");
}

#[test]
fn cursors_and_transactions_are_at_their_server() {
    let (mut one, mut other) = two();
    one.shell("{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    let opened = one.shell("{find: 'c', batchSize: 1}");
    let Value::Int64(id) = opened.get("cursor").as_doc().unwrap().get("id") else {
        panic!("{opened:?}")
    };
    let more = format!("{{getMore: NumberLong('{id}'), collection: 'c'}}");
    assert_eq!(code(&other.shell(&more)), 43);
    assert!(is_ok(&one.shell(&more)));
}

#[test]
fn views_and_their_documents_follow_the_last_change() {
    let (mut one, mut other) = two();
    one.shell("{create: 'c'}");
    assert!(is_ok(&one.shell("{create: 'v', viewOn: 'c', pipeline: [{$match: {a: 0}}]}")));
    for n in 1..=6 {
        let node = if n % 2 == 0 { &mut one } else { &mut other };
        let changed = format!("{{collMod: 'v', viewOn: 'c', pipeline: [{{$match: {{a: {n}}}}}]}}");
        assert!(is_ok(&node.shell(&changed)));
    }
    let documents = find(&mut other, "test", "{find: 'system.views'}");
    assert_eq!(documents.len(), 1);
    assert!(format!("{:?}", documents[0]).contains("a: 6"), "{documents:?}");
    assert!(is_ok(&other.shell("{drop: 'v'}")));
    assert_eq!(find(&mut one, "test", "{find: 'system.views'}"), []);
}

/// A driver's session with `snapshot: true` goes through any server of the list.
#[test]
fn snapshots_are_read_at_each_server_by_the_time_that_another_has_told() {
    let engine = Arc::new(Minimal::new());
    engine.keep_history();
    let mut nodes = [node(&engine, 0, false), node(&engine, 1, false)];
    for name in ["c", "other"] {
        assert!(is_ok(&nodes[0].shell(&format!("{{insert: '{name}', documents: [{{_id: 1}}]}}"))));
    }
    let first = nodes[0].shell("{find: 'c', readConcern: {level: 'snapshot'}}");
    let Value::Timestamp(time) = first.get("cursor").as_doc().unwrap().get("atClusterTime") else {
        panic!("{first:?}")
    };
    let concern = |time: u64| {
        let (seconds, number) = (time >> 32, time & 0xFFFF_FFFF);
        format!("readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {number})}}")
    };
    assert!(is_ok(&nodes[0].shell("{insert: 'c', documents: [{_id: 2}, {_id: 3}]}")));
    let same = concern(time);
    for node in &mut nodes {
        let found = node.shell(&format!("{{find: 'c', {same}}}"));
        assert_eq!(batch(&found).len(), 1, "{found:?}");
        let cursor = found.get("cursor").as_doc().unwrap();
        assert_eq!(cursor.get("atClusterTime"), Value::Timestamp(time));
        let counted = node.shell(&format!(
            "{{aggregate: 'c', pipeline: [{{$group: {{_id: null, n: {{$sum: 1}}}}}}], cursor: {{}}, {same}}}"
        ));
        assert_eq!(batch(&counted)[0].get("n"), Value::Int32(1), "{counted:?}");
        let distinct = node.shell(&format!("{{distinct: 'c', key: '_id', {same}}}"));
        assert_eq!(distinct.get("values").as_array().unwrap().iter().count(), 1, "{distinct:?}");
    }
    assert_eq!(count(&mut nodes[1], "c"), 3);
    // A change of the catalog takes the collection out of the snapshot, and no other one.
    assert!(is_ok(&nodes[1].shell("{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}")));
    for node in &mut nodes {
        assert_eq!(code(&node.shell(&format!("{{find: 'c', {same}}}"))), 246);
        let found = node.shell(&format!("{{find: 'other', {same}}}"));
        assert_eq!(batch(&found).len(), 1, "{found:?}");
        let old = node.shell(&format!("{{find: 'c', {}}}", concern(time - (301 << 32))));
        assert_eq!(code(&old), 239, "{old:?}");
        let far = node.shell(&format!("{{find: 'c', {}}}", concern(time + (1000 << 32))));
        assert_eq!(code(&far), 72, "{far:?}");
        let text = far.get("errmsg").as_str().unwrap();
        assert!(text.starts_with("readConcern atClusterTime value must not be greater"), "{text}");
    }
    // One in the near future waits for it.
    let near = concern(time + (3 << 32));
    let found = nodes[1].shell(&format!("{{find: 'c', {near}}}"));
    assert_eq!(batch(&found).len(), 3, "{found:?}");
}
