//! Every operation that can take long polls its interrupt, also after it has read all its input. There is no clock:
//! the interrupt counts its calls, and cancels the operation at the n-th.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nagi_bson::Value;
use nagi_error::{Code, Error, Result, err};
use nagi_query::limits::{QueryOptions, StageMemory};
use nagi_query::{
    AggregateRequest, CountRequest, Env, FindRequest, Interrupt, Take, aggregate, count, find,
};

use crate::fixture::{Fixture, NOW_MS, doc};

/// Documents of the collection.
const DOCS: u64 = 1280;
/// Documents that may pass between two polls; the end of a run may leave as many.
const BETWEEN: u64 = 64;

/// Cancels the operation at the n-th poll.
struct Asked {
    times: AtomicU64,
    stop_at: u64,
}

impl Asked {
    fn new(stop_at: u64) -> Asked {
        Asked { times: AtomicU64::new(0), stop_at }
    }
}

impl Interrupt for Asked {
    fn check(&self) -> Result<()> {
        match self.times.fetch_add(1, Relaxed) + 1 {
            n if n >= self.stop_at => Err(err!(Code::INTERRUPTED, "operation was interrupted")),
            _ => Ok(()),
        }
    }
}

/// Pipelines, and the number of documents (or elements) that each handles: each stage that holds documents counts
/// again.
const ROWS: &[(&str, u64)] = &[
    ("[{$match: {k: {$gt: -1}}}]", DOCS),
    ("[{$match: {k: -1}}]", DOCS),
    ("[{$count: 'n'}]", DOCS),
    ("[{$sort: {k: 1}}, {$count: 'n'}]", 2 * DOCS),
    ("[{$sort: {k: 1}}, {$limit: 1000}, {$count: 'n'}]", DOCS + 1000),
    ("[{$sort: {k: 1}}, {$group: {_id: '$g'}}]", 2 * DOCS),
    ("[{$group: {_id: '$_id', n: {$sum: 1}}}, {$match: {n: 2}}]", 2 * DOCS),
    ("[{$group: {_id: '$_id'}}, {$sort: {_id: 1}}, {$count: 'n'}]", 3 * DOCS),
    ("[{$sortByCount: '$_id'}, {$count: 'n'}]", 3 * DOCS),
    ("[{$bucketAuto: {groupBy: '$k', buckets: 500}}, {$match: {n: 1}}]", 2 * DOCS + 400),
    ("[{$sample: {size: 1000}}, {$match: {n: 1}}]", 1000),
    (
        "[{$setWindowFields: {sortBy: {_id: 1}, output: {n: {$sum: '$k', \
         window: {documents: ['unbounded', 'current']}}}}}, {$match: {m: 1}}]",
        2 * DOCS,
    ),
    ("[{$setWindowFields: {output: {n: {$sum: '$k'}}}}, {$match: {m: 1}}]", 2 * DOCS),
    ("[{$fill: {sortBy: {_id: 1}, output: {x: {method: 'locf'}}}}, {$match: {m: 1}}]", 2 * DOCS),
    ("[{$densify: {field: 'k', range: {step: 1, bounds: [0, 20000]}}}, {$match: {m: 1}}]", 20_000),
    ("[{$set: {a: {$range: [0, 100]}}}, {$unwind: '$a'}, {$count: 'n'}]", 100 * DOCS),
    ("[{$facet: {a: [{$match: {m: 1}}], b: [{$count: 'n'}]}}]", 2 * DOCS),
    (
        "[{$limit: 20}, {$lookup: {from: 'c', localField: 'm', foreignField: 'm', as: 'x'}}, \
         {$project: {n: {$size: '$x'}}}]",
        20 * DOCS,
    ),
    (
        "[{$limit: 20}, {$lookup: {from: 'c', let: {g: '$g'}, \
         pipeline: [{$match: {$expr: {$lt: ['$g', '$$g']}}}], as: 'x'}}, {$project: {x: 1}}]",
        20 * DOCS,
    ),
    (
        "[{$limit: 2}, {$graphLookup: {from: 'c', startWith: '$g', connectFromField: 'g', \
         connectToField: 'g', as: 'x'}}, {$project: {n: {$size: '$x'}}}]",
        2 * DOCS,
    ),
    ("[{$unionWith: 'c'}, {$match: {m: 1}}]", 2 * DOCS),
    ("[{$redact: '$$PRUNE'}]", DOCS),
    ("[{$limit: 1}, {$set: {a: {$map: {input: {$range: [0, 50000]}, in: '$$this'}}}}]", 50_000),
    (
        "[{$limit: 1}, {$set: {a: {$size: {$filter: {input: {$range: [0, 50000]}, \
         cond: {$lt: ['$$this', '$k']}}}}}}]",
        50_000,
    ),
    (
        "[{$limit: 1}, {$set: {a: {$reduce: {input: {$range: [0, 50000]}, initialValue: 0, \
         in: {$add: ['$$value', '$$this', '$k']}}}}}]",
        50_000,
    ),
    ("[{$match: {}}, {$out: 'o'}]", DOCS),
    ("[{$match: {}}, {$merge: 'o'}]", DOCS),
];

