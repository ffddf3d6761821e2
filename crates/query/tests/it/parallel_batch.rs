//! Two threads fill the batches of a collection scan; a client gets the documents of one thread, in its order.

use std::sync::atomic::Ordering::SeqCst;

use nagi_bson::{DocBuf, Value};
use nagi_error::{Code, Error, Result};
use nagi_query::{
    AggregateRequest, DeleteStatement, Env, Execution, FindRequest, Interrupt, Take, aggregate,
    delete, find,
};
use nagi_store::Durability;

use crate::fixture::{Fixture, NOW_MS, doc};
use crate::parallel_scan::Helping;

const DOCS: i64 = 24_000;

/// A fifth of the record numbers is not used any more.
fn filled(long: usize) -> Fixture {
    let fixture = Fixture::with_long_ones(DOCS, long);
    remove(&fixture, "{_id: {$gt: 9000, $lt: 14000}}");
    fixture
}

fn remove(fixture: &Fixture, filter: &str) {
    let (filter, env) = (doc(filter), Env::new(&(), NOW_MS));
    let statement = DeleteStatement::new(filter.as_doc(), true);
    delete(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env).unwrap();
}

/// A find with a filter and a projection, or a pipeline.
#[derive(Clone, Copy)]
enum Read<'r> {
    Find(&'r str, &'r str),
    Pipeline(&'r str),
}

const READS: &[Read<'_>] = &[
    Read::Find("{}", "{}"),
    Read::Find("{k: {$gt: 3000}}", "{}"),
    Read::Find("{k: {$mod: [100, 3]}}", "{s: 1}"),
    Read::Find("{k: -1}", "{}"),
    Read::Find("{}", "{_id: 0, k: 1, t: {$concat: ['$s', '!']}}"),
    Read::Pipeline(
        "[{$match: {k: {$lt: 20000}}}, {$addFields: {m: {$mod: ['$k', 10]}}}, {$match: {m: 3}}]",
    ),
    Read::Pipeline(
        "[{$project: {k: 1}}, {$addFields: {a: {b: {c: '$k'}}}}, {$replaceRoot: {newRoot: '$a'}}]",
    ),
];

fn open(fixture: &Fixture, read: Read<'_>, interrupt: &dyn Interrupt) -> Result<Execution> {
    let env = Env::new(interrupt, NOW_MS);
    match read {
        Read::Find(filter, projection) => {
            let (filter, projection) = (doc(filter), doc(projection));
            let request = FindRequest {
                filter: filter.as_doc(),
                projection: projection.as_doc(),
                ..FindRequest::new(&fixture.ns)
            };
            find(&fixture.store, &request, &env)
        }
        Read::Pipeline(stages) => {
            let stages = doc(&format!("{{p: {stages}}}"));
            let Value::Array(stages) = stages.get("p") else { panic!("an array") };
            aggregate(&fixture.store, &AggregateRequest::new(&fixture.ns, stages), &env)
        }
    }
}

/// All documents, in batches of so many, with the snapshot of the first batch or a new one for each.
fn run(
    fixture: &Fixture,
    read: Read<'_>,
    (batch, renewed, refuses): (usize, bool, bool),
    interrupt: &dyn Interrupt,
) -> Result<(Vec<DocBuf>, u64)> {
    let mut execution = open(fixture, read, interrupt)?;
    let mut out = Vec::new();
    let mut more = true;
    while more {
        let begin = out.len();
        more = execution.batch(interrupt, &mut |doc| {
            if out.len() - begin == batch {
                return Ok(Take::Refused);
            }
            out.push(doc.to_buf());
            let is_last = !refuses && out.len() - begin == batch;
            Ok(if is_last { Take::Last } else { Take::More })
        })?;
        if renewed {
            execution.save();
        }
    }
    Ok((out, execution.stats().docs_examined))
}

