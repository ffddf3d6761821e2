//! Documents that servers have in memory: each node reads them anew before a change is answered. And what nodes know of
//! each other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Value, doc, number};
use nagi_error::Code;
use nagi_kv::{Durability, Engine, Minimal, Point, Space, TxnOptions};
use nagi_store::{Lifetime, Namespace, Store, Transaction, WriteOptions, WriteTxn};

use crate::{
    changes::{Mortal, insert},
    several::open,
};

fn settings() -> Namespace {
    Namespace::parse("config.settings").unwrap()
}

/// The value in the memory of a server: that of the document `_id: 0`, or -1.
#[derive(Default)]
struct Memory {
    value: AtomicI32,
    readings: AtomicU32,
    fails: AtomicBool,
}

impl Memory {
    fn follow(store: &Arc<Store>) -> Arc<Memory> {
        let memory = Arc::<Memory>::default();
        let (weak, own) = (Arc::downgrade(store), Arc::clone(&memory));
        let reread = move || {
            if own.fails.load(SeqCst) {
                return Err(nagi_error::Error::new(Code::HOST_UNREACHABLE, "not now"));
            }
            own.readings.fetch_add(1, SeqCst);
            own.value.store(weak.upgrade().map_or(-1, |store| stored(&store)), SeqCst);
            Ok(())
        };
        store.on_changed_settings(reread).unwrap();
        memory
    }

    fn value(&self) -> i32 {
        self.value.load(SeqCst)
    }
}

fn stored(store: &Store) -> i32 {
    let Some(collection) = store.collection(&settings()) else { return -1 };
    let mut buf = Vec::new();
    let found = store.find_by_id(&collection, Value::Int32(0), &mut buf).unwrap();
    let value = found.and_then(|doc| number::truncate_to_i64(doc.get("v")));
    value.map_or(-1, |value| i32::try_from(value).unwrap())
}

fn set(store: &Store, value: i32) -> nagi_error::Result<()> {
    let collection = store.collection_or_create(&settings())?;
    let set = &mut |txn: &mut WriteTxn<'_>| change(txn, &collection, value);
    store.write(WriteOptions::default(), set).map(drop)
}

fn change(
    txn: &mut WriteTxn<'_>,
    collection: &nagi_store::Collection,
    value: i32,
) -> nagi_error::Result<()> {
    let new = doc! { "_id": 0, "v": value };
    let Some(record) = txn.reader().find_id(collection, Value::Int32(0))? else {
        return txn.insert(collection, new.as_doc()).map(drop);
    };
    let mut buf = nagi_store::RecordBuf::default();
    let old = txn.reader().record(collection, record.key(), &mut buf)?.unwrap().to_buf();
    txn.update(collection, record.key(), old.as_doc(), new.as_doc()).map(drop)
}

#[test]
fn every_node_has_read_what_was_changed_when_it_is_answered() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1), open(&engine, 2)];
    let memories = nodes.each_ref().map(Memory::follow);
    for value in 0..9 {
        set(&nodes[value as usize % 3], value).unwrap();
        assert_eq!(memories.each_ref().map(|memory| memory.value()), [value; 3]);
    }
    // Of transactions of clients, too.
    let collection = nodes[1].collection(&settings()).unwrap();
    let txn = Transaction::begin(&nodes[1], Lifetime::Long).unwrap();
    let set = &mut |txn: &mut WriteTxn<'_>| change(txn, &collection, 20);
    txn.store().write(WriteOptions::default(), set).unwrap();
    assert_eq!(memories[0].value(), 8);
    txn.commit(nagi_store::Durability::Buffered).unwrap();
    assert_eq!(memories.each_ref().map(|memory| memory.value()), [20; 3]);
    let readings = memories[0].readings.load(SeqCst);
    // Other documents are none of these.
    insert(&nodes[0], &Namespace::parse("d.settings").unwrap(), &doc! { "_id": 0 }).unwrap();
    assert_eq!(memories[0].readings.load(SeqCst), readings);
    nodes[2].drop_collection(&settings()).unwrap();
    assert_eq!(memories.each_ref().map(|memory| memory.value()), [-1; 3]);
}

#[test]
fn changes_at_several_nodes_at_once_end_with_the_last_one_everywhere() {
    const EACH: i32 = 40;
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    let memories = nodes.each_ref().map(Memory::follow);
    set(&nodes[0], 0).unwrap();
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                (0..EACH).for_each(|n| set(node, 2 * n + number as i32).unwrap());
            });
        }
    });
    let last = stored(&nodes[0]);
    assert!([2 * EACH - 2, 2 * EACH - 1].contains(&last), "{last}");
    assert_eq!(memories.each_ref().map(|memory| memory.value()), [last; 2]);
}

