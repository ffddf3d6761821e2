//! What the query engine adds to the engine below it, without protocol: filter scans and groups over
//! cached documents of 1 KB beside the bare iteration over the same records.
//!
//!   cargo run --release -p nagi --example query_cost -- [memory|rocks] [documents] [folder] [rounds]
//!
//! All rows take turns in every round; a figure is the fastest of its rounds, since on a shared machine
//! everything else only adds. "of raw" is the speed beside that of the bare iteration.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a measuring tool

use std::{path::Path, sync::Arc, time::Instant};

use nagi_bson::{ArrayBuf, Doc, DocBuf, Value, json};
use nagi_kv::{Engine, Memory};
use nagi_query::{AggregateRequest, Env, FindRequest, Take, aggregate, find};
use nagi_store::{Namespace, Store, StoreOptions, WriteOptions};

/// Documents of one commit while filling.
const BATCH: i64 = 1000;

/// What a row does with the collection; how many documents came out.
type Run<'a> = Box<dyn FnMut() -> usize + 'a>;

struct Row<'a> {
    name: String,
    run: Run<'a>,
    best_s: f64,
    came_out: usize,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let engine = args.next().unwrap_or_else(|| "rocks".into());
    let count: i64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let folder = args.next().unwrap_or_else(|| "/tmp/nagi-query-cost".into());
    let rounds: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let engine: Arc<dyn Engine> = match engine.as_str() {
        "rocks" => {
            let options = nagi_kv_rocks::Options {
                cache_bytes: (count as u64 * 1100).max(256 << 20) * 3 / 2,
                ..nagi_kv_rocks::Options::default()
            };
            nagi_kv_rocks::open(Path::new(&folder), &options).unwrap()
        }
        _ => Arc::new(Memory::new()),
    };
    println!("{count} documents on {}", engine.name());
    let store = Arc::new(Store::open(engine, StoreOptions::default()).unwrap());
    let namespace = Namespace::parse("bench.c").unwrap();
    store.drop_collection(&namespace).unwrap();
    store.create_collection(&namespace, Doc::EMPTY).unwrap();
    fill(&store, &namespace, count);

    let mut rows = rows(&store, &namespace);
    for _ in 0..rounds {
        for row in &mut rows {
            let start = Instant::now();
            row.came_out = (row.run)();
            row.best_s = row.best_s.min(start.elapsed().as_secs_f64());
        }
    }
    let raw_s = rows[0].best_s;
    println!("{:>10} {:>10} {:>8} {:>10}", "seconds", "ns/doc", "of raw", "came out");
    for row in &rows {
        println!(
            "{:10.3} {:10.1} {:7.1}% {:10}  {}",
            row.best_s,
            row.best_s * 1e9 / count as f64,
            100.0 * raw_s / row.best_s,
            row.came_out,
            row.name
        );
    }
}

fn rows<'a>(store: &'a Arc<Store>, namespace: &'a Namespace) -> Vec<Row<'a>> {
    let mut rows = vec![row("raw iteration", Box::new(|| raw(store, namespace)))];
    let filters = [
        ("filter, 1 %", "{percent: 7}"),
        ("filter on two fields, 1 %", "{percent: 7, city: {$gte: 'A'}}"),
        ("filter, none", "{last: 'nobody'}"),
    ];
    for (name, filter) in filters {
        let filter = json::parse(filter).unwrap();
        let name = format!("{name}: find {}", filter.as_doc());
        rows.push(row(&name, Box::new(move || found(store, namespace, &filter))));
    }
    let pipelines = [
        ("10 groups", "[{$group: {_id: '$ten', n: {$sum: 1}}}]"),
        ("10 groups", "[{$group: {_id: '$ten', n: {$sum: '$percent'}, best: {$max: '$last'}}}]"),
        ("10,000 groups", "[{$group: {_id: '$many', n: {$sum: 1}}}]"),
        (
            "match, then group",
            "[{$match: {percent: {$lt: 10}}}, {$group: {_id: '$ten', n: {$sum: 1}}}]",
        ),
        ("project", "[{$project: {ten: 1, city: 1}}, {$group: {_id: '$city', n: {$sum: 1}}}]"),
    ];
    for (name, pipeline) in pipelines {
        let name = format!("{name}: {pipeline}");
        let stages = json::parse_value(pipeline).unwrap();
        let stages = stages.value().as_array().unwrap().to_buf();
        rows.push(row(&name, Box::new(move || aggregated(store, namespace, &stages))));
    }
    rows
}

fn row<'a>(name: &str, run: Run<'a>) -> Row<'a> {
    Row { name: name.to_owned(), run, best_s: f64::INFINITY, came_out: 0 }
}

fn fill(store: &Store, namespace: &Namespace, count: i64) {
    let collection = store.collection(namespace).unwrap();
    for first in (0..count).step_by(BATCH as usize) {
        let docs: Vec<DocBuf> = (first..count.min(first + BATCH)).map(document).collect();
        let insert = store.write(WriteOptions::default(), &mut |txn| {
            docs.iter().try_for_each(|doc| txn.insert(&collection, doc.as_doc()).map(drop))
        });
        insert.unwrap();
    }
}

/// About 1 KB in twenty fields; those that are looked at stand in the first half and at the end.
fn document(id: i64) -> DocBuf {
    let scattered = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) as u64) >> 20;
    let text = "lorem ipsum dolor sit amet ".repeat(2);
    DocBuf::build(|w| {
        w.put("_id", Value::Int64(id));
        w.put("name", "Ada Lovelace");
        w.put("percent", (scattered % 100) as i32);
        w.put("city", ["London", "Paris", "Rome", "Oslo"][(scattered % 4) as usize]);
        w.put("ten", (scattered % 10) as i32);
        w.put("many", (scattered % 10_000) as i32);
        for field in
            ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12"]
        {
            w.put(field, text.as_str());
        }
        w.put("last", "somebody");
    })
}

/// The limit: every record once, its bytes lent, nothing done with them.
fn raw(store: &Store, namespace: &Namespace) -> usize {
    let collection = store.collection(namespace).unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.reader().scan(&collection, true).unwrap();
    let mut seen = 0;
    while cursor.advance().unwrap() {
        seen += usize::from(cursor.doc().len() > 900);
    }
    seen
}

fn found(store: &Arc<Store>, namespace: &Namespace, filter: &DocBuf) -> usize {
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(namespace) };
    let mut seen = 0;
    let mut execution = find(store, &request, &Env::new(&(), 0)).unwrap();
    execution
        .batch(&(), &mut |_| {
            seen += 1;
            Ok(Take::More)
        })
        .unwrap();
    seen
}

fn aggregated(store: &Arc<Store>, namespace: &Namespace, stages: &ArrayBuf) -> usize {
    let request = AggregateRequest::new(namespace, stages.as_array());
    let mut seen = 0;
    let mut execution = aggregate(store, &request, &Env::new(&(), 0)).unwrap();
    execution
        .batch(&(), &mut |_| {
            seen += 1;
            Ok(Take::More)
        })
        .unwrap();
    seen
}
