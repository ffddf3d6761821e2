//! Capped collections with many writers: the limits hold, and a tailing reader misses no document.

use std::time::{Duration, Instant};

use nagi_store::{Namespace, RecordId, WriteOptions};

use crate::support::{Done, Fixture, parse};

const WRITER_COUNT: i32 = 4;
const DOC_COUNT: i32 = 200;

fn fixture(options: &str) -> Fixture {
    let mut f = Fixture::new();
    f.namespace = Namespace::parse("d.capped").unwrap();
    f.store.create_collection(&f.namespace, parse(options).as_doc()).unwrap();
    f
}

/// Reads the records after `last` and updates `last` to the newest one.
fn follow(f: &Fixture, last: &mut RecordId, seen: &mut Vec<(i32, i32)>) {
    let collection = f.collection();
    let mut scan = f.store.latest().scan(&collection, true).unwrap();
    scan.resume_after(last.key());
    while scan.advance().unwrap() {
        *last = scan.id().to_id();
        let number = |name: &str| scan.doc().get(name).to_string().parse().unwrap();
        seen.push((number("writer"), number("n")));
    }
}

#[test]
fn a_follower_sees_every_insert_in_order() {
    let f = fixture("{capped: true, size: 10000000}");
    let arrivals = f.collection().arrivals().clone();
    let done = Done::default();
    let seen = std::thread::scope(|scope| {
        let over = done.guard();
        let follower = scope.spawn(|| {
            let (mut last, mut seen) = (RecordId::Id(0), Vec::new());
            while seen.len() < (WRITER_COUNT * DOC_COUNT) as usize && !done.is_over() {
                let version = arrivals.version();
                follow(&f, &mut last, &mut seen);
                let until = Instant::now() + Duration::from_secs(5);
                if seen.len() < (WRITER_COUNT * DOC_COUNT) as usize {
                    arrivals.wait_beyond(version, until, &|| Ok(())).unwrap();
                }
            }
            seen
        });
        let writers: Vec<_> = (0..WRITER_COUNT)
            .map(|writer| {
                let f = &f;
                scope.spawn(move || {
                    for n in 0..DOC_COUNT {
                        f.insert(&format!("{{writer: {writer}, n: {n}}}")).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let seen = follower.join().unwrap();
        drop(over);
        seen
    });
    for writer in 0..WRITER_COUNT {
        let own: Vec<i32> = seen.iter().filter(|s| s.0 == writer).map(|s| s.1).collect();
        assert_eq!(own, (0..DOC_COUNT).collect::<Vec<_>>());
    }
    f.check_valid();
}

#[test]
fn limits_hold_under_many_writers_and_after_a_reopening() {
    let mut f = fixture("{capped: true, size: 4096, max: 7}");
    f.index("{key: {n: 1}, name: 'n'}").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITER_COUNT {
            let f = &f;
            scope.spawn(move || {
                for n in 0..DOC_COUNT {
                    f.insert(&format!("{{writer: {writer}, n: {n}}}")).unwrap();
                    assert!(f.collection().count() <= 7);
                }
            });
        }
    });
    assert_eq!(f.collection().count(), 7);
    f.check_valid();
    f.reopen();
    f.insert("{writer: 9, n: 1}").unwrap();
    assert_eq!(f.collection().count(), 7);
    f.check_valid();
}

#[test]
fn a_failed_statement_brings_back_what_it_pushed_out() {
    let f = fixture("{capped: true, size: 4096, max: 2}");
    f.insert("{_id: 1}").unwrap();
    f.insert("{_id: 2}").unwrap();
    let collection = f.collection();
    let (third, second) = (parse("{_id: 3}"), parse("{_id: 2}"));
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            let failed = txn.attempt(|txn| {
                txn.insert(&collection, third.as_doc())?;
                txn.insert(&collection, second.as_doc())
            });
            assert_eq!(failed.unwrap_err().code().0, 11000);
            Ok(())
        })
        .unwrap();
    assert_eq!(f.docs(), "{ _id: 1 } { _id: 2 }");
    f.insert("{_id: 3}").unwrap();
    assert_eq!(f.docs(), "{ _id: 2 } { _id: 3 }");
    f.check_valid();
}

#[test]
fn what_becomes_capped_is_trimmed_at_once() {
    let f = Fixture::new();
    f.index("{key: {n: 1}, name: 'n'}").unwrap();
    for id in 0..3000 {
        f.insert(&format!("{{_id: {id}, n: {id}}}")).unwrap();
    }
    let before = f.collection().uuid;
    let options = parse("{capped: true, size: 4096}");
    f.store.convert_to_capped(&f.namespace, options.as_doc(), &|| Ok(())).unwrap();
    let collection = f.collection();
    assert!(collection.data_bytes() <= 4096 && collection.data_bytes() > 4000);
    assert_eq!(collection.indexes.len(), 1);
    assert_ne!(collection.uuid, before);
    f.check_valid();
}
