//! Parallel scans give the result of a single thread: values, order, errors, limits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use nagi_bson::{DocBuf, Value};
use nagi_error::{Code, Error, Result, err};
use nagi_query::limits::{QueryOptions, StageMemory};
use nagi_query::{
    AggregateRequest, CountRequest, Env, FindRequest, Interrupt, Take, aggregate, count, find,
};
use nagi_store::{Lifetime, Transaction, WriteOptions};

use crate::fixture::{Fixture, NOW_MS, doc};

/// More documents than a single thread reads without a worker.
const DOCS: i64 = 24_000;

/// A server with a second core.
pub(crate) struct Helping {
    /// Workers that were started.
    pub(crate) begun: AtomicU64,
    pub(crate) out: AtomicI64,
    /// Checks after which other requests need the core.
    pub(crate) looks_left: AtomicI64,
    /// Checks after which the operation is killed.
    checks_left: AtomicI64,
}

impl Helping {
    pub(crate) fn new(looks: i64, checks: i64) -> Helping {
        Helping {
            begun: AtomicU64::new(0),
            out: AtomicI64::new(0),
            looks_left: AtomicI64::new(looks),
            checks_left: AtomicI64::new(checks),
        }
    }
}

impl Interrupt for Helping {
    fn check(&self) -> Result<()> {
        match self.checks_left.fetch_sub(1, SeqCst) {
            n if n > 0 => Ok(()),
            _ => Err(err!(Code::INTERRUPTED, "operation was interrupted")),
        }
    }

    fn begin_help(&self) -> bool {
        self.begun.fetch_add(1, SeqCst);
        self.out.fetch_add(1, SeqCst);
        true
    }

    fn may_help(&self) -> bool {
        self.looks_left.fetch_sub(1, SeqCst) > 0
    }

    fn end_help(&self) {
        self.out.fetch_sub(1, SeqCst);
    }
}

fn filled() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let fixture = Fixture::new();
        let collection = fixture.store.collection_or_create(&fixture.ns).unwrap();
        for first in (0..DOCS).step_by(1000) {
            let all = fixture.store.write(WriteOptions::default(), &mut |txn| {
                (first..first + 1000).try_for_each(|n| {
                    let k = (n * 7919) % 30_011;
                    let text = format!(
                        "{{_id: {n}, k: {k}, g: {}, h: {}, d: {}.25, s: 'Word{}', a: [{}, {n}], \
                         p: NumberDecimal('{}.10')}}",
                        n % 7,
                        k % 3000,
                        k % 100,
                        k % 13,
                        k % 5,
                        n % 100,
                    );
                    txn.insert(&collection, doc(&text).as_doc()).map(drop)
                })
            });
            all.unwrap();
        }
        fixture
    })
}

