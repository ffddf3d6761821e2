//! A worker reads the half of many records that are fetched in the order of an index; the result is that of one thread.

use std::sync::atomic::Ordering::SeqCst;

use nagi_bson::DocBuf;
use nagi_error::{Code, Error, Result};
use nagi_query::{Env, FindRequest, Interrupt, Take, find};

use crate::fixture::{Fixture, NOW_MS, doc};
use crate::parallel_scan::Helping;

const DOCS: i64 = 6000;

fn filled(long: usize) -> Fixture {
    let fixture = Fixture::with_long_ones(DOCS, long);
    fixture.index("{key: {k: 1}, name: 'k'}");
    fixture
}

fn run(
    fixture: &Fixture,
    filter: &str,
    interrupt: &dyn Interrupt,
) -> Result<(Vec<DocBuf>, String)> {
    let (filter, sort) = (doc(filter), doc("{k: 1}"));
    let request = FindRequest {
        filter: filter.as_doc(),
        sort: sort.as_doc(),
        ..FindRequest::new(&fixture.ns)
    };
    let env = Env::new(interrupt, NOW_MS);
    let mut execution = find(&fixture.store, &request, &env)?;
    let mut out = Vec::new();
    let mut more = true;
    while more {
        let begin = out.len();
        more = execution.batch(interrupt, &mut |doc| {
            if out.len() - begin == 3500 {
                return Ok(Take::Refused);
            }
            out.push(doc.to_buf());
            Ok(Take::More)
        })?;
    }
    let stats = execution.stats();
    Ok((out, format!("{} {}", stats.keys_examined, stats.docs_examined)))
}

#[test]
fn half_of_the_records_are_read_beside() {
    for long in [0, 100_000, 1_200_000] {
        let fixture = filled(long);
        for filter in ["{}", "{k: {$gt: 2000}, s: /^text/}", "{s: 'no'}"] {
            let alone = run(&fixture, filter, &()).unwrap();
            let helping = Helping::new(i64::MAX, i64::MAX);
            let beside = run(&fixture, filter, &helping).unwrap();
            assert!(alone == beside, "{long} {filter}: {} {}", alone.1, beside.1);
            assert_eq!(helping.out.load(SeqCst), 0);
            assert!(long > 0 || helping.begun.load(SeqCst) > 0, "{filter}");
        }
    }
}

#[test]
fn the_worker_ends_with_the_request() {
    let fixture = filled(0);
    let mut killed = 0;
    for checks in (0..400).step_by(7) {
        let helping = Helping::new(i64::MAX, checks);
        if let Err(error) = run(&fixture, "{}", &helping) {
            assert_eq!(Error::code(&error), Code::INTERRUPTED);
            killed += 1;
        }
        assert_eq!(helping.out.load(SeqCst), 0);
    }
    assert!(killed > 10, "{killed}");
}
