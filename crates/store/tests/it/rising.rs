//! Ascending `_id`s need no lookup; a duplicate of any kind is refused nevertheless.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use nagi_store::WriteOptions;

use crate::{
    random::Random,
    support::{Fixture, error, parse},
};

const TAKEN: &str = "11000";

fn is_refused(f: &Fixture, id: &str) -> bool {
    error(f.insert(&format!("{{_id: {id}}}"))).starts_with(TAKEN)
}

#[test]
fn what_is_there_is_refused_above_and_below() {
    let mut f = Fixture::new();
    for id in ["1", "2", "'b'", "{a: 1}"] {
        f.insert(&format!("{{_id: {id}}}")).unwrap();
        assert!(is_refused(&f, id), "{id} at once");
    }
    f.insert("{_id: 1.5}").unwrap();
    // After a reopening only the engine's contents are known.
    f.reopen();
    assert!(is_refused(&f, "{a: 1}"), "the last one");
    f.reopen();
    assert!(is_refused(&f, "2.0") && is_refused(&f, "1.5"), "others");
    f.insert("{_id: {a: 2}}").unwrap();
    assert!(is_refused(&f, "{a: 2}"));
    f.check_valid();
}

#[test]
fn a_key_of_a_transaction_that_was_taken_back_is_free() {
    let f = Fixture::new();
    let (collection, doc) = (f.collection(), parse("{_id: 9}"));
    let undone = f.store.write::<()>(WriteOptions::default(), &mut |txn| {
        txn.insert(&collection, doc.as_doc())?;
        nagi_error::bail!(nagi_error::Code::BAD_VALUE, "taken back")
    });
    assert!(undone.is_err());
    f.insert("{_id: 9}").unwrap();
    assert!(is_refused(&f, "9"));
    f.check_valid();
}

#[test]
fn indexes_built_again_refuse_as_before() {
    let f = Fixture::new();
    for id in 1..50 {
        f.insert(&format!("{{_id: {id}}}")).unwrap();
    }
    f.store.reindex(&f.namespace, nagi_store::BuildOptions::default()).unwrap();
    assert!(is_refused(&f, "49"));
    f.insert("{_id: 50}").unwrap();
    assert!(is_refused(&f, "50") && is_refused(&f, "49"));
    f.check_valid();
}

/// Threads insert the same ascending ids: each id is inserted once.
#[test]
fn of_many_who_insert_one_id_one_does() {
    const IDS: i64 = 300;
    let f = Fixture::new();
    let inserted = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (f, inserted) = (&f, &inserted);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for id in 0..IDS {
                    // A few are out of order.
                    let id = (id - random.below(3) as i64).max(0);
                    match f.insert(&format!("{{_id: {id}}}")) {
                        Ok(_) => _ = inserted.fetch_add(1, Relaxed),
                        Err(refused) => assert_eq!(refused.code().0, 11000, "{refused}"),
                    }
                }
            });
        }
    });
    assert_eq!(inserted.load(Relaxed), f.collection().count());
    f.check_valid();
}
