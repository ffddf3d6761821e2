//! The change log of nodes that share the data: at each node every committed change once, in one order, whatever fails.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Doc, DocBuf, doc, number};
use nagi_error::{Code, Result, bail};
use nagi_kv::{Engine, Error, Faults, Faulty, Minimal, Point, Space};
use nagi_store::{
    ChangeScope, Collection, Durability, EditKind, Lifetime, LogPosition, Namespace, NodeMode,
    Oplog, RecordBuf, Store, StoreOptions, Transaction, Watch, WriteOptions, WriteTxn,
};

use crate::{
    random::Random,
    support::{error, pass},
};

/// Documents that are changed: few, so that nodes meet at them.
const IDS: u64 = 12;

fn name() -> Namespace {
    Namespace::parse("d.c").unwrap()
}

/// A node that logs its changes, and may be killed.
struct Node {
    store: Arc<Store>,
    faults: Faults,
}

fn options(name: &str, mode: NodeMode) -> StoreOptions {
    let mut options = crate::options();
    options.node.name = name.to_owned();
    options.node.mode = mode;
    options.node.lease_seconds = 3;
    options.change_log = Some(Arc::new(Oplog::default()));
    options
}

impl Node {
    fn open(on: &Arc<Minimal>, number: usize) -> Node {
        Node::open_as(on, &format!("node {number}"), NodeMode::Member)
    }

    fn open_as(on: &Arc<Minimal>, name: &str, mode: NodeMode) -> Node {
        let faults = Faults::default();
        let faulty = Faulty::new(Arc::clone(on) as Arc<dyn Engine>, faults.clone());
        Node { store: Store::open(Arc::new(faulty), options(name, mode)).unwrap(), faults }
    }

    fn kill(&self) {
        for point in [Point::Begin, Point::Get, Point::Cursor, Point::Commit] {
            self.faults.arm(point, 0, u64::MAX, || Error::other("killed"));
        }
    }
}

/// Changes a document: a new value that tells which one it replaces. A document is inserted, replaced, or deleted.
fn change(store: &Store, id: i32, value: i64) -> Result<()> {
    let write = &mut |txn: &mut WriteTxn<'_>| {
        let Some(collection) = txn.collection(&name()) else { panic!("it is there") };
        if value % 7 == 0 {
            fail_one(txn, &collection, value)?;
        }
        let Some(record) = txn.reader().find_id(&collection, id.into())? else {
            let new = doc! { "_id": id, "v": value };
            return txn.insert(&collection, new.as_doc()).map(drop);
        };
        let mut buf = RecordBuf::default();
        let Some(old) = txn.reader().record(&collection, record.key(), &mut buf)? else {
            return Ok(());
        };
        let old = old.to_buf();
        let was = number::truncate_to_i64(old.as_doc().get("v")).unwrap();
        let new = doc! { "_id": id, "v": value, "was": was };
        match value % 5 {
            0 => txn.delete(&collection, record.key(), old.as_doc()),
            _ => {
                let edit = EditKind::Replacement;
                txn.update_by(edit, &collection, record.key(), old.as_doc(), new.as_doc())
            }
        }
    };
    store.write(WriteOptions::default(), write).map(drop)
}

/// A statement that fails: nothing of it is to be seen.
fn fail_one(txn: &mut WriteTxn<'_>, collection: &Collection, value: i64) -> Result<()> {
    let undone = txn.attempt(|txn| {
        txn.insert(collection, doc! { "_id": -1, "v": value }.as_doc())?;
        bail!(Code::BAD_VALUE, "fails")
    });
    match undone {
        Ok(()) => panic!("it fails"),
        Err(error) if error.code() == Code::BAD_VALUE => Ok(()),
        Err(error) => Err(error),
    }
}

/// Changes two documents in a transaction of a client.
fn change_two(store: &Store, ids: [i32; 2], value: i64) -> Result<()> {
    let txn = Transaction::begin(store, Lifetime::Long)?;
    for (more, id) in ids.into_iter().enumerate() {
        change(txn.store(), id, value + more as i64)?;
    }
    txn.commit(Durability::Buffered).map(drop)
}