fn filled() -> Fixture {
    let fixture = Fixture::new();
    for n in 0..DOCS {
        let k = (n * 7919) % 1000;
        fixture.insert(&format!("{{_id: {n}, k: {k}, g: {}, s: '{n}'}}", n % 37)).unwrap();
    }
    fixture
}

fn run(fixture: &Fixture, pipeline: &str, asked: &Asked, memory: usize) -> Result<()> {
    let wrapped = doc(&format!("{{p: {pipeline}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
    let request = AggregateRequest {
        options: QueryOptions { memory: StageMemory::all(memory), ..QueryOptions::DEFAULT },
        ..AggregateRequest::new(&fixture.ns, stages)
    };
    let env = Env::new(asked, NOW_MS);
    let mut execution = aggregate(&fixture.store, &request, &env)?;
    execution.batch(asked, &mut |_| Ok(Take::More)).map(drop)
}

fn is_interrupted(result: Result<()>) -> bool {
    result.err().map(|error: Error| error.code()) == Some(Code::INTERRUPTED)
}

fn check_rows(memory: usize) {
    let fixture = filled();
    let mut wrong = Vec::new();
    for (pipeline, handled) in ROWS {
        let all = Asked::new(u64::MAX);
        run(&fixture, pipeline, &all, memory).unwrap_or_else(|e| panic!("{pipeline}: {e}"));
        let times = all.times.load(Relaxed);
        if times + 1 < handled / BETWEEN {
            wrong.push(format!("{pipeline}: asked {times} times for {handled}"));
        }
        // Cancelled at the first poll, in the middle, and at the last one.
        for stop_at in [1, times / 2, times] {
            let result = run(&fixture, pipeline, &Asked::new(stop_at.max(1)), memory);
            if !is_interrupted(result) {
                wrong.push(format!("{pipeline}: went on at {stop_at} of {times}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pipelines_look_at_the_interrupt() {
    check_rows(nagi_query::limits::SORT_MEMORY_BYTES_MAX);
}

#[test]
fn pipelines_that_spill_look_at_the_interrupt() {
    check_rows(200_000);
}

#[test]
fn finds_and_counts_look_at_the_interrupt() {
    let fixture = filled();
    fixture.index("{key: {k: 1}, name: 'k_1'}");
    for (filter, sort, handled) in [
        ("{s: 'x'}", "{}", DOCS),
        ("{k: {$gte: 0}, s: 'x'}", "{}", DOCS),
        ("{k: {$gte: 0}}", "{s: 1}", 2 * DOCS),
        ("{$or: [{k: 1}, {s: 'x'}]}", "{}", DOCS),
    ] {
        let (filter, sort) = (doc(filter), doc(sort));
        let request = || FindRequest {
            filter: filter.as_doc(),
            sort: sort.as_doc(),
            ..FindRequest::new(&fixture.ns)
        };
        let run = |asked: &Asked| -> Result<()> {
            let mut execution = find(&fixture.store, &request(), &Env::new(asked, NOW_MS))?;
            execution.batch(asked, &mut |_| Ok(Take::More)).map(drop)
        };
        let all = Asked::new(u64::MAX);
        run(&all).unwrap();
        let times = all.times.load(Relaxed);
        assert!(times + 1 >= handled / BETWEEN, "{filter:?}: asked {times} times");
        for stop_at in [1, times / 2, times] {
            assert!(is_interrupted(run(&Asked::new(stop_at.max(1)))), "{filter:?}: {stop_at}");
        }
    }
    let filter = doc("{s: 'x'}");
    let request = CountRequest { filter: filter.as_doc(), ..CountRequest::new(&fixture.ns) };
    let asked = Asked::new(5);
    let result = count(&fixture.store, &request, &Env::new(&asked, NOW_MS)).map(drop);
    assert!(is_interrupted(result));
}