/// A node that cannot read is waited for; one that comes later knows what was changed before.
#[test]
fn a_node_that_cannot_read_its_settings_is_waited_for() {
    let engine = Arc::new(Minimal::new());
    let (first, second) = (open(&engine, 0), open(&engine, 1));
    let late = Memory::follow(&second);
    set(&first, 1).unwrap();
    late.fails.store(true, SeqCst);
    thread::scope(|scope| {
        let setting = scope.spawn(|| set(&first, 2));
        // It is committed, and not answered.
        let end = Instant::now() + Duration::from_secs(20);
        while stored(&second) != 2 {
            assert!(Instant::now() < end, "not committed");
            thread::yield_now();
        }
        assert_eq!((late.value(), setting.is_finished()), (1, false));
        late.fails.store(false, SeqCst);
        setting.join().unwrap().unwrap();
    });
    assert_eq!(late.value(), 2);
    let third = open(&engine, 2);
    assert_eq!(Memory::follow(&third).value(), 2);
}

#[test]
fn a_node_that_has_died_is_waited_for_as_long_as_its_lease() {
    let engine = Arc::new(Minimal::new());
    let living = open(&engine, 0);
    let dying = Mortal::open(&engine, "dying");
    let memory = Memory::follow(&living);
    set(&living, 1).unwrap();
    dying.kill();
    let begun = Instant::now();
    set(&living, 2).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(memory.value(), 2);
    assert_eq!(living.nodes().unwrap().unwrap().len(), 1);
}

/// The outcome of the commit is not known at first: whatever became of it, each node has the stored value.
#[test]
fn a_commit_without_an_answer_leaves_no_node_behind() {
    let engine = Arc::new(Minimal::new());
    let other = open(&engine, 0);
    let node = Mortal::open(&engine, "node");
    let memories = [Memory::follow(&node.store), Memory::follow(&other)];
    set(&other, 1).unwrap();
    for (n, point) in [Point::Committed, Point::Commit].into_iter().enumerate() {
        node.faults.arm(point, 0, 1, || nagi_kv::Error::Undetermined);
        let value = 10 + n as i32;
        // The fence tells at once; a failure is repeated.
        set(&node.store, value).unwrap();
        assert_eq!(memories.each_ref().map(|memory| memory.value()), [value; 2]);
    }
}

/// Servers of an older version would not understand what a newer one writes.
#[test]
fn a_format_is_not_raised_while_another_node_uses_the_data() {
    let engine = Arc::new(Minimal::new());
    let first = open(&engine, 0);
    let key = [1, 0, 0, 0, 0];
    let stored = |format: u32| {
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        txn.put(Space::Catalog, &key, &format.to_le_bytes()).unwrap();
        txn.commit(Durability::Synced).unwrap();
    };
    stored(3);
    let error = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, crate::options()).err();
    let error = error.expect("refused");
    assert!(error.message().contains("and server node 0 still uses them"), "{error}");
    first.close().unwrap();
    drop(first);
    let alone = open(&engine, 1);
    let mut buf = Vec::new();
    let raised = engine.latest().get(Space::Catalog, &key, &mut buf).unwrap();
    assert_ne!(raised, Some(&3_u32.to_le_bytes()[..]));
    // Those of its own version may share them.
    drop((alone, open(&engine, 2)));
}

#[test]
fn nodes_know_each_other() {
    let engine = Arc::new(Minimal::new());
    let (first, second) = (open(&engine, 0), open(&engine, 1));
    second.describe_node(doc! { "host": "second:1" }.as_doc()).unwrap();
    let nodes = first.nodes().unwrap().unwrap();
    let shown: Vec<_> = nodes
        .iter()
        .map(|node| (node.seat, node.name.as_str(), node.is_own, node.about.get("host").as_str()))
        .collect();
    assert_eq!(shown, [(0, "node 0", true, None), (1, "node 1", false, Some("second:1"))]);
    assert!(nodes.iter().all(|node| node.renewed_ms > 1_700_000_000_000), "{nodes:?}");
    assert!(first.shares_data());
    second.close().unwrap();
    assert_eq!(first.nodes().unwrap().unwrap().len(), 1);
    let alone =
        Store::open(Arc::new(nagi_kv::Memory::new()), nagi_store::StoreOptions::default()).unwrap();
    assert!(alone.nodes().unwrap().is_none() && alone.does_work_for_all() && !alone.shares_data());
}
