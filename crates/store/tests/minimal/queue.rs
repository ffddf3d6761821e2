//! Writers of one record that retry take turns, although the engine knows no holders of keys.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
};

use nagi_bson::{Value, doc};
use nagi_error::Result;
use nagi_store::{RecordBuf, Store, WriteOptions, WriteTxn};

use crate::support::Fixture;

/// Adds one to the document. `during` is called with the number of the attempt, before its commit.
fn add_one(f: &Fixture, store: &Store, options: WriteOptions<'_>, during: &dyn Fn(u32)) {
    let collection = f.collection();
    let attempts = Cell::new(0);
    let add = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
        let id = txn.reader().find_id(&collection, Value::Int32(1))?.unwrap();
        let mut buf = RecordBuf::default();
        let old = txn.reader().record(&collection, id.key(), &mut buf)?.unwrap().to_buf();
        let Value::Int32(value) = old.get("v") else { panic!("{old:?}") };
        let new = doc! { "_id": 1, "v": value + 1 };
        txn.update(&collection, id.key(), old.as_doc(), new.as_doc())?;
        during(attempts.replace(attempts.get() + 1));
        Ok(())
    };
    store.write(options, add).unwrap();
}

#[test]
fn a_writer_that_has_lost_waits_for_the_turn_of_another_one_that_has() {
    let f = Fixture::new();
    f.insert("{_id: 1, v: 0}").unwrap();
    let (polls, goes_on, has_lost) =
        (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let other = |f: &Fixture| add_one(f, &f.store.for_client(), WriteOptions::default(), &|_| ());
    let second = |f: &Fixture| {
        let interrupt = || -> Result<()> {
            polls.fetch_add(usize::from(has_lost.load(SeqCst)), SeqCst);
            Ok(())
        };
        let options = WriteOptions { interrupt: Some(&interrupt), ..WriteOptions::default() };
        add_one(f, &f.store.for_client(), options, &|attempt| match attempt {
            0 => {
                other(f);
                has_lost.store(true, SeqCst);
            }
            _ => goes_on.store(true, SeqCst),
        });
    };
    thread::scope(|scope| {
        add_one(&f, &f.store, WriteOptions::default(), &|attempt| match attempt {
            0 => other(&f),
            1 => {
                let (f, second) = (&f, &second);
                let second = scope.spawn(move || second(f));
                // It polls its interrupt once after the conflict, and then again and again as it waits.
                while polls.load(SeqCst) < 4 {
                    assert!(!goes_on.load(SeqCst) && !second.is_finished(), "it did not wait");
                    thread::yield_now();
                }
            }
            // The other one's first attempt was a conflict for this one, too.
            _ => {}
        });
    });
    assert!(goes_on.load(SeqCst));
    assert_eq!(f.docs(), "{ _id: 1, v: 4 }");
    f.check_valid();
}