/// Writes until it is told to end. Any write may fail.
fn write(node: &Node, seed: u64, ends: &AtomicBool) -> usize {
    let (mut random, mut done) = (Random::new(seed), 0);
    while !ends.load(SeqCst) {
        let value = (random.next() >> 2) as i64;
        let id = random.below(IDS) as i32;
        let result = match random.below(8) {
            0 => change_two(&node.store, [id, (id + 1) % IDS as i32], value),
            _ => change(&node.store, id, value),
        };
        done += usize::from(result.is_ok());
    }
    done
}

/// An operation of the log: its time, its position in it, kind, `_id`, value, and the value before.
#[derive(Clone, PartialEq, Debug)]
struct Event {
    time: u64,
    at: usize,
    letter: u8,
    id: i64,
    value: Option<i64>,
    was: Option<i64>,
}

/// A reader of the log of a node.
struct Follower<'n> {
    store: &'n Store,
    position: LogPosition,
    events: Vec<Event>,
    _watch: Arc<Watch>,
}

impl<'n> Follower<'n> {
    /// From a time on.
    fn at(store: &'n Store, time: u64) -> Result<Follower<'n>> {
        let watch = store.watch_changes(&ChangeScope::Cluster, None);
        let snapshot = store.snapshot()?;
        let position = store.log_position(&snapshot.reader(), time)?;
        Ok(Follower { store, position, events: Vec::new(), _watch: watch })
    }

    /// Reads what there is. Errors of the engine are those of this attempt only.
    fn read(&mut self) -> Result<()> {
        let snapshot = self.store.snapshot()?;
        let mut go_on = || Ok(());
        let mut check = || Ok(());
        loop {
            let reader = snapshot.reader();
            let portion = self.store.log_portion(
                &reader,
                None,
                &mut self.position,
                &mut go_on,
                &mut check,
            )?;
            for document in &portion.documents {
                for at in 0..document.op_count() {
                    self.note(document.cluster_time, at, document.op(at));
                }
            }
            if portion.drained {
                return Ok(());
            }
        }
    }

    fn note(&mut self, time: u64, at: usize, op: Doc<'_>) {
        let letter = op.get("op").as_str().unwrap().as_bytes()[0];
        if op.get("ns").as_str() != Some("d.c") {
            return;
        }
        let o = op.get("o").as_doc().unwrap();
        let long = |name: &str| number::truncate_to_i64(o.get(name));
        let (id, value, was) = (long("_id").unwrap(), long("v"), long("was"));
        self.events.push(Event { time, at, letter, id, value, was });
    }

    /// Reads until it has seen this value.
    fn read_to(&mut self, value: i64) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.events.iter().rev().take(1000).any(|event| event.value == Some(value)) {
            assert!(Instant::now() < end, "{value} is not there: {:?}", self.events.last());
            let _ = self.read();
            thread::yield_now();
        }
    }
}

/// What the events make of an empty collection. Each must follow the one before of its document.
fn replay(events: &[Event]) -> BTreeMap<i64, i64> {
    let mut state = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        let before = match event.letter {
            b'd' => state.remove(&event.id),
            _ => state.insert(event.id, event.value.unwrap()),
        };
        match event.letter {
            b'i' => assert_eq!(before, None, "event {number}: {event:?}"),
            b'd' => assert!(before.is_some(), "event {number}: {event:?}"),
            b'u' => assert_eq!(before, event.was, "event {number}: {event:?}"),
            other => panic!("operation {}", char::from(other)),
        }
    }
    assert!(events.is_sorted_by(|a, b| (a.time, a.at) < (b.time, b.at)), "in order");
    state
}

/// The documents.
fn state(store: &Store) -> BTreeMap<i64, i64> {
    let collection = store.collection(&name()).unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.reader().scan(&collection, true).unwrap();
    let mut all = BTreeMap::new();
    while cursor.advance().unwrap() {
        let doc: DocBuf = cursor.doc().to_buf();
        let long = |name: &str| number::truncate_to_i64(doc.as_doc().get(name)).unwrap();
        all.insert(long("_id"), long("v"));
    }
    all
}

/// Makes the engine of a node fail in the ways of a network.
fn disturb(node: &Node, seed: u64, ends: &AtomicBool) {
    let mut random = Random::new(seed);
    while !ends.load(SeqCst) {
        let (point, error): (Point, fn() -> Error) = match random.below(6) {
            0 => (Point::Begin, || Error::other("unreachable")),
            1 => (Point::Get, || Error::other("unreachable")),
            2 => (Point::Committed, || Error::Undetermined),
            3 => (Point::Commit, || Error::Undetermined),
            _ => (Point::Commit, || Error::Conflict),
        };
        node.faults.arm(point, random.below(20), 1 + random.below(3), error);
        (0..50).for_each(|_| thread::yield_now());
        node.faults.disarm();
    }
}

