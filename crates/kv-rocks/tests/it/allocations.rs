//! Pins the number of allocations on hot paths (RocksDB's own are not counted).

use nagi_kv::{Durability, Space, TxnOptions};
use nagi_testkit::count_allocations;

use crate::{Scratch, open_at};

#[test]
fn hot_paths_do_not_allocate() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    let write = |number: u64| {
        let key = number.to_be_bytes();
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, &key, &[1; 1000]).expect("free");
        txn.put(Space::Index, &key, &[]).expect("free");
        txn.add(Space::Counters, b"c", &[1, 1000]).expect("adds");
        txn.commit(Durability::Buffered).expect("commits");
    };
    (1..100).for_each(write);
    let ((), spent) = count_allocations(|| (100..200).for_each(write));
    // The box of the transaction; from time to time a conflict table grows.
    assert!(spent.calls <= 110, "{} allocations in 100 commits", spent.calls);

    let mut buf = Vec::new();
    let mut read = |number: u64| {
        let value = engine.latest().get(Space::Records, &number.to_be_bytes(), &mut buf);
        assert_eq!(value.expect("reads").map(<[u8]>::len), Some(1000));
    };
    read(1);
    let ((), spent) = count_allocations(|| (1..200).for_each(read));
    assert_eq!(spent.calls, 0, "a point read into a warm buffer allocates nothing");

    let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
    let (count, spent) = count_allocations(|| {
        let mut count = 0;
        let mut found = cursor.seek(&[]).expect("seeks");
        while found {
            count += cursor.key().len() + cursor.value().len();
            found = cursor.next().expect("moves");
        }
        count
    });
    assert_eq!((count, spent.calls), (199 * 1008, 0), "a scan allocates nothing");
}