#[test]
fn batches_are_those_of_one_thread() {
    for long in [0, 20_000] {
        let fixture = filled(long);
        for (at, read) in READS.iter().enumerate() {
            let (alone, examined) = run(&fixture, *read, (usize::MAX, false, true), &()).unwrap();
            assert_eq!(examined, 19_001);
            for (batch, looks) in [
                (usize::MAX, i64::MAX),
                (7_000, i64::MAX),
                (3_500, i64::MAX),
                (5_003, 1),
                (6_000, 0),
                (900, 2),
            ] {
                for (renewed, refuses) in [(false, true), (true, false), (true, true)] {
                    let helping = Helping::new(looks, i64::MAX);
                    let (beside, read_again) =
                        run(&fixture, *read, (batch, renewed, refuses), &helping).unwrap();
                    assert!(alone == beside, "{long} {at} {batch} {looks} {renewed} {refuses}");
                    assert_eq!(helping.out.load(SeqCst), 0);
                    assert_eq!(read_again, examined, "{at} {batch} {looks}");
                    assert!(batch < 3_000 || at == 0 || helping.begun.load(SeqCst) > 0, "{at}");
                }
            }
        }
    }
}

#[test]
fn a_document_is_not_delivered_after_its_deletion() {
    let fixture = filled(0);
    let helping = Helping::new(i64::MAX, i64::MAX);
    let mut execution = open(&fixture, Read::Find("{s: 'text'}", "{}"), &helping).unwrap();
    let mut last = 0;
    let more = execution.batch(&helping, &mut |doc| {
        last = match doc.get("_id") {
            Value::Int32(id) => id,
            _ => panic!("an _id"),
        };
        // In the worker's part of a fork.
        Ok(if last == 8_000 { Take::Last } else { Take::More })
    });
    assert!(more.unwrap() && last == 8_000 && helping.begun.load(SeqCst) > 0);
    execution.save();
    remove(&fixture, "{_id: {$gt: 8000, $lt: 20000}}");
    let mut next = None;
    let more = execution.batch(&helping, &mut |doc| {
        next = Some(doc.to_buf());
        Ok(Take::Last)
    });
    assert!(more.unwrap());
    assert_eq!(next.unwrap().get("_id"), Value::Int32(20_000));
}

#[test]
fn a_batch_of_few_documents_forks_if_they_are_rare() {
    let fixture = filled(0);
    let helping = Helping::new(i64::MAX, i64::MAX);
    let read = Read::Find("{k: {$mod: [1000, 7]}}", "{}");
    let (docs, _) = run(&fixture, read, (101, true, false), &helping).unwrap();
    assert_eq!(docs, run(&fixture, read, (101, true, false), &()).unwrap().0);
    assert!(docs.len() < 101 && helping.begun.load(SeqCst) == 1, "{}", docs.len());
}

#[test]
fn random_numbers_are_not_repeated() {
    let fixture = filled(0);
    let helping = Helping::new(i64::MAX, i64::MAX);
    let read = Read::Pipeline("[{$project: {r: {$rand: {}}}}]");
    let (docs, _) = run(&fixture, read, (usize::MAX, false, true), &helping).unwrap();
    let mut numbers: Vec<u64> = docs
        .iter()
        .map(|doc| match doc.get("r") {
            Value::Double(number) => number.to_bits(),
            other => panic!("{other:?}"),
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(helping.begun.load(SeqCst) > 0 && numbers.len() == docs.len());
}

#[test]
fn errors_come_in_the_order_of_documents() {
    let fixture = filled(0);
    for at in [100, 4_000, 8_000, 15_000] {
        let read =
            format!("[{{$project: {{x: {{$divide: [1, {{$subtract: ['$_id', {at}]}}]}}}}}}]");
        let helping = Helping::new(i64::MAX, i64::MAX);
        let mut execution = open(&fixture, Read::Pipeline(&read), &helping).unwrap();
        let mut count = 0;
        let failed = execution.batch(&helping, &mut |_| {
            count += 1;
            Ok(Take::More)
        });
        let deleted = if at > 9_000 { 4_999 } else { 0 };
        assert_eq!((failed.unwrap_err().code(), count), (Code::BAD_VALUE, at - deleted));
        assert_eq!(helping.out.load(SeqCst), 0);
    }
}

#[test]
fn the_worker_ends_with_the_request() {
    let fixture = filled(0);
    let mut killed = 0;
    for checks in (0..400).step_by(7) {
        let helping = Helping::new(i64::MAX, checks);
        let all = (usize::MAX, false, true);
        if let Err(error) = run(&fixture, Read::Find("{k: {$gt: 3000}}", "{}"), all, &helping) {
            assert_eq!(Error::code(&error), Code::INTERRUPTED);
            killed += 1;
        }
        assert_eq!(helping.out.load(SeqCst), 0);
    }
    assert!(killed > 10, "{killed}");
}