/// The last change of a test: a value of a document of its own.
fn finish(node: &Node, id: i32) -> i64 {
    let value = i64::from(id) * 1_000_000_007 + 1;
    let end = Instant::now() + Duration::from_secs(30);
    while let Err(failed) = change(&node.store, id, value) {
        assert!(Instant::now() < end, "{failed}");
    }
    value
}

/// Lets others work.
fn pass_until(until: Instant) {
    while Instant::now() < until {
        thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

#[test]
fn all_nodes_see_each_change_once_and_in_the_same_order() {
    let engine = Arc::new(Minimal::new());
    let nodes: Vec<Node> = (0..3).map(|number| Node::open(&engine, number)).collect();
    nodes[0].store.create_collection(&name(), Doc::EMPTY).unwrap();
    let ends = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(6);
    let (all, written) = thread::scope(|scope| {
        let mut writers = Vec::new();
        let mut followers = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let (ends, seed) = (&ends, number as u64);
            for writer in 0..2 {
                writers.push(scope.spawn(move || write(node, 10 * seed + writer + 1, ends)));
            }
            if number > 0 {
                scope.spawn(move || disturb(node, seed + 100, ends));
            }
            followers.push(scope.spawn(move || {
                let mut follower = loop {
                    if let Ok(follower) = Follower::at(&node.store, first_of(&node.store)) {
                        break follower;
                    }
                };
                while !ends.load(SeqCst) {
                    let _ = follower.read();
                }
                follower
            }));
        }
        pass_until(until);
        ends.store(true, SeqCst);
        let written: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        let followers = followers.into_iter().map(|follower| follower.join().unwrap());
        (followers.collect::<Vec<_>>(), written)
    });
    nodes.iter().for_each(|node| node.faults.disarm());
    let last = finish(&nodes[0], 100);
    let mut all = all;
    for follower in &mut all {
        follower.read_to(last);
        let _ = follower.read();
    }
    assert!(all[0].events.len() >= written, "{} of {written}", all[0].events.len());
    assert_eq!(replay(&all[0].events), state(&nodes[0].store));
    for other in &all[1..] {
        assert_eq!(other.events, all[0].events);
    }
    resume(&nodes, &all[0].events);
}

/// The time from which the log has everything.
fn first_of(store: &Store) -> u64 {
    loop {
        if let Ok(Some((first, _))) = store.change_log_window() {
            return first.0;
        }
    }
}

/// A reader that begins at the time of an event sees that one and those behind it, at any node.
fn resume(nodes: &[Node], events: &[Event]) {
    let step = (events.len() / 60).max(1);
    for (number, event) in events.iter().enumerate().step_by(step) {
        let node = &nodes[number % nodes.len()];
        let mut follower = Follower::at(&node.store, event.time).unwrap();
        follower.read().unwrap();
        let first = events.partition_point(|other| other.time < event.time);
        assert_eq!(follower.events, events[first..], "from event {number}");
    }
}

/// A node dies with commits in flight, some of which have taken effect and were never listed.
#[test]
fn what_a_dead_node_has_committed_is_seen_before_what_came_after_it() {
    let engine = Arc::new(Minimal::new());
    let living = Node::open(&engine, 0);
    living.store.create_collection(&name(), Doc::EMPTY).unwrap();
    for round in 0..2_u64 {
        let dying = Node::open(&engine, 1);
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..3 {
                let (dying, ends) = (&dying, &ends);
                scope.spawn(move || write(dying, 70 + 3 * round + writer, ends));
            }
            let (living, ends) = (&living, &ends);
            scope.spawn(move || write(living, 90 + round, ends));
            pass_until(Instant::now() + Duration::from_millis(700));
            // They take effect, and it never learns of that.
            dying.faults.arm(Point::Committed, 0, u64::MAX, || Error::Undetermined);
            dying.faults.arm(Point::Get, 0, u64::MAX, || Error::other("killed"));
            dying.faults.arm(Point::Begin, 6, u64::MAX, || Error::other("killed"));
            (0..200).for_each(|_| thread::yield_now());
            dying.kill();
            (0..200).for_each(|_| thread::yield_now());
            ends.store(true, SeqCst);
        });
        let last = finish(&living, 100 + round as i32);
        let mut follower = Follower::at(&living.store, first_of(&living.store)).unwrap();
        let begun = Instant::now();
        follower.read_to(last);
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(replay(&follower.events), state(&living.store));
        let third = Node::open(&engine, 2);
        let mut other = Follower::at(&third.store, first_of(&third.store)).unwrap();
        other.read_to(last);
        assert_eq!(other.events, follower.events);
    }
}

