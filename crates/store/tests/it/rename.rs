//! A rename across databases copies while others write: nothing that was acknowledged is lost.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use nagi_error::{Code, Result, err};
use nagi_store::{Namespace, WriteOptions};

use crate::support::{Fixture, parse};

fn insert(f: &Fixture, id: usize, options: WriteOptions<'_>) -> Result<()> {
    let doc = parse(&format!("{{_id: {id}}}"));
    let Some(collection) = f.store.collection(&f.namespace) else {
        return Err(err!(Code::QUERY_PLAN_KILLED, "gone"));
    };
    f.store.write(options, &mut |txn| txn.insert(&collection, doc.as_doc()).map(drop))
}

#[test]
fn what_was_acknowledged_is_in_the_copy() {
    let f = Fixture::new();
    f.store.collection_or_create(&f.namespace).unwrap();
    let target = Namespace::parse("other.c").unwrap();
    let acknowledged = [AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        for (writer, count) in acknowledged.iter().enumerate() {
            let f = &f;
            scope.spawn(move || {
                loop {
                    let id = count.load(SeqCst) * 2 + writer;
                    match insert(f, id, WriteOptions::default()) {
                        Ok(()) => count.fetch_add(1, SeqCst),
                        Err(error) => {
                            assert_eq!(error.code(), Code::QUERY_PLAN_KILLED, "{error}");
                            return;
                        }
                    };
                }
            });
        }
        while acknowledged.iter().any(|count| count.load(SeqCst) < 300) {
            std::thread::yield_now();
        }
        f.store.rename_collection(&f.namespace, &target, false, false, &|| Ok(())).unwrap();
    });
    let copy = f.store.collection(&target).unwrap();
    let all: usize = acknowledged.iter().map(|count| count.load(SeqCst)).sum();
    assert_eq!(copy.count() as usize, all);
    assert_eq!(f.store.validate(&copy).unwrap().errors, Vec::<String>::new());
}

#[test]
fn writers_wait_for_the_copy_and_go_on_when_it_ends_early() {
    let f = Fixture::new();
    f.store.collection_or_create(&f.namespace).unwrap();
    (0..100).for_each(|id| insert(&f, id, WriteOptions::default()).unwrap());
    let stop = || Err(err!(Code::INTERRUPTED, "operation was interrupted"));
    let asked = Cell::new(0);
    let thrice = || {
        asked.set(asked.get() + 1);
        if asked.get() < 3 { Ok(()) } else { stop() }
    };
    let meanwhile = || {
        let options = WriteOptions { interrupt: Some(&thrice), ..WriteOptions::default() };
        assert_eq!(insert(&f, 500, options).unwrap_err().code(), Code::INTERRUPTED);
        stop()
    };
    let target = Namespace::parse("other.c").unwrap();
    let failed = f.store.rename_collection(&f.namespace, &target, false, false, &meanwhile);
    assert_eq!(failed.unwrap_err().code(), Code::INTERRUPTED);
    assert_eq!(asked.get(), 3);
    insert(&f, 500, WriteOptions::default()).unwrap();
    assert_eq!(f.collection().count(), 101);
    assert_eq!(f.store.catalog().iter().count(), 1);
}
