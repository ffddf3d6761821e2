//! Clustered collections: the number of record reads in the engine, and the handling of record keys.

use std::sync::Arc;

use nagi_bson::Value;
use nagi_kv::{Error, Faults, Faulty, Memory, Point};
use nagi_query::{
    FindRequest,
    limits::{QueryOptions, StageMemory},
};
use nagi_store::{Namespace, RecordKey, Store, StoreOptions, keystring};

use crate::fixture::{Fixture, doc};

const OPTIONS: &str = "{clusteredIndex: {key: {_id: 1}, unique: true}}";

fn faulty(options: &str) -> (Fixture, Faults) {
    let faults = Faults::default();
    let engine = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    let store = Store::open(engine, StoreOptions::default()).unwrap();
    let fixture = Fixture { store, ns: Namespace::new("test", "c").unwrap() };
    fixture.create("c", doc(options).as_doc()).unwrap();
    for id in 0..50 {
        fixture.insert(&format!("{{_id: 'id {id:02}', a: {}}}", id % 7)).unwrap();
    }
    fixture.index("{key: {a: 1}, name: 'a'}");
    (fixture, faults)
}

/// The number of documents that a filter finds, if `gets` reads of single records succeed.
fn found(options: &str, filter: &str, gets: u64) -> Result<usize, String> {
    let (fixture, faults) = faulty(options);
    let filter = doc(filter);
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(&fixture.ns) };
    faults.arm(Point::Get, gets, u64::MAX, || Error::other("one read too many"));
    fixture.find(&request).map(|docs| docs.len()).map_err(|error| error.message().to_owned())
}

#[test]
fn an_id_is_found_by_one_read_and_a_range_without_any() {
    let (range, id) = ("{_id: {$gte: 'id 10', $lt: 'id 30'}}", "{_id: 'id 30'}");
    assert_eq!(found(OPTIONS, range, 0), Ok(20));
    assert_eq!(found(OPTIONS, "{}", 0), Ok(50));
    assert_eq!(found(OPTIONS, id, 1), Ok(1));
    assert!(found(OPTIONS, id, 0).is_err());
    // Other collections first search the index on `_id`, and then read the records.
    assert!(found("{}", id, 1).is_err() && found("{}", range, 0).is_err());
    assert_eq!(found("{}", id, 2), Ok(1));
    // Another index leads to records that have to be read.
    assert!(found(OPTIONS, "{a: 3}", 0).is_err());
    assert_eq!(found(OPTIONS, "{a: 3}", 50), Ok(7));
}

#[test]
fn a_sort_on_disk_keeps_record_keys() {
    let fixture = Fixture::clustered(false);
    for id in 0..400 {
        let (id, text) = ("i".repeat(id % 300) + &id.to_string(), "x".repeat(500));
        fixture.insert(&format!("{{_id: '{id}', a: {}, t: '{text}'}}", id.len() % 10)).unwrap();
    }
    let sort = doc("{a: 1, t: 1}");
    let memory = StageMemory::all(20 << 10);
    let options = QueryOptions { memory, allow_disk_use: true, ..QueryOptions::DEFAULT };
    let request = FindRequest {
        sort: sort.as_doc(),
        show_record_id: true,
        options,
        ..FindRequest::new(&fixture.ns)
    };
    let docs = fixture.find(&request).unwrap();
    assert_eq!(docs.len(), 400);
    assert!(fixture.store.spill_figures().runs > 0, "memory is too small for them");
    for doc in docs {
        let mut key = Vec::new();
        keystring::append(doc.get("_id"), false, &mut key);
        let shown = RecordKey::of_value(doc.get("$recordId"));
        assert_eq!(shown, Some(RecordKey::Key(&key)));
        assert!(matches!(doc.get("$recordId"), Value::Binary(_)));
    }
}
