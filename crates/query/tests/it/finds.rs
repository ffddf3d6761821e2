//! The use of executions: batches, parking, interruption, and dropped collections and indexes.

use std::sync::atomic::{AtomicU32, Ordering};

use nagi_error::{Code, Result, bail};
use nagi_query::{Env, Execution, FindRequest, Interrupt, Take, find};
use nagi_store::IndexSelector;

use crate::fixture::{Fixture, NOW_MS, doc};

fn filled(count: usize) -> Fixture {
    let fixture = Fixture::new();
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    for n in 0..count {
        fixture.insert(&format!("{{_id: {n}, a: {n}}}")).unwrap();
    }
    fixture
}

fn open(fixture: &Fixture, filter: &str, limit: Option<u64>) -> Execution {
    let filter = doc(filter);
    let request = FindRequest { filter: filter.as_doc(), limit, ..FindRequest::new(&fixture.ns) };
    find(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap()
}

/// Takes `count` documents. Returns the number received, and true if there may be more.
fn take(execution: &mut Execution, count: usize) -> Result<(usize, bool)> {
    let mut taken = 0;
    let more = execution.batch(&(), &mut |_| {
        taken += 1;
        Ok(if taken == count { Take::Last } else { Take::More })
    })?;
    Ok((taken, more))
}

/// Cancels the operation after a number of interrupt checks.
struct StopAfter(AtomicU32);

impl Interrupt for StopAfter {
    fn check(&self) -> Result<()> {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            bail!(Code::INTERRUPTED, "operation was interrupted");
        }
        Ok(())
    }
}

#[test]
fn batches_go_on_where_the_last_one_ended() {
    let fixture = filled(10);
    for filter in ["{}", "{a: {$gte: 0}}", "{$or: [{a: {$lt: 5}}, {_id: {$gte: 3}}]}"] {
        let mut execution = open(&fixture, filter, None);
        assert_eq!(take(&mut execution, 4).unwrap(), (4, true), "{filter}");
        execution.save();
        assert_eq!(take(&mut execution, 4).unwrap(), (4, true), "{filter}");
        execution.save();
        assert_eq!(take(&mut execution, 4).unwrap(), (2, false), "{filter}");
        assert_eq!(take(&mut execution, 4).unwrap(), (0, false), "{filter}");
    }
}

#[test]
fn a_limit_that_is_reached_ends_the_execution_at_once() {
    let fixture = filled(10);
    assert_eq!(take(&mut open(&fixture, "{}", Some(4)), 4).unwrap(), (4, false));
    assert_eq!(take(&mut open(&fixture, "{}", None), 10).unwrap(), (10, true));
}

#[test]
fn a_refused_document_comes_first_in_the_next_batch() {
    let fixture = filled(3);
    let mut execution = open(&fixture, "{}", None);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut taken = 0;
        execution
            .batch(&(), &mut |doc| {
                taken += 1;
                if taken > 2 {
                    return Ok(Take::Refused);
                }
                seen.push(format!("{:?}", doc.get("_id")));
                Ok(Take::More)
            })
            .unwrap();
        execution.save();
    }
    assert_eq!(seen, ["Int32(0)", "Int32(1)", "Int32(2)"]);
}

#[test]
fn an_interrupt_stops_a_scan_that_returns_nothing() {
    let fixture = filled(2000);
    for filter in ["{b: 1}", "{a: {$gte: 0}, b: 1}"] {
        let mut execution = open(&fixture, filter, None);
        let stop = StopAfter(AtomicU32::new(3));
        let error = execution.batch(&stop, &mut |_| Ok(Take::More)).unwrap_err();
        assert_eq!(error.code(), Code::INTERRUPTED, "{filter}");
    }
}

#[test]
fn a_read_of_something_dropped_fails() {
    let fixture = filled(10);
    let mut by_index = open(&fixture, "{a: {$gte: 0}}", None);
    let mut by_scan = open(&fixture, "{}", None);
    for execution in [&mut by_index, &mut by_scan] {
        assert_eq!(take(execution, 2).unwrap(), (2, true));
        execution.save();
    }
    fixture.store.drop_indexes(&fixture.ns, IndexSelector::Name("a_1")).unwrap();
    assert_eq!(take(&mut by_index, 2).unwrap_err().code(), Code::QUERY_PLAN_KILLED);
    assert_eq!(take(&mut by_scan, 2).unwrap(), (2, true));
    by_scan.save();
    fixture.store.drop_collection(&fixture.ns).unwrap();
    assert_eq!(take(&mut by_scan, 2).unwrap_err().code(), Code::QUERY_PLAN_KILLED);
}
