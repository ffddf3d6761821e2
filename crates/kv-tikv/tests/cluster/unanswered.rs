//! Commits over two regions whose answers are lost: either all keys are there or none, and the engine knows which.

use std::{sync::Arc, time::Duration};

use nagi_kv::{Durability, Engine, Error, Result, Space, TxnOptions};
use nagi_kv_tikv::{Options, open};

use crate::cluster::{Muted, get, new_prefix, node, options, put, split, stat};

const KEYS: [&[u8]; 2] = [b"a", b"z"];

/// Two nodes over two regions with a key each: one that gives up soon, and one that waits for locks.
fn over_two_regions() -> [Arc<dyn Engine>; 2] {
    let prefix = new_prefix();
    let hasty = Options { call_timeout: Duration::from_secs(3), ..options(&prefix) };
    let (hasty, patient) = (open(&hasty).expect("opens"), node(&prefix));
    put(&*patient, Space::Index, b"m", b"");
    // The stored key: see the layout in docs/decisions/096.
    split(&[prefix.as_bytes(), &[0, 1, 2], b"m"].concat());
    write(&*patient, b"old").expect("commits");
    [hasty, patient]
}

/// Writes both keys in a transaction.
fn write(engine: &dyn Engine, value: &[u8]) -> Result<()> {
    let mut txn = engine.begin(TxnOptions::default())?;
    for key in KEYS {
        txn.put(Space::Index, key, value)?;
    }
    txn.commit(Durability::Synced).map(drop)
}

fn values(engine: &dyn Engine) -> [Option<Vec<u8>>; 2] {
    KEYS.map(|key| get(engine.latest(), Space::Index, key))
}

/// A lock of the second key that was rolled back after the commit of the first would lose its value.
#[test]
fn a_commit_whose_answer_is_lost_is_found_committed() {
    let [hasty, patient] = over_two_regions();
    let muted = Muted::now("KvCommit");
    let outcome = write(&*hasty, b"new");
    drop(muted);
    assert_eq!(values(&*patient), [Some(b"new".to_vec()), Some(b"new".to_vec())]);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(stat(&*hasty, "undetermined_commits"), 0);
}

/// What is still under way may lock keys again, but no longer commit them.
#[test]
fn a_commit_whose_locks_are_not_confirmed_is_rolled_back() {
    let [hasty, patient] = over_two_regions();
    let muted = Muted::now("KvPrewrite");
    let outcome = write(&*hasty, b"new");
    drop(muted);
    // It has to be repeated, unless the time of the call is over.
    assert!(matches!(outcome, Err(Error::Conflict | Error::Unreachable(_))), "{outcome:?}");
    assert_eq!(values(&*patient), [Some(b"old".to_vec()), Some(b"old".to_vec())]);
    write(&*patient, b"newer").expect("commits");
    assert_eq!(values(&*patient), [Some(b"newer".to_vec()), Some(b"newer".to_vec())]);
}

/// Without an answer of the primary key nothing is rolled back.
#[test]
fn a_commit_is_undetermined_while_its_primary_key_does_not_tell() {
    let [hasty, patient] = over_two_regions();
    let muted = Muted::now("KvCommit,KvCheckTxnStatus");
    let outcome = write(&*hasty, b"new");
    drop(muted);
    assert_eq!(values(&*patient), [Some(b"new".to_vec()), Some(b"new".to_vec())]);
    assert!(matches!(outcome, Err(Error::Undetermined)), "{outcome:?}");
    assert_eq!(stat(&*hasty, "undetermined_commits"), 1);
}
