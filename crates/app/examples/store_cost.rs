//! Measures the CPU time of the store, without wire protocol and planner.
//!
//!   cargo run --release -p nagi-app --example store_cost -- [memory|rocks] [documents] [folder]
//!
//! Prints microseconds of process CPU time and of wall-clock time per operation: inserts of 1 KB documents with one
//! secondary index, with one document and with 32 documents per commit; point reads by `_id` from the record cache and
//! through the engine; updates of an indexed field; scans.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a measurement tool

use std::{path::Path, sync::Arc, time::Instant};

use nagi_bson::{Doc, DocBuf, Value};
use nagi_host::{EngineSettings, RocksOptions};
use nagi_kv::{Engine, Memory};
use nagi_store::{BuildOptions, Namespace, Store, StoreOptions, WriteOptions};

fn main() {
    let mut args = std::env::args().skip(1);
    let engine = args.next().unwrap_or_else(|| "memory".into());
    let count: i64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let folder = args.next().unwrap_or_else(|| "/tmp/nagi-store-cost".into());
    let engine: Arc<dyn Engine> = match engine.as_str() {
        "rocks" => {
            let settings = EngineSettings::Embedded(RocksOptions::default());
            nagi_host::open(Path::new(&folder), &settings).unwrap()
        }
        _ => Arc::new(Memory::new()),
    };
    println!("{} documents on {}", count, engine.name());
    let options = StoreOptions { record_cache_bytes: 256 << 20, ..StoreOptions::default() };
    let store = Store::open(engine, options).unwrap();
    let namespace = Namespace::parse("bench.c").unwrap();
    store.drop_collection(&namespace).unwrap();
    store.create_collection(&namespace, Doc::EMPTY).unwrap();
    let spec = nagi_bson::doc! { "key": { "a": 1 }, "name": "a_1" };
    store.create_indexes(&namespace, &[spec.as_doc()], BuildOptions::default()).unwrap();

    inserts(&store, &namespace, 0, count, 1);
    inserts(&store, &namespace, count, count, 32);
    reads(&store, &namespace, count);
    updates(&store, &namespace, count / 4);
    scans(&store, &namespace, 2 * count);
    builds(&store, &namespace, 2 * count);
    let collection = store.collection(&namespace).unwrap();
    measure("validate", 2 * count, || {
        let report = store.validate(&collection).unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    });
}

fn inserts(store: &Store, namespace: &Namespace, from: i64, count: i64, batch: i64) {
    let collection = store.collection(namespace).unwrap();
    let docs: Vec<DocBuf> = (0..64).map(|n| document(n, n)).collect();
    let mut doc = docs[0].clone().into_bytes();
    measure(&format!("insert, {batch} a commit"), count, || {
        for first in (from..from + count).step_by(batch as usize) {
            let insert = store.write(WriteOptions::default(), &mut |txn| {
                for id in first..first + batch {
                    patch(&mut doc, id);
                    txn.insert(&collection, Doc::trusted(&doc))?;
                }
                Ok(())
            });
            insert.unwrap();
        }
    });
}

/// A document of 1 KB with an int64 `_id` and an int64 `a` at fixed positions.
fn document(id: i64, a: i64) -> DocBuf {
    let text = "x".repeat(100);
    DocBuf::build(|w| {
        w.put("_id", Value::Int64(id));
        w.put("a", Value::Int64(a));
        for field in ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"] {
            w.put(field, &text);
        }
    })
}

/// Sets `_id`, and sets `a` to a pseudo-random value.
fn patch(doc: &mut [u8], id: i64) {
    doc[9..17].copy_from_slice(&id.to_le_bytes());
    doc[20..28].copy_from_slice(&scatter(id).to_le_bytes());
}

fn scatter(id: i64) -> i64 {
    (id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 40) & 0xFFFF
}

fn reads(store: &Store, namespace: &Namespace, count: i64) {
    let collection = store.collection(namespace).unwrap();
    let (mut buf, mut record) = (Vec::new(), nagi_store::RecordBuf::default());
    for name in ["point read, cold cache", "point read, warm cache"] {
        measure(name, count, || {
            for n in 0..count {
                let id = n.wrapping_mul(7919) % count;
                let found = store.find_by_id(&collection, Value::Int64(id), &mut buf);
                assert!(found.unwrap().is_some());
            }
        });
    }
    measure("point read, engine only", count, || {
        for n in 0..count {
            let id = n.wrapping_mul(7919) % count;
            let reader = store.latest();
            let id = reader.find_id(&collection, Value::Int64(id)).unwrap().unwrap();
            assert!(reader.record(&collection, id.key(), &mut record).unwrap().is_some());
        }
    });
}

fn updates(store: &Store, namespace: &Namespace, count: i64) {
    let collection = store.collection(namespace).unwrap();
    let mut buf = nagi_store::RecordBuf::default();
    measure("update of an indexed field", count, || {
        for n in 0..count {
            let update = store.write(WriteOptions::default(), &mut |txn| {
                let reader = txn.reader();
                let id = reader.find_id(&collection, Value::Int64(n * 3 % count))?.unwrap();
                let old = reader.record(&collection, id.key(), &mut buf)?.unwrap().to_buf();
                let mut new = old.clone().into_bytes();
                new[20..28].copy_from_slice(&(n + 1_000_000).to_le_bytes());
                txn.update(&collection, id.key(), old.as_doc(), Doc::trusted(&new))
            });
            update.unwrap();
        }
    });
}

fn scans(store: &Store, namespace: &Namespace, count: i64) {
    let collection = store.collection(namespace).unwrap();
    measure("scan", count, || {
        let mut cursor = store.snapshot().unwrap().reader().scan(&collection, true).unwrap();
        let mut last = None;
        while cursor.advance().unwrap() {
            last = cursor.id().number();
            assert!(cursor.doc().len() > 900);
        }
        assert!(last >= Some(count));
    });
    measure("index scan", count, || {
        let index = collection.index("a_1").unwrap();
        let reader = store.latest();
        let mut cursor = reader.index_cursor(index, true, &[], &[]).unwrap();
        let mut seen = 0;
        while cursor.advance().unwrap() {
            seen += i64::from(!cursor.key().is_empty());
        }
        assert_eq!(seen, count);
    });
}

fn builds(store: &Store, namespace: &Namespace, count: i64) {
    let spec = nagi_bson::doc! { "key": { "f3": 1, "a": -1 }, "name": "f3_a" };
    measure("index build", count, || {
        store.create_indexes(namespace, &[spec.as_doc()], BuildOptions::default()).unwrap();
    });
}

fn measure(name: &str, count: i64, run: impl FnOnce()) {
    let (wall, cpu) = (Instant::now(), cpu_us());
    run();
    let each = |us: f64| us / count as f64;
    println!(
        "{name:32} {:8.2} us CPU  {:8.2} us wall",
        each(cpu_us() - cpu),
        each(wall.elapsed().as_secs_f64() * 1e6)
    );
}

/// CPU time of all threads of the process.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let main: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all: f64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next().and_then(|n| n.parse::<f64>().ok()))
        .sum();
    all.max(main) / 1000.0
}
