//! Garbage collection: the safe point advances behind all readers and services, after old locks are resolved.
//!
//! Times are shorter here: snapshots last 2 seconds, versions are kept for 4.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{
    CommitStamp, Durability, Engine, Error, Faults, Faulty, Maintenance as _, Point, Space,
    TxnOptions,
};
use nagi_kv_tikv::{Collects, GarbageOptions, Options, Tikv, open};
use nagi_store::{NodeMode, NodeOptions, Store, StoreOptions};

use crate::{
    cluster::{
        STORE, calls, collect_now, control, get, new_prefix, options, put, services, stat,
        table_bytes,
    },
    requests::{advance, forget, leave_locks, note, protect, safe_point},
};

const SNAPSHOT: Duration = Duration::from_secs(2);
const KEPT: Duration = Duration::from_secs(4);
/// The oracle's clock moves in steps of 50 ms; ages are measured by the clocks of processes.
const TICK: Duration = Duration::from_millis(100);
/// The most that anything here may take.
const LONG: Duration = Duration::from_secs(60);

const TIDB_SERVER: &str = "/tidb/server/info/a4e3";
const TIDB_COLLECTOR: &str = "/tidb/store/gcworker/saved_safe_point";

fn short(prefix: &str) -> Options {
    let garbage =
        GarbageOptions { mode: Collects::Unless, kept_for: KEPT, each: Duration::from_millis(500) };
    Options { snapshot_age_max: SNAPSHOT, garbage, ..options(prefix) }
}

fn collector(prefix: &str) -> Arc<Tikv> {
    open(&short(prefix)).expect("opens")
}

/// The timestamp of a stamp.
fn version(stamp: CommitStamp) -> u64 {
    let within = (stamp.0 & 0xFFFF_FFFF) - 1;
    ((stamp.0 >> 32) * 1000 + (within >> 18)) << 18 | (within & 0x3_FFFF)
}

fn now(engine: &dyn Engine) -> u64 {
    version(engine.snapshot().expect("a snapshot").stamp())
}

/// Services of other tests, whose nodes are gone, would hold the safe point.
fn forget_services() {
    for service in services().iter().filter(|service| *service != "gc_worker") {
        protect(service, 0, 0);
    }
}

/// Lets an engine collect until something is so.
fn tend_until(engine: &dyn Engine, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not after {LONG:?}");
        engine.tend_versions(true, &mut |_, _| true).expect("collects");
    }
}

fn tend_for(engine: &dyn Engine, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        engine.tend_versions(true, &mut |_, _| true).expect("collects");
    }
}

#[test]
fn the_safe_point_advances_behind_all_readers() {
    forget_services();
    let prefix = new_prefix();
    let (collects, reads) = (collector(&prefix), collector(&prefix));
    for n in 0..100_u8 {
        put(&*collects, Space::Records, &[n], b"old");
    }
    for round in 0..2 {
        let snapshot = reads.snapshot().expect("a snapshot");
        let mut cursor = snapshot.cursor(Space::Records, &[], &[]).expect("a cursor");
        assert!(cursor.seek(&[]).expect("seeks"));
        let mut txn = reads.begin(TxnOptions::default()).expect("begins");
        assert!(get(&*txn, Space::Records, b"\x07").is_some());
        txn.put(Space::Records, b"late", b"").expect("staged");
        let read = version(snapshot.stamp());
        put(&*collects, Space::Records, b"\x07", &[round]);
        let mut reader_ended = false;
        tend_until(&*collects, "it passes the reader", || {
            let safe_point = safe_point();
            let found = snapshot.get(Space::Records, b"\x07", &mut Vec::new()).map(|_| ());
            match &found {
                Ok(()) => assert!(safe_point <= read, "a protected snapshot is passed"),
                Err(error) => assert!(matches!(error, Error::SnapshotTooOld), "{error}"),
            }
            reader_ended |= found.is_err();
            safe_point > read
        });
        assert!(reader_ended);
        let found = snapshot.get(Space::Records, b"\x08", &mut Vec::new()).map(|_| ());
        assert!(matches!(found, Err(Error::SnapshotTooOld)), "{found:?}");
        let seen = std::iter::from_fn(|| cursor.next().map(|more| more.then_some(())).transpose());
        assert!(matches!(seen.last(), Some(Err(Error::SnapshotTooOld))), "its cursor");
        let committed = txn.commit(Durability::Synced);
        assert!(matches!(committed, Err(Error::SnapshotTooOld)), "{committed:?}");
        let past = reads.begin_at(snapshot.stamp()).map(|_| ());
        assert!(matches!(past, Err(Error::SnapshotTooOld)), "{past:?}");
        // What is newest is there, however old it is.
        assert_eq!(get(reads.latest(), Space::Records, b"\x08").as_deref(), Some(&b"old"[..]));
    }
    assert!(stat(&*collects, "collections_run") > 0 && stat(&*reads, "collections_run") == 0);
    let seconds = stat(&*collects, "safe_point_seconds");
    assert_eq!(seconds as u64, (safe_point() >> 18) / 1000);
    let age = (now(&*reads) >> 18) - (safe_point() >> 18);
    assert!(age >= (KEPT - TICK).as_millis() as u64, "{age}");
}

