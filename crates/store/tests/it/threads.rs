//! Many threads on few documents with concurrent DDL: no lost update, no stale read.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use nagi_bson::{Doc, Value, number};
use nagi_error::{Code, Result};
use nagi_store::{IndexSelector, Namespace, WriteOptions};

use crate::{
    random::Random,
    support::{Done, Fixture, parse},
};

const DOC_COUNT: usize = 3;

/// Adds one to `n` of a document; returns the new value.
fn increment(f: &Fixture, id: i32) -> Result<i64> {
    let written = f.store.write(WriteOptions::default(), &mut |txn| {
        let collection = txn.collection(&f.namespace).unwrap();
        let record = txn.reader().find_id(&collection, id.into())?.unwrap();
        let mut buf = nagi_store::RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
        let n = number::truncate_to_i64(old.get("n")).unwrap() + 1;
        let new = parse(&format!("{{_id: {id}, n: {n}}}"));
        txn.update(&collection, record.key(), old.as_doc(), new.as_doc())?;
        Ok(n)
    })?;
    Ok(written.value)
}

#[test]
fn nothing_is_lost_and_nothing_stale_is_read() {
    let f = Fixture::new();
    f.index("{key: {n: 1}, name: 'n'}").unwrap();
    (0..DOC_COUNT).for_each(|id| {
        f.insert(&format!("{{_id: {id}, n: 0}}")).unwrap();
    });
    let acknowledged: [AtomicI64; DOC_COUNT] = Default::default();
    let done = Done::default();
    std::thread::scope(|scope| {
        let over = done.guard();
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (f, done, acknowledged) = (&f, &done, &acknowledged);
                scope.spawn(move || read_until(f, done, acknowledged, seed))
            })
            .collect();
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                let (f, acknowledged) = (&f, &acknowledged);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..300 {
                        let id = random.below(DOC_COUNT as u64) as usize;
                        let n = increment(f, id as i32).unwrap();
                        acknowledged[id].fetch_max(n, SeqCst);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        drop(over);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(acknowledged.iter().map(|n| n.load(SeqCst)).sum::<i64>(), 900);
    f.check_valid();
}

fn read_until(f: &Fixture, done: &Done, acknowledged: &[AtomicI64; DOC_COUNT], seed: u64) {
    let mut random = Random::new(seed);
    let (collection, mut buf) = (f.collection(), Vec::new());
    while !done.is_over() {
        let id = random.below(DOC_COUNT as u64) as usize;
        let before = acknowledged[id].load(SeqCst);
        let doc = f.store.find_by_id(&collection, Value::Int32(id as i32), &mut buf).unwrap();
        let n = number::truncate_to_i64(doc.unwrap().get("n")).unwrap();
        assert!(n >= before, "document {id}: {n} was read after {before} was acknowledged");
    }
}

/// Collections are dropped, created and indexed while other threads insert; the final state must be valid.
#[test]
fn writers_and_ddl_get_along() {
    let f = Fixture::new();
    let done = Done::default();
    std::thread::scope(|scope| {
        let over = done.guard();
        for seed in 0..3 {
            let (f, done) = (&f, &done);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !done.is_over() {
                    insert_anyhow(f, &mut random);
                }
            });
        }
        for round in 0..40 {
            match round % 4 {
                0 => drop(f.index("{key: {a: 1}, name: 'a'}").unwrap()),
                1 => drop(f.index("{key: {b: -1, a: 1}, name: 'b'}").unwrap()),
                2 => drop(f.store.drop_indexes(&f.namespace, IndexSelector::Name("a"))),
                _ => drop(f.store.drop_collection(&f.namespace).unwrap()),
            }
            f.store.collection_or_create(&f.namespace).unwrap();
        }
        drop(over);
    });
    f.store.create_collection(&Namespace::parse("d.other").unwrap(), Doc::EMPTY).unwrap();
    f.check_valid();
}

fn insert_anyhow(f: &Fixture, random: &mut Random) {
    let doc = parse(&format!("{{a: {}, b: [1, {}]}}", random.below(9), random.below(9)));
    let inserted =
        f.store.write(WriteOptions::default(), &mut |txn| match txn.collection(&f.namespace) {
            Some(collection) => txn.insert(&collection, doc.as_doc()).map(drop),
            None => Ok(()),
        });
    if let Err(error) = inserted {
        assert_eq!(error.code(), Code::QUERY_PLAN_KILLED, "{error}");
    }
}
