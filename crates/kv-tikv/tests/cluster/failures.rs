//! A store or a placement driver that stops: calls end with an error in their time, and continue when it is back.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nagi_kv::{Durability, Engine, Error, Space, TxnOptions};
use nagi_kv_tikv::{Options, open};

use crate::cluster::{DRIVER, STORE, get, new_prefix, options, put, signal, stat};

const CALL: Duration = Duration::from_secs(2);

fn impatient(prefix: &str) -> Arc<dyn Engine> {
    let options = Options {
        call_timeout: CALL,
        request_timeout: Duration::from_millis(500),
        ..options(prefix)
    };
    open(&options).expect("opens")
}

/// Stops a process until it is dropped.
struct Stopped(&'static str);

impl Stopped {
    fn now(process: &'static str) -> Stopped {
        signal("-STOP", process);
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

#[test]
fn a_store_that_stops_is_an_error_in_time_and_comes_back() {
    let prefix = new_prefix();
    let engine = impatient(&prefix);
    put(&*engine, Space::Records, b"k", b"1");
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    get(&*txn, Space::Records, b"k").expect("it is there");
    txn.put(Space::Records, b"k", b"2").expect("staged");
    let stopped = Stopped::now(STORE);
    let begun = Instant::now();
    let mut buf = Vec::new();
    assert!(matches!(
        engine.latest().get(Space::Records, b"k", &mut buf),
        Err(Error::Unreachable(_))
    ));
    assert!(begun.elapsed() < CALL * 3, "{:?}", begun.elapsed());
    // It can be rolled back later at the most, so its outcome is open.
    let outcome = txn.commit(Durability::Synced);
    assert!(matches!(outcome, Err(Error::Undetermined)), "{outcome:?}");
    assert!(begun.elapsed() < CALL * 3 + Duration::from_secs(15), "{:?}", begun.elapsed());
    drop(stopped);
    // The next write resolves what is left of it, or finds it committed.
    let value = later(|| read_again(&*engine));
    assert!([&b"1"[..], b"2"].contains(&value.as_slice()), "{value:?}");
    later(|| {
        let mut txn = engine
            .begin(TxnOptions { lock_wait_ms: 1000, ..TxnOptions::default() })
            .expect("begins");
        txn.put(Space::Records, b"k", b"3").expect("staged");
        txn.commit(Durability::Synced).ok()
    });
    assert_eq!(get(engine.latest(), Space::Records, b"k").as_deref(), Some(&b"3"[..]));
    assert_eq!(stat(&*engine, "undetermined_commits"), 1);
}

fn read_again(engine: &dyn Engine) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    engine.latest().get(Space::Records, b"k", &mut buf).ok().flatten().map(<[u8]>::to_vec)
}

/// Repeats until there is a result, for half a minute.
fn later<T>(attempt: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(Instant::now() < end, "the store does not come back");
    }
}

/// A stop that is shorter than the time of a call is only slow.
#[test]
fn a_short_stop_is_not_noticed() {
    let prefix = new_prefix();
    let engine = open(&Options { request_timeout: Duration::from_millis(300), ..options(&prefix) });
    let engine: Arc<dyn Engine> = engine.expect("opens");
    put(&*engine, Space::Records, b"k", b"1");
    let stopped = Stopped::now(STORE);
    thread::scope(|scope| {
        let reader = scope.spawn(|| get(engine.latest(), Space::Records, b"k"));
        let end = Instant::now() + Duration::from_secs(20);
        while stat(&*engine, "retries_connection") + stat(&*engine, "retries_timeout") == 0 {
            assert!(Instant::now() < end, "no repetition");
            thread::yield_now();
        }
        drop(stopped);
        assert_eq!(reader.join().expect("no panic").as_deref(), Some(&b"1"[..]));
    });
}

#[test]
fn a_silent_placement_driver_is_an_error_in_time_and_comes_back() {
    let engine = impatient(&new_prefix());
    put(&*engine, Space::Records, b"k", b"1");
    let snapshot = engine.snapshot().expect("a snapshot");
    let stopped = Stopped::now(DRIVER);
    let begun = Instant::now();
    assert!(matches!(engine.snapshot(), Err(Error::Unreachable(_))), "there are no timestamps");
    assert!(begun.elapsed() < CALL * 3, "{:?}", begun.elapsed());
    assert!(stat(&*engine, "reconnects") > 0, "the connection is replaced");
    // What has its timestamp needs only the store.
    assert_eq!(get(&*snapshot, Space::Records, b"k").as_deref(), Some(&b"1"[..]));
    drop(stopped);
    let value = later(|| read_again(&*engine));
    assert_eq!(value, b"1");
    put(&*engine, Space::Records, b"k", b"2");
}
