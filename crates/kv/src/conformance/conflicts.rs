//! Write-write conflicts, locks, waiting.

use std::{sync::Arc, thread};

use super::{Check, begin, commit, conflicts, get, put};
use crate::{Durability, Engine, Space, TxnOptions};

pub(super) static POINTS: &[Check] = &[
    the_second_writer_of_an_open_key_loses,
    a_write_after_a_stale_read_loses,
    a_blind_write_after_a_commit_wins,
    writes_computed_from_the_snapshot_conflict_with_later_commits,
    locks_conflict_like_writes,
    lock_then_get_reads_the_newest,
    a_locked_key_is_read_as_the_newest_commit_or_the_own_write,
    writes_that_belong_to_a_locked_key_commit_with_it,
    an_insert_race_has_one_winner,
    a_rolled_back_write_leaves_no_conflict,
    waiting_ends_with_the_holder,
    the_keys_of_a_clients_transaction_are_known,
];

fn the_keys_of_a_clients_transaction_are_known(engine: &Arc<dyn Engine>) {
    let of_client = TxnOptions { lock_wait_ms: 0, of_client: true };
    let mut held = engine.begin(of_client).expect("begins");
    let mut brief = begin(engine);
    held.put(Space::Records, b"held", b"1").expect("free");
    brief.put(Space::Records, b"brief", b"1").expect("free");
    let known = |key: &[u8]| begin(engine).is_held_by_client(Space::Records, key);
    assert_eq!(known(b"held"), engine.capabilities().conflicts_at_once);
    assert!(!known(b"brief") && !known(b"free"));
    assert!(!held.is_held_by_client(Space::Records, b"held"), "it does not wait for itself");
    commit(held);
    commit(brief);
    assert!(!known(b"held"));
}

fn the_second_writer_of_an_open_key_loses(engine: &Arc<dyn Engine>) {
    let (mut first, mut second) = (begin(engine), begin(engine));
    first.put(Space::Records, b"k", b"1").expect("free");
    let staged = second.put(Space::Records, b"k", b"2");
    let lost = match staged {
        Ok(()) => {
            commit(first);
            conflicts(second.commit(Durability::Buffered))
        }
        error => {
            drop(second);
            commit(first);
            conflicts(error)
        }
    };
    assert!(lost, "two writers of one key cannot both win");
    assert_eq!(get(engine.latest(), Space::Records, b"k").as_deref(), Some(&b"1"[..]));
}

fn a_write_after_a_stale_read_loses(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"k", b"0");
    for delete in [false, true] {
        let mut txn = begin(engine);
        get(&*txn, Space::Records, b"k");
        put(engine, Space::Records, b"k", b"1");
        let staged = match delete {
            false => txn.put(Space::Records, b"k", b"2"),
            true => txn.delete(Space::Records, b"k"),
        };
        assert!(conflicts(staged.and_then(|()| txn.commit(Durability::Buffered))));
        assert_eq!(get(engine.latest(), Space::Records, b"k").as_deref(), Some(&b"1"[..]));
    }
}

fn a_blind_write_after_a_commit_wins(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    put(engine, Space::Records, b"k", b"1");
    txn.put(Space::Records, b"k", b"2").expect("nothing was read");
    commit(txn);
    assert_eq!(get(engine.latest(), Space::Records, b"k").as_deref(), Some(&b"2"[..]));
}

fn writes_computed_from_the_snapshot_conflict_with_later_commits(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"a", b"0");
    put(engine, Space::Records, b"b", b"0");
    let mut txn = begin(engine);
    let snapshot = txn.snapshot().expect("a snapshot");
    put(engine, Space::Records, b"a", b"1");
    assert_eq!(get(&*snapshot, Space::Records, b"a").as_deref(), Some(&b"0"[..]));
    let stale = txn.lock(Space::Records, b"a");
    if !engine.capabilities().conflicts_at_once {
        let committed = stale.and_then(|()| txn.put(Space::Records, b"c", b"2"));
        assert!(conflicts(committed.and_then(|()| txn.commit(Durability::Buffered))));
        return;
    }
    assert!(conflicts(stale), "it was changed since");
    txn.lock(Space::Records, b"b").expect("it was not changed");
    txn.put(Space::Records, b"b", b"2").expect("its own");
    assert_eq!(get(&*snapshot, Space::Records, b"b").as_deref(), Some(&b"0"[..]));
    txn.put(Space::Records, b"c", b"2").expect("a new key");
    drop(snapshot);
    commit(txn);
    assert_eq!(get(engine.latest(), Space::Records, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(engine.latest(), Space::Records, b"b").as_deref(), Some(&b"2"[..]));
}

fn locks_conflict_like_writes(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"a", b"0");
    put(engine, Space::Records, b"b", b"0");
    // Write skew: each transaction reads the key that the other one writes. With locks one of them must fail.
    let (mut first, mut second) = (begin(engine), begin(engine));
    get(&*first, Space::Records, b"a");
    get(&*second, Space::Records, b"b");
    first.lock(Space::Records, b"a").expect("free");
    second.lock(Space::Records, b"b").expect("free");
    let one =
        first.put(Space::Records, b"b", b"1").and_then(|()| first.commit(Durability::Buffered));
    let two =
        second.put(Space::Records, b"a", b"1").and_then(|()| second.commit(Durability::Buffered));
    assert!(conflicts(one) || conflicts(two));
}

