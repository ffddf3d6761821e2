//! Upper limits of the allocations per operation.

use nagi_bson::{DocBuf, Value};
use nagi_store::WriteOptions;
use nagi_testkit::{CountingAllocator, count_allocations};

use crate::support::Fixture;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn document(id: i32) -> DocBuf {
    let text = "x".repeat(1000);
    DocBuf::build(|w| {
        w.put("_id", id);
        w.put("a", id % 100);
        w.put("text", &text);
    })
}

#[test]
fn a_point_read_allocates_nothing() {
    let f = Fixture::new();
    let (collection, doc) = (f.collection(), document(1));
    f.store
        .write(WriteOptions::default(), &mut |txn| txn.insert(&collection, doc.as_doc()))
        .unwrap();
    let mut buf = Vec::new();
    let mut read = || {
        let found = f.store.find_by_id(&collection, Value::Int32(1), &mut buf).unwrap();
        assert_eq!(found.map(|doc| doc.len()), Some(doc.as_doc().len()));
    };
    read();
    let ((), spent) = count_allocations(read);
    assert_eq!(spent.calls, 0);
}

#[test]
fn a_read_through_the_engine_allocates_nothing() {
    let f = Fixture::new();
    let (collection, doc) = (f.collection(), document(1));
    let id = f
        .store
        .write(WriteOptions::default(), &mut |txn| txn.insert(&collection, doc.as_doc()))
        .unwrap()
        .value;
    let mut buf = nagi_store::RecordBuf::default();
    let mut read = || {
        let reader = f.store.latest();
        assert_eq!(reader.find_id(&collection, Value::Int32(1)).unwrap().as_ref(), Some(&id));
        assert!(reader.record(&collection, id.key(), &mut buf).unwrap().is_some());
    };
    read();
    let ((), spent) = count_allocations(read);
    assert_eq!(spent.calls, 0);
}

/// The store's own allocations in addition to those of the memory engine for three keys and a counter.
#[test]
fn an_insert_allocates_little() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a_1'}").unwrap();
    let collection = f.collection();
    let mut id = 0;
    let mut insert = || {
        id += 1;
        let doc = document(id);
        let ((), spent) = count_allocations(|| {
            let insert = f.store.write(WriteOptions::default(), &mut |txn| {
                txn.insert(&collection, doc.as_doc()).map(drop)
            });
            insert.unwrap();
        });
        spent.calls
    };
    for _ in 0..20 {
        insert();
    }
    let calls = insert();
    assert!(calls <= 40, "{calls} allocations an insert");
}