fn run(
    pipeline: &str,
    interrupt: &dyn Interrupt,
    memory: usize,
    disk: bool,
) -> Result<Vec<DocBuf>> {
    let fixture = filled();
    let wrapped = doc(&format!("{{p: {pipeline}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
    let request = AggregateRequest {
        options: QueryOptions {
            memory: StageMemory::all(memory),
            allow_disk_use: disk,
            ..QueryOptions::DEFAULT
        },
        ..AggregateRequest::new(&fixture.ns, stages)
    };
    let env = Env::new(interrupt, NOW_MS);
    let mut execution = aggregate(&fixture.store, &request, &env)?;
    let mut out = Vec::new();
    execution.batch(interrupt, &mut |doc| {
        out.push(doc.to_buf());
        Ok(Take::More)
    })?;
    let stats = execution.stats();
    out.push(doc(&format!("{{examined: {}}}", stats.docs_examined)));
    Ok(out)
}

fn text(result: Result<Vec<DocBuf>>) -> String {
    match result {
        Ok(docs) => format!("{docs:?}"),
        Err(error) => format!("{:?} {error}", Error::code(&error)),
    }
}

const FILTERS: &[&str] =
    &["{}", "{g: {$lt: 3}}", "{_id: {$mod: [97, 5]}}", "{k: -1}", "{s: /^Word1/}"];
const KEYS: &[&str] = &["null", "'$g'", "'$h'", "'$k'", "'$s'", "{g: '$g', d: '$d'}", "'$gone'"];
const ACCUMULATORS: &[&str] = &[
    "n: {$sum: 1}",
    "n: {$sum: '$d'}, avg: {$avg: '$k'}",
    "n: {$sum: '$p'}, avg: {$avg: '$p'}",
    "first: {$first: '$_id'}, last: {$last: '$_id'}",
    "all: {$push: {$mod: ['$_id', 11]}}",
    "set: {$addToSet: '$g'}, most: {$max: '$s'}, least: {$min: '$a'}",
    "top: {$topN: {n: 3, sortBy: {k: -1}, output: '$_id'}}, f: {$firstN: {n: 2, input: '$k'}}",
    "m: {$median: {input: '$g', method: 'approximate'}}, o: {$mergeObjects: {x: '$_id'}}",
];
const LAST: &[&str] = &[
    "{$sort: {k: 1}}, {$limit: 70}",
    "{$sort: {h: -1, g: 1}}, {$skip: 23900}",
    "{$sort: {g: 1}}, {$limit: 3000}, {$project: {_id: 1}}",
    "{$count: 'n'}",
    "{$sortByCount: '$h'}, {$group: {_id: '$count', n: {$sum: 1}}}",
];

/// Stages that end a pipeline, drawn by chance.
fn tail(draw: &mut impl FnMut(usize) -> usize) -> String {
    match draw(5) {
        0 => LAST[draw(LAST.len())].to_owned(),
        1 => {
            let (key, buckets) = (KEYS[1 + draw(KEYS.len() - 1)], 1 + draw(40));
            let output = ACCUMULATORS[draw(ACCUMULATORS.len())];
            format!("{{$bucketAuto: {{groupBy: {key}, buckets: {buckets}, output: {{{output}}}}}}}")
        }
        _ => {
            let (key, accumulators) = (draw(KEYS.len()), draw(ACCUMULATORS.len()));
            format!("{{$group: {{_id: {}, {}}}}}", KEYS[key], ACCUMULATORS[accumulators])
        }
    }
}

#[test]
fn two_threads_give_what_one_gives() {
    let mut seed = 7_u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    for _ in 0..32 {
        let filter = FILTERS[draw(FILTERS.len())];
        let tail = match draw(3) {
            0 => {
                let branch = |at| format!("f{at}: [{}]", tail(&mut draw));
                let branches: Vec<String> = (0..3).map(branch).collect();
                format!("{{$facet: {{{}}}}}", branches.join(", "))
            }
            _ => tail(&mut draw),
        };
        let pipeline = format!("[{{$match: {filter}}}, {tail}]");
        let kinds = if pipeline.contains("$facet") { 1 } else { 3 };
        let memory = [100 << 20, 400_000, 60_000][draw(kinds)];
        let text = |result: Result<Vec<DocBuf>>| match result {
            // Groups that are spilled come in another order, and with half of the memory they are spilled earlier.
            Ok(mut docs) if memory < 100 << 20 && pipeline.contains("$group") => {
                docs.sort_by_cached_key(|doc| format!("{doc:?}"));
                text(Ok(docs))
            }
            result => text(result),
        };
        // The worker is never stopped, stopped at once, or stopped in between.
        let looks = [i64::MAX, 0, 1, 2][draw(4)];
        let helping = Helping::new(looks, i64::MAX);
        let expected = text(run(&pipeline, &(), memory, true));
        let found = text(run(&pipeline, &helping, memory, true));
        assert_eq!(found, expected, "{pipeline} in {memory} bytes, {looks} looks");
        // A condition on `_id` is tested on an index, and few results of one are read by one thread.
        let helped = helping.begun.load(SeqCst) > 0 || filter.contains("_id");
        assert!(helped, "{pipeline}: no worker helped");
        assert_eq!(helping.out.load(SeqCst), 0, "{pipeline}");
    }
}

#[test]
fn the_first_error_is_that_of_one_thread() {
    // The error is in the later part, in both parts, or only in an expression over all documents.
    for pipeline in [
        "[{$group: {_id: {$divide: [1, {$subtract: ['$_id', 20000]}]}}}]",
        "[{$group: {_id: '$g', n: {$sum: {$divide: [1, '$g']}}}}]",
        "[{$match: {$expr: {$eq: [{$divide: [1, {$subtract: ['$_id', 23999]}]}, 2]}}}, {$count: 'n'}]",
    ] {
        let helping = Helping::new(i64::MAX, i64::MAX);
        let expected = text(run(pipeline, &(), 100 << 20, true));
        assert!(expected.contains("divide by zero"), "{expected}");
        assert_eq!(text(run(pipeline, &helping, 100 << 20, true)), expected, "{pipeline}");
        assert_eq!(helping.out.load(SeqCst), 0);
    }
}

#[test]
fn a_killed_operation_ends_both_threads() {
    for checks in [0, 1, 5, 100, 200] {
        for pipeline in [
            "[{$group: {_id: '$k'}}]",
            "[{$count: 'n'}]",
            "[{$sort: {k: 1}}]",
            "[{$facet: {a: [{$group: {_id: '$k'}}], b: [{$count: 'n'}]}}]",
        ] {
            let helping = Helping::new(i64::MAX, checks);
            let ended = run(pipeline, &helping, 100 << 20, true);
            assert_eq!(ended.err().map(|e| e.code()), Some(Code::INTERRUPTED), "{pipeline}");
            assert_eq!(helping.out.load(SeqCst), 0);
            // Each thread notices by itself, and examines no further documents.
            assert!(helping.checks_left.load(SeqCst) >= -4, "{pipeline}");
        }
    }
}

#[test]
fn two_threads_feed_the_branches_of_a_facet_that_gather() {
    let gathering = "g: [{$group: {_id: '$g'}}], m: [{$match: {g: 1}}, {$count: 'n'}], \
                     s: [{$set: {x: '$k'}}, {$sort: {x: 1}}, {$limit: 3}], \
                     b: [{$bucketAuto: {groupBy: '$h', buckets: 4}}], t: [{$sortByCount: '$h'}], \
                     u: [{$group: {_id: '$h'}}, {$sort: {_id: 1}}, {$limit: 2}], \
                     v: [{$group: {_id: '$h'}}, {$group: {_id: null, n: {$sum: 1}}}]";
    for (others, shared) in [
        ("", true),
        (", l: [{$limit: 3}]", false),
        (", l: [{$skip: 3}, {$count: 'n'}]", false),
        (", l: [{$group: {_id: null, n: {$stdDevPop: '$k'}}}]", false),
    ] {
        let pipeline = format!("[{{$facet: {{{gathering}{others}}}}}]");
        let helping = Helping::new(1_000, i64::MAX);
        let expected = text(run(&pipeline, &(), 100 << 20, true));
        assert_eq!(text(run(&pipeline, &helping, 100 << 20, true)), expected, "{pipeline}");
        assert_eq!(helping.looks_left.load(SeqCst) < 1_000, shared, "{pipeline}");
        assert_eq!(helping.out.load(SeqCst), 0, "{pipeline}");
    }
}

#[test]
fn limits_of_memory_are_one_threads() {
    let pipeline = "[{$group: {_id: '$k', s: {$push: '$s'}}}]";
    let helping = Helping::new(i64::MAX, i64::MAX);
    let expected = text(run(pipeline, &(), 100_000, false));
    assert!(expected.contains("292"), "{expected}");
    assert_eq!(text(run(pipeline, &helping, 100_000, false)), expected);
}

#[test]
fn counts_and_finds() {
    let fixture = filled();
    for text in FILTERS {
        let filter = doc(text);
        let counted = |interrupt: &dyn Interrupt| {
            let request =
                CountRequest { filter: filter.as_doc(), ..CountRequest::new(&fixture.ns) };
            let env = Env::new(interrupt, NOW_MS);
            let counted = count(&fixture.store, &request, &env).unwrap();
            (counted.count, counted.stats)
        };
        assert_eq!(counted(&Helping::new(i64::MAX, i64::MAX)), counted(&()));
        // In the order of insertion. A filter is tested by two threads; without one there are only copies, and the
        // index of _id is read alone.
        let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(&fixture.ns) };
        let helping = Helping::new(i64::MAX, i64::MAX);
        let env = Env::new(&helping, NOW_MS);
        let mut last = -1;
        let mut execution = find(&fixture.store, &request, &env).unwrap();
        let all = execution.batch(&helping, &mut |doc| {
            let Value::Int32(id) = doc.get("_id") else { panic!("{doc:?}") };
            assert!(id > last);
            last = id;
            Ok(Take::More)
        });
        all.unwrap();
        assert_eq!(helping.begun.load(SeqCst) > 0, *text != "{}" && !text.contains("_id"));
    }
}

#[test]
fn a_transaction_reads_alone() {
    let fixture = filled();
    let transaction = Transaction::begin(&fixture.store, Lifetime::Long).unwrap();
    let pipeline = doc("{p: [{$group: {_id: '$g'}}, {$count: 'n'}]}");
    let Value::Array(stages) = pipeline.get("p") else { panic!("no array") };
    let request = AggregateRequest::new(&fixture.ns, stages);
    let helping = Helping::new(i64::MAX, i64::MAX);
    let env = Env::new(&helping, NOW_MS);
    let mut execution = aggregate(transaction.store(), &request, &env).unwrap();
    let counted = execution.batch(&helping, &mut |doc| {
        assert_eq!(doc.get("n"), Value::Int32(7));
        Ok(Take::More)
    });
    counted.unwrap();
    assert_eq!(helping.begun.load(SeqCst), 0);
}