#[test]
fn other_services_and_prefixes_are_honoured() {
    forget_services();
    let (one, prefix) = (collector(&new_prefix()), new_prefix());
    let kept_for = KEPT * 2;
    let garbage = GarbageOptions { kept_for, ..short(&prefix).garbage };
    let other = open(&Options { garbage, ..short(&prefix) }).expect("opens");
    // Both collect, and the one that keeps more is protected.
    tend_until(&*other, "it protects", || services().contains(&format!("nagi-{prefix}")));
    let begun = now(&*one);
    tend_until(&*one, "the safe point passes", || {
        other.tend_versions(true, &mut |_, _| true).expect("collects");
        let now = now(&*one);
        let safe_point = safe_point();
        // What others had removed before is not protected.
        let age = (now >> 18).saturating_sub(safe_point >> 18);
        assert!(safe_point <= begun || age >= (kept_for - TICK).as_millis() as u64, "{age}");
        safe_point > begun
    });
    drop(other);
    forget_services();
    let held = now(&*one);
    protect("backup", held, 600);
    tend_until(&*one, "it is held", || safe_point() == held && stat(&*one, "collections_held") > 0);
    tend_for(&*one, KEPT);
    assert_eq!(safe_point(), held);
    protect("backup", 0, 0);
    tend_until(&*one, "it goes on", || safe_point() > held);
}

#[test]
fn it_is_left_to_tidb() {
    forget_services();
    let prefix = new_prefix();
    let (unless, always) = (collector(&prefix), {
        let garbage = GarbageOptions { mode: Collects::Always, ..short(&prefix).garbage };
        open(&Options { garbage, ..short(&prefix) }).expect("opens")
    });
    let never = {
        let garbage = GarbageOptions { mode: Collects::Never, ..short(&prefix).garbage };
        open(&Options { garbage, ..short(&prefix) }).expect("opens")
    };
    tend_until(&*unless, "it begins", || stat(&*unless, "collections_run") > 0);
    let before = safe_point();
    note(TIDB_SERVER, "{}");
    note(TIDB_COLLECTOR, "1");
    for engine in [&unless, &always, &never] {
        tend_for(&**engine, KEPT + Duration::from_secs(3));
        assert_eq!(safe_point(), before, "TiDB runs");
    }
    assert!(services().contains(&format!("nagi-{prefix}")), "it is protected all the same");
    forget(TIDB_SERVER);
    tend_for(&*unless, Duration::from_secs(3));
    assert_eq!(safe_point(), before, "TiDB has collected here");
    tend_until(&*always, "it collects in its place", || safe_point() > before);
    forget(TIDB_COLLECTOR);
    let before = safe_point();
    tend_for(&*never, KEPT + Duration::from_secs(3));
    assert_eq!(safe_point(), before, "it never does");
    tend_until(&*unless, "it goes on", || safe_point() > before);
}

/// A transaction whose client has died before and one whose client has died after its first key was committed.
#[test]
fn old_locks_are_resolved_before() {
    forget_services();
    let prefix = new_prefix();
    let engine = collector(&prefix);
    for key in [b"a", b"b", b"c", b"d"] {
        put(&*engine, Space::Index, key, b"old");
    }
    let stored = |key: &[u8]| [prefix.as_bytes(), &[0, 1, 2], key].concat();
    let keys = [b"a", b"b", b"c", b"d"].map(|key| stored(key));
    let start = now(&*engine);
    leave_locks(start, &[(&keys[0], b"\0new"), (&keys[1], b"\0new")], Some(now(&*engine)));
    leave_locks(start + 1, &[(&keys[2], b"\0new"), (&keys[3], b"\0new")], None);
    let scanned = calls().get("KvScanLock").copied().unwrap_or_default();
    // Ended in between, nothing is told to the stores.
    let before = safe_point();
    let end = Instant::now() + KEPT + Duration::from_secs(4);
    while Instant::now() < end {
        engine.tend_versions(true, &mut |_, _| false).expect("ends");
    }
    assert_eq!(safe_point(), before);
    tend_until(&*engine, "it passes the locks", || safe_point() > start + 1);
    assert_eq!(stat(&*engine, "locks_resolved"), 3);
    assert!(calls()["KvScanLock"] > scanned);
    let values = [b"a", b"b", b"c", b"d"].map(|key| get(engine.latest(), Space::Index, key));
    assert_eq!(values.map(Option::unwrap), [&b"new"[..], b"new", b"old", b"old"]);
    assert_eq!(stat(&*engine, "retries_lock"), 0, "no reader met a lock");
}