/// Nodes without writes hold no stream up, nor do those that write only a little.
#[test]
fn a_change_is_seen_soon() {
    let engine = Arc::new(Minimal::new());
    let nodes: Vec<Node> = (0..3).map(|number| Node::open(&engine, number)).collect();
    nodes[0].store.create_collection(&name(), Doc::EMPTY).unwrap();
    let mut times = Vec::new();
    let mut follower = Follower::at(&nodes[2].store, first_of(&nodes[2].store)).unwrap();
    for round in 0..10 {
        let value = finish(&nodes[round % 2], 1000 + round as i32);
        let begun = Instant::now();
        follower.read_to(value);
        times.push(begun.elapsed());
    }
    times.sort();
    assert!(times[5] < Duration::from_secs(1), "{times:?}");
}

#[test]
fn old_changes_are_removed_and_readers_of_them_are_told() {
    let engine = Arc::new(Minimal::new());
    let node = Node::open(&engine, 0);
    node.store.create_collection(&name(), Doc::EMPTY).unwrap();
    let first = first_of(&node.store);
    let old = finish(&node, 1);
    let mut follower = Follower::at(&node.store, first).unwrap();
    follower.read_to(old);
    let parked = Follower::at(&node.store, first).unwrap().position;
    pass(&*engine, 100);
    let new = finish(&node, 2);
    follower.read_to(new);
    let at = follower.events.last().unwrap().time;
    let stored = |from: u8, to: u8| {
        let mut cursor = engine.latest().cursor(Space::Changes, &[from], &[to]).unwrap();
        let (mut count, mut found) = (0, cursor.seek(&[from]).unwrap());
        while found {
            (count, found) = (count + 1, cursor.next().unwrap());
        }
        count
    };
    assert!(stored(0, 16) >= 3);
    while node.store.trim_lists(Duration::from_secs(50)).unwrap() {}
    assert_eq!(stored(0, 16), 1, "the entry of the new one");
    assert_eq!(stored(0x40, 0x41), 1, "its list");
    let lost = "136: entries of the oplog after ";
    assert!(error(Follower::at(&node.store, first).map(drop)).starts_with(lost));
    let mut late = Follower::at(&node.store, at).unwrap();
    late.read().unwrap();
    assert_eq!(late.events.len(), 1);
    late.position = parked;
    assert!(error(late.read()).starts_with(lost));
}

/// A node alone, and its successor.
#[test]
fn a_node_that_takes_over_sees_what_the_other_one_has_committed() {
    let engine = Arc::new(Minimal::new());
    let first = Node::open_as(&engine, "first", NodeMode::Sole);
    first.store.create_collection(&name(), Doc::EMPTY).unwrap();
    let begin = first_of(&first.store);
    for value in 1..20 {
        change(&first.store, value as i32 % 3, value).unwrap();
    }
    first.kill();
    pass(&*engine, 10);
    let second = Node::open_as(&engine, "second", NodeMode::Sole);
    let last = finish(&second, 100);
    let mut follower = Follower::at(&second.store, begin).unwrap();
    follower.read_to(last);
    assert_eq!(follower.events.len(), 20);
    assert_eq!(replay(&follower.events), state(&second.store));
    // Members after it, and a log that not all would write.
    second.store.close().unwrap();
    let member = Node::open(&engine, 0);
    let last = finish(&member, 101);
    let mut follower = Follower::at(&member.store, begin).unwrap();
    follower.read_to(last);
    assert_eq!(follower.events.len(), 21);
    assert_eq!(
        error(Store::open(engine, crate::options()).map(drop)),
        "20: other nodes log the changes of these data: a node that does not cannot share them"
    );
}