fn lock_then_get_reads_the_newest(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    put(engine, Space::Records, b"k", b"1");
    txn.lock(Space::Records, b"k").expect("free");
    assert_eq!(get(&*txn, Space::Records, b"k").as_deref(), Some(&b"1"[..]));
    txn.put(Space::Records, b"k", b"2").expect("locked by us");
    commit(txn);
}

fn a_locked_key_is_read_as_the_newest_commit_or_the_own_write(engine: &Arc<dyn Engine>) {
    let mut txn = begin(engine);
    put(engine, Space::Records, b"k", b"1");
    txn.lock(Space::Records, b"k").expect("nothing was read");
    let mut buf = Vec::new();
    let locked = |txn: &dyn crate::Txn, buf: &mut Vec<u8>| {
        txn.get_locked(Space::Records, b"k", buf).expect("reads").map(<[u8]>::to_vec)
    };
    assert_eq!(locked(&*txn, &mut buf).as_deref(), Some(&b"1"[..]));
    txn.put(Space::Records, b"k", b"2").expect("locked");
    assert_eq!(locked(&*txn, &mut buf).as_deref(), Some(&b"2"[..]));
    txn.delete(Space::Records, b"k").expect("locked");
    assert_eq!(locked(&*txn, &mut buf), None);
    commit(txn);
    // After a stale read, either the lock is refused, or the old value is read and the commit is refused: the newest
    // commit is never read beside an older snapshot.
    let mut stale = begin(engine);
    get(&*stale, Space::Records, b"other");
    put(engine, Space::Records, b"k", b"3");
    let refused = stale.lock(Space::Records, b"k");
    if engine.capabilities().conflicts_at_once {
        assert!(conflicts(refused));
    } else if refused.is_ok() {
        assert_eq!(locked(&*stale, &mut buf), None, "as before");
        stale.put(Space::Records, b"other", b"3").expect("staged");
        assert!(conflicts(stale.commit(Durability::Buffered)));
    }
}

fn writes_that_belong_to_a_locked_key_commit_with_it(engine: &Arc<dyn Engine>) {
    let mut first = begin(engine);
    first.put(Space::Records, b"r", b"1").expect("free");
    first.put_exclusive(Space::Index, b"x r", b"").expect("belongs to r");
    let savepoint = first.savepoint();
    first.put_exclusive(Space::Index, b"y r", b"").expect("belongs to r");
    first.rollback_to(savepoint);
    assert_eq!(get(&*first, Space::Index, b"x r").as_deref(), Some(&b""[..]));
    assert_eq!(get(engine.latest(), Space::Index, b"x r"), None);
    commit(first);
    assert_eq!(get(engine.latest(), Space::Index, b"x r").as_deref(), Some(&b""[..]));
    assert_eq!(get(engine.latest(), Space::Index, b"y r"), None);
    let mut second = begin(engine);
    second.put(Space::Records, b"r", b"2").expect("free again");
    second.delete_exclusive(Space::Index, b"x r").expect("belongs to r");
    commit(second);
    assert_eq!(get(engine.latest(), Space::Index, b"x r"), None);
}

fn an_insert_race_has_one_winner(engine: &Arc<dyn Engine>) {
    // The steps of inserting a unique key: read that it is absent, then put.
    let winners: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u8)
            .map(|n| {
                scope.spawn(move || {
                    (0..200_u32)
                        .filter(|key| {
                            let mut txn = begin(engine);
                            let key = key.to_be_bytes();
                            get(&*txn, Space::Index, &key).is_none()
                                && txn.put(Space::Index, &key, &[n]).is_ok()
                                && txn.commit(Durability::Buffered).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(winners <= 200, "a unique key was inserted twice");
}

fn a_rolled_back_write_leaves_no_conflict(engine: &Arc<dyn Engine>) {
    let reader = begin(engine);
    get(&*reader, Space::Records, b"k");
    let mut txn = begin(engine);
    txn.put(Space::Records, b"k", b"1").expect("free");
    drop(txn);
    let mut reader = reader;
    reader.put(Space::Records, b"k", b"2").expect("no transaction committed");
    commit(reader);
}

fn waiting_ends_with_the_holder(engine: &Arc<dyn Engine>) {
    let mut holder = begin(engine);
    holder.put(Space::Records, b"k", b"1").expect("free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut txn = engine
                .begin(TxnOptions { lock_wait_ms: 60_000, ..TxnOptions::default() })
                .expect("begins");
            txn.put(Space::Records, b"k", b"2").expect("waits until the key is free");
            commit(txn)
        });
        let held = holder.commit(Durability::Buffered);
        let waited = waiter.join().expect("no panic");
        match held {
            Ok(first) => assert!(waited > first.0),
            // The waiting transaction was first.
            held => assert!(!engine.capabilities().conflicts_at_once && conflicts(held)),
        }
    });
    assert_eq!(get(engine.latest(), Space::Records, b"k").as_deref(), Some(&b"2"[..]));
}
