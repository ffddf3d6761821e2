//! Change streams of routers that share a store: the events and tokens of each are those of the others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_bson::{DocBuf, Value};
use nagi_kv::{Engine, Minimal};
use nagi_server::Server;
use nagi_store::{NodeMode, NodeOptions, Oplog, Store, StoreOptions};

use crate::{
    change_streams::{Stream, change, done, kinds, run, short, token_of},
    client::{Client, router_over},
};

fn router(on: &Arc<Minimal>, name: &str, lasts: Duration) -> (Arc<Server>, Arc<Store>) {
    let engine: Arc<dyn Engine> = on.clone();
    let node = NodeOptions { mode: NodeMode::Member, name: name.into(), ..NodeOptions::default() };
    let options = StoreOptions {
        node,
        change_log: Some(Arc::new(Oplog::default())),
        change_log_lasts: lasts,
        ..StoreOptions::default()
    };
    let store = Store::open(engine, options).unwrap();
    (router_over(store.clone()), store)
}

const HOUR: Duration = Duration::from_secs(3600);

/// Events until there are so many, or the stream ends.
fn events(stream: &mut Stream, count: usize) -> Vec<DocBuf> {
    let (mut all, end) = (Vec::new(), Instant::now() + Duration::from_secs(30));
    while all.len() < count && stream.id != 0 {
        assert!(Instant::now() < end, "{} of {count}: {:?}", all.len(), kinds(&all));
        all.extend(stream.wait(1000));
    }
    all
}

fn time(event: &DocBuf) -> u64 {
    match event.get("clusterTime") {
        Value::Timestamp(time) => time,
        other => panic!("{other}"),
    }
}

#[test]
fn both_show_the_same_events_with_the_same_tokens() {
    let engine = Arc::new(Minimal::new());
    let nodes = [router(&engine, "a", HOUR), router(&engine, "b", HOUR)];
    let mut streams = Vec::new();
    for (server, _) in &nodes {
        streams.push(Stream::open(server, ("test", "c"), "{}", "").unwrap());
        streams.push(Stream::open(server, ("test", ""), "{showExpandedEvents: true}", "").unwrap());
    }
    change(&mut Client::new(&nodes[0].0));
    let of_a = events(&mut streams[0], 10);
    assert_eq!(
        kinds(&of_a),
        [
            "insert",
            "insert",
            "update",
            "update",
            "replace",
            "insert",
            "insert",
            "delete",
            "drop",
            "invalidate"
        ]
    );
    assert_eq!(events(&mut streams[2], 10), of_a);
    let of_database = events(&mut streams[1], 16);
    assert_eq!(events(&mut streams[3], 16), of_database);
    // Those of a transaction have its names and one time, those of a batch only that.
    assert!(time(&of_a[5]) == time(&of_a[6]) && time(&of_a[6]) == time(&of_a[7]));
    assert!(of_a[..5].iter().all(|event| event.get("lsid").is_missing()));
    assert!(of_a[5..8].iter().all(|event| event.get("txnNumber") == Value::Int64(1)));
    assert!(of_a.is_sorted_by(|a, b| time(a) <= time(b)));
    // Each token, at the other node; and times.
    for (at, event) in of_a[..9].iter().enumerate() {
        let options = format!("{{startAfter: {}}}", token_of(event).as_doc());
        let mut again = Stream::open(&nodes[1 - at % 2].0, ("test", "c"), &options, "").unwrap();
        assert_eq!(events(&mut again, 9 - at), of_a[at + 1..], "{}", short(event));
        let (seconds, number) = (time(event) >> 32, time(event) & 0xFFFF_FFFF);
        let options = format!("{{startAtOperationTime: Timestamp({seconds}, {number})}}");
        let mut again = Stream::open(&nodes[at % 2].0, ("test", "c"), &options, "").unwrap();
        let first = of_a.partition_point(|other| time(other) < time(event));
        assert_eq!(events(&mut again, 10 - first), of_a[first..], "{}", short(event));
    }
}

/// The time of a write is that of its event, and a stream that waits is woken by writes at other nodes.
#[test]
fn a_stream_waits_for_writes_of_all_nodes() {
    let engine = Arc::new(Minimal::new());
    let nodes = [router(&engine, "a", HOUR), router(&engine, "b", HOUR)];
    let mut writer = Client::new(&nodes[0].0);
    done(&mut writer, "test", "{create: 'c'}");
    let mut stream = Stream::open(&nodes[1].0, ("test", "c"), "{}", "").unwrap();
    for id in 0..5 {
        let begun = Instant::now();
        let reply =
            run(&mut writer, "test", &format!("{{insert: 'c', documents: [{{_id: {id}}}]}}"));
        let event = stream.wait(20_000);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(event.len(), 1);
        assert_eq!(event[0].get("clusterTime"), reply.get("operationTime"), "{reply:?}");
    }
}

#[test]
fn pre_images_are_those_of_a_replica_set() {
    let engine = Arc::new(Minimal::new());
    let nodes = [router(&engine, "a", HOUR), router(&engine, "b", HOUR)];
    let mut client = Client::new(&nodes[0].0);
    done(&mut client, "test", "{create: 'c', changeStreamPreAndPostImages: {enabled: true}}");
    let options = "{fullDocument: 'required', fullDocumentBeforeChange: 'required'}";
    let mut stream = Stream::open(&nodes[1].0, ("test", "c"), options, "").unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 1, a: 1}]}");
    for a in [2, 3] {
        let update =
            format!("{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$set: {{a: {a}}}}}}}]}}");
        done(&mut client, "test", &update);
    }
    let shown = events(&mut stream, 3);
    let images = |event: &DocBuf| {
        format!("{} {}", event.get("fullDocumentBeforeChange"), event.get("fullDocument"))
    };
    assert_eq!(images(&shown[1]), "{ _id: 1, a: 1 } { _id: 1, a: 2 }");
    assert_eq!(images(&shown[2]), "{ _id: 1, a: 2 } { _id: 1, a: 3 }");
}

#[test]
fn a_token_from_before_the_window_is_lost() {
    let engine = Arc::new(Minimal::new());
    let (server, store) = router(&engine, "a", Duration::from_secs(60));
    let mut client = Client::new(&server);
    let mut stream = Stream::open(&server, ("test", "c"), "{}", "").unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 1}]}");
    let old = token_of(&events(&mut stream, 1)[0]);
    for _ in 0..200 {
        let next = engine.clock().greatest() + (1 << 32);
        engine.advance(nagi_kv::CommitStamp(next)).unwrap();
    }
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 2}]}");
    assert_eq!(events(&mut stream, 1).len(), 1);
    while store.trim_lists(Duration::from_secs(60)).unwrap() {}
    let options = format!("{{resumeAfter: {}}}", old.as_doc());
    let mut late = Stream::open(&server, ("test", "c"), &options, "").unwrap();
    let lost = late.more("").unwrap_err();
    assert_eq!(lost.get("code"), Value::Int32(286), "{lost:?}");
}
