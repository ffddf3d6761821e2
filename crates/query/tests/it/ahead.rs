//! Read-ahead of records: results, counters and positions are the same as if each record were read on request.

use nagi_bson::DocBuf;
use nagi_query::{Env, Execution, FindRequest, Take, find};
use nagi_store::WriteOptions;

use crate::fixture::{Ahead, Fixture, NOW_MS, doc, drain};

const BOUNDS: [usize; 6] = [1, 2, 3, 32, 33, 256];

fn filled(count: usize) -> Fixture {
    let fixture = Fixture::new();
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    for n in 0..count {
        // Neighbours by key are not neighbours by record.
        let a = n * 37 % count;
        fixture.insert(&format!("{{_id: {n}, a: {a}, odd: {}}}", a % 2)).unwrap();
    }
    fixture
}

fn open(fixture: &Fixture, filter: &str, limit: Option<u64>, skip: u64) -> Execution {
    let (filter, sort) = (doc(filter), doc("{a: 1}"));
    let request = FindRequest {
        filter: filter.as_doc(),
        sort: sort.as_doc(),
        limit,
        skip,
        ..FindRequest::new(&fixture.ns)
    };
    find(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap()
}

/// The field `a` of up to `count` documents of a batch.
fn take(execution: &mut Execution, count: usize, ahead: usize) -> Vec<i64> {
    let mut out = Vec::new();
    if count > 0 {
        execution
            .batch(&Ahead(ahead), &mut |doc| {
                out.push(number(&doc.to_buf()));
                Ok(if out.len() == count { Take::Last } else { Take::More })
            })
            .unwrap();
    }
    out
}

fn number(doc: &DocBuf) -> i64 {
    nagi_bson::number::as_i64_exact(doc.get("a")).unwrap_or(-1)
}

fn delete(fixture: &Fixture, a: i64) {
    let filter = doc(&format!("{{a: {a}}}"));
    let statement = nagi_query::DeleteStatement::new(filter.as_doc(), true);
    let durability = WriteOptions::default().durability;
    let env = Env::new(&(), NOW_MS);
    let gone = nagi_query::delete(&fixture.store, &fixture.ns, &statement, durability, &env);
    assert_eq!(gone.unwrap(), 1, "{a}");
}

fn change(fixture: &Fixture, filter: &str, update: &str) {
    let (filter, update) = (doc(filter), doc(update));
    let statement = nagi_query::UpdateStatement::new(filter.as_doc(), update.as_doc().into());
    let durability = WriteOptions::default().durability;
    let env = Env::new(&(), NOW_MS);
    let done = nagi_query::update(&fixture.store, &fixture.ns, &statement, durability, &env);
    assert_eq!(done.unwrap().matched, 1);
}

#[test]
fn limits_and_skips_count_what_they_return() {
    let fixture = filled(300);
    for limit in [1, 2, 3, 4, 7, 100, 101, 102, 255, 256, 257, 299, 300, 301, 1000] {
        for skip in [0, 1, 2, 63, 101, 299, 300, 301] {
            for bound in BOUNDS {
                let mut execution = open(&fixture, "{a: {$gte: 0}}", Some(limit), skip);
                let found = take(&mut execution, usize::MAX, bound);
                let end = (skip + limit).min(300);
                let expected: Vec<i64> = (skip as i64..end as i64).collect();
                assert_eq!(found, expected, "limit {limit} skip {skip} bound {bound}");
                let stats = execution.stats();
                // The trial of the plan, if there was one, has examined no more.
                let read = end.saturating_sub(skip);
                assert_eq!(stats.docs_examined, read, "limit {limit} skip {skip} bound {bound}");
                assert!(stats.keys_examined <= end + 1, "limit {limit} skip {skip} bound {bound}");
            }
        }
    }
}

#[test]
fn a_batch_counts_what_it_returned() {
    let fixture = filled(300);
    for bound in BOUNDS {
        for size in [1, 2, 3, 5, 50, 101, 150] {
            let mut execution = open(&fixture, "{a: {$gte: 0}}", None, 0);
            let mut seen = Vec::new();
            while seen.len() < 300 {
                seen.extend(take(&mut execution, size, bound));
                let stats = execution.stats();
                let count = seen.len() as u64;
                assert_eq!((stats.docs_examined, stats.keys_examined), (count, count));
                if seen.len() % 2 == 0 {
                    execution.save();
                }
            }
            assert_eq!(seen, (0..300).collect::<Vec<i64>>(), "size {size} bound {bound}");
            assert_eq!(take(&mut execution, size, bound), []);
        }
    }
}

#[test]
fn what_is_filtered_out_counts_as_looked_at() {
    let fixture = filled(200);
    for bound in BOUNDS {
        let mut execution = open(&fixture, "{a: {$gte: 0}, odd: 1}", Some(20), 0);
        let found = take(&mut execution, usize::MAX, bound);
        assert_eq!(found, (0..20).map(|n| 2 * n + 1).collect::<Vec<i64>>());
        let stats = execution.stats();
        assert_eq!((stats.docs_examined, stats.keys_examined), (40, 40), "bound {bound}");
    }
}

#[test]
fn changes_between_batches_are_seen() {
    for bound in BOUNDS {
        let fixture = filled(120);
        let mut execution = open(&fixture, "{a: {$gte: 0, $lt: 100}}", None, 0);
        let size = 10;
        assert_eq!(take(&mut execution, size, bound), (0..10).collect::<Vec<i64>>());
        execution.save();
        // Changes of the next documents: one is deleted, one leaves the bounds, one moves forward within them, one
        // back.
        delete(&fixture, 10);
        change(&fixture, "{a: 11}", "{$set: {a: 500}}");
        change(&fixture, "{a: 12}", "{$set: {a: 99.5}}");
        change(&fixture, "{a: 13}", "{$set: {a: -1}}");
        change(&fixture, "{a: 14}", "{$set: {odd: 'changed'}}");
        let mut seen = Vec::new();
        let mut changed = 0;
        execution
            .batch(&Ahead(bound), &mut |doc| {
                changed += usize::from(doc.get("odd").as_str() == Some("changed"));
                seen.push(number(&doc.to_buf()));
                Ok(Take::More)
            })
            .unwrap();
        let mut expected: Vec<i64> = (14..100).collect();
        // A value that is no integer is shown as -1.
        expected.push(-1);
        assert_eq!((seen, changed), (expected, 1), "bound {bound}");
    }
}

#[test]
fn records_of_several_entries_come_once_over_batches() {
    let fixture = Fixture::new();
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    for n in 0..150 {
        fixture.insert(&format!("{{_id: {n}, a: [{n}, {}, {}]}}", n + 1, 300 - n)).unwrap();
    }
    let filter = doc("{a: {$gte: 0}}");
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(&fixture.ns) };
    for batch in [1, 2, 3, 10, 11, 64, 65, 1000] {
        let execution = find(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
        let found = drain(execution, batch).unwrap();
        let mut ids: Vec<String> = found.iter().map(|doc| doc.get("_id").to_string()).collect();
        assert_eq!(ids.len(), 150, "batch {batch}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 150, "batch {batch}");
    }
}

/// The records exceed the read-ahead memory and have very different sizes.
#[test]
fn large_records_among_small_ones() {
    let fixture = Fixture::new();
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    for n in 0..160 {
        let bytes = if n > 40 && n % 3 == 0 { 150_000 } else { 10 };
        let text: String = "xy".repeat(bytes / 2);
        fixture.insert(&format!("{{_id: {}, a: {n}, text: '{n} {text}'}}", 1000 - n)).unwrap();
    }
    for bound in BOUNDS {
        let mut execution = open(&fixture, "{a: {$gte: 0}}", None, 0);
        let mut next = 0;
        execution
            .batch(&Ahead(bound), &mut |doc| {
                let text = doc.get("text").as_str().unwrap_or("");
                assert_eq!(number(&doc.to_buf()), next, "bound {bound}");
                assert!(text.starts_with(&format!("{next} x")), "bound {bound}");
                assert_eq!(text.len() > 1000, next > 40 && next % 3 == 0, "bound {bound}");
                next += 1;
                Ok(Take::More)
            })
            .unwrap();
        assert_eq!((next, execution.stats().docs_examined), (160, 160), "bound {bound}");
    }
}