/// Another program advances the safe point without asking.
#[test]
fn reads_below_a_safe_point_of_others_are_refused() {
    forget_services();
    let prefix = new_prefix();
    let garbage = GarbageOptions { each: Duration::ZERO, ..options(&prefix).garbage };
    let engine = open(&Options { garbage, ..options(&prefix) }).expect("opens");
    put(&*engine, Space::Records, b"k", b"old");
    let snapshot = engine.snapshot().expect("a snapshot");
    put(&*engine, Space::Records, b"k", b"new");
    let mut open_txn = engine.begin(TxnOptions::default()).expect("begins");
    assert!(get(&*open_txn, Space::Records, b"k").is_some());
    open_txn.put(Space::Records, b"j", b"").expect("staged");
    engine.tend_versions(false, &mut |_, _| true).expect("looks");
    assert_eq!(get(&*snapshot, Space::Records, b"k").as_deref(), Some(&b"old"[..]));
    advance(now(&*engine));
    engine.tend_versions(false, &mut |_, _| true).expect("looks");
    let found = snapshot.get(Space::Records, b"k", &mut Vec::new()).map(|_| ());
    assert!(matches!(found, Err(Error::SnapshotTooOld)), "{found:?}");
    assert!(matches!(engine.begin_at(snapshot.stamp()).map(|_| ()), Err(Error::SnapshotTooOld)));
    let committed = open_txn.commit(Durability::Synced);
    assert!(matches!(committed, Err(Error::SnapshotTooOld)), "{committed:?}");
    assert_eq!(get(engine.latest(), Space::Records, b"k").as_deref(), Some(&b"new"[..]));
}

/// The node that collects is cut off from the cluster, as one that was killed; the other one goes on.
#[test]
fn another_node_goes_on_when_the_one_that_collects_is_gone() {
    forget_services();
    let prefix = new_prefix();
    let faults = [Faults::default(), Faults::default()];
    let engines = faults.each_ref().map(|faults| {
        let engine: Arc<dyn Engine> = collector(&prefix);
        Arc::new(Faulty::new(engine, faults.clone()))
    });
    let nodes: Vec<Arc<Store>> = engines
        .iter()
        .enumerate()
        .map(|(number, engine)| {
            let node = NodeOptions {
                mode: NodeMode::Member,
                name: format!("node {number}"),
                lease_seconds: 3,
                ..NodeOptions::default()
            };
            let options = StoreOptions { node, ..StoreOptions::default() };
            Store::open(Arc::clone(engine) as Arc<dyn Engine>, options).expect("opens")
        })
        .collect();
    let runs = |number: usize| stat(&*engines[number], "collections_run");
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let end = Instant::now() + LONG;
        while !is_so() {
            assert!(Instant::now() < end, "{what}: not after {LONG:?}");
            safe_point();
        }
    };
    wait("the first one collects", &|| runs(0) > 0);
    assert_eq!(runs(1), 0);
    for point in [Point::Get, Point::Cursor, Point::Begin, Point::Write, Point::Maintain] {
        faults[0].arm(point, 0, u64::MAX, || Error::Unreachable("it is cut off".into()));
    }
    wait("the other one does", &|| runs(1) > 0);
    let then = safe_point();
    wait("and goes on", &|| safe_point() > then);
    drop(nodes);
}

/// Versions that no snapshot can read take no space, and what can be read is there. The store has smaller values in its
/// tables.
#[test]
fn stores_release_the_space_of_old_versions() {
    const KEYS: u16 = 2000;
    const VERSIONS: u8 = 40;
    forget_services();
    let engine = collector(&new_prefix());
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut value = |version: u8| -> Vec<u8> {
        let next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        };
        [version].into_iter().chain(std::iter::repeat_with(next).take(200)).collect()
    };
    let mut write = |version: u8| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for key in 0..KEYS {
            txn.put(Space::Index, &key.to_be_bytes(), &value(version)).expect("staged");
        }
        txn.put(Space::Index, &[255, version], b"once").expect("staged");
        txn.delete(Space::Index, &[255, version.wrapping_sub(20)]).expect("staged");
        txn.commit(Durability::Synced).expect("commits");
    };
    (0..VERSIONS).for_each(&mut write);
    let written = now(&*engine);
    let restarted = || {
        control("end", STORE);
        control("start", STORE);
        let end = Instant::now() + LONG;
        while engine.latest().get(Space::Index, &[0, 0], &mut Vec::new()).is_err() {
            assert!(Instant::now() < end, "the store does not come back");
        }
        table_bytes("kv1/kv")
    };
    let before = restarted();
    tend_until(&*engine, "it collects", || safe_point() > written);
    // Compactions read tables of all these keys.
    write(VERSIONS);
    collect_now();
    let after = restarted();
    let released = before.saturating_sub(after);
    // 16 MB of values were replaced.
    assert!(released > 12_000_000, "{before} bytes before, {after} after");
    for key in 0..KEYS {
        let found = get(engine.latest(), Space::Index, &key.to_be_bytes()).expect("it is there");
        assert_eq!(found[0], VERSIONS);
    }
    for version in 0..=VERSIONS {
        let found = get(engine.latest(), Space::Index, &[255, version]);
        assert_eq!(found.is_some(), version > VERSIONS - 20, "{version}");
    }
}
