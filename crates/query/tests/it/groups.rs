//! Multi-document writes and statements by `_id` in groups, beside other writers of the same documents.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};
use std::thread;

use nagi_bson::Value;
use nagi_error::Code;
use nagi_query::{
    ById, ByIds, DeleteStatement, Env, FindRequest, Interrupt, UpdateStatement, change_by_ids,
    delete, update,
};
use nagi_store::Durability;

use crate::fixture::{Fixture, NOW_MS, doc};

const DOCS: i64 = 700;

fn filled(number: u64) -> Fixture {
    let fixture = Fixture::of_kind(number);
    for id in 0..DOCS {
        fixture.insert(&format!("{{_id: {id}, n: 0, k: {}}}", id % 7)).unwrap();
    }
    fixture
}

/// The fields `field` of all documents, in the order of `_id`.
fn values(fixture: &Fixture, field: &str) -> Vec<i64> {
    let sort = doc("{_id: 1}");
    let request = FindRequest { sort: sort.as_doc(), ..FindRequest::new(&fixture.ns) };
    let docs = fixture.find(&request).unwrap();
    docs.iter()
        .map(|doc| match doc.get(field) {
            Value::Int32(n) => n.into(),
            Value::Int64(n) => n,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn update_many(fixture: &Fixture, filter: &str, change: &str) -> u64 {
    let (filter, change) = (doc(filter), doc(change));
    let statement = UpdateStatement {
        multi: true,
        ..UpdateStatement::new(filter.as_doc(), change.as_doc().into())
    };
    let env = Env::new(&(), NOW_MS);
    let done = update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env);
    done.unwrap().modified
}

fn by_ids(fixture: &Fixture, ids: &[i64], change: Option<&str>) -> Vec<(bool, bool)> {
    let change = change.map(doc);
    let update = change.as_ref().map(|change| Value::Doc(change.as_doc()));
    let statements: Vec<_> = ids.iter().map(|id| ById { id: Value::Int64(*id), update }).collect();
    let of = ByIds {
        statements: &statements,
        statement: None,
        bypass_validation: false,
        keep_empty_timestamps: false,
    };
    let env = Env::new(&(), NOW_MS);
    let done = change_by_ids(&fixture.store, &fixture.ns, &of, &env).unwrap();
    done.into_iter().map(|one| (one.matched, one.modified)).collect()
}

#[test]
fn no_change_of_another_writer_is_lost() {
    for kind in 0..4 {
        let fixture = filled(kind);
        fixture.index("{key: {n: 1}, name: 'n_1'}");
        let (done, single, grouped) =
            (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for seed in 0..2 {
                let (fixture, done, single) = (&fixture, &done, &single);
                scope.spawn(move || {
                    let mut id = seed;
                    while !done.load(SeqCst) {
                        id = (id * 31 + 17) % DOCS;
                        let filter = format!("{{_id: {id}}}");
                        single.fetch_add(update_many(fixture, &filter, "{$inc: {n: 1}}"), SeqCst);
                    }
                });
            }
            let (fixture, done, grouped) = (&fixture, &done, &grouped);
            scope.spawn(move || {
                while !done.load(SeqCst) {
                    let ids: Vec<i64> = (0..40).map(|at| at * 13 % DOCS).collect();
                    let changed = by_ids(fixture, &ids, Some("{$inc: {n: 1}}"));
                    grouped.fetch_add(changed.len() as u64, SeqCst);
                }
            });
            for round in 1..=8 {
                // By a scan, and by an index whose keys change.
                let filter = if round % 2 == 0 { "{n: {$gte: 0}}" } else { "{}" };
                assert_eq!(update_many(fixture, filter, "{$inc: {n: 1}}"), DOCS as u64);
            }
            done.store(true, SeqCst);
        });
        let sum: i64 = values(&fixture, "n").iter().sum();
        let expected = 8 * DOCS as u64 + single.load(SeqCst) + grouped.load(SeqCst);
        assert_eq!(sum as u64, expected, "kind {kind}");
    }
}

#[test]
fn a_document_that_no_longer_matches_is_left_alone() {
    let fixture = filled(0);
    let barrier = Barrier::new(2);
    let taken: u64 = thread::scope(|scope| {
        // Whoever changes `k` first decides: only one of both updates may find 3.
        let clients = [30, 31].map(|to| {
            let (fixture, barrier) = (&fixture, &barrier);
            scope.spawn(move || {
                let change = format!("{{$set: {{k: {to}}}, $inc: {{n: 1}}}}");
                barrier.wait();
                update_many(fixture, "{k: 3, n: 0}", &change)
            })
        });
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(taken, DOCS as u64 / 7);
    assert!(values(&fixture, "n").iter().all(|n| *n <= 1));
}

#[test]
fn deletes_in_groups_count_what_they_removed() {
    let fixture = filled(1);
    let removed = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let filter = doc("{k: {$lt: 5}}");
                let statement = DeleteStatement::new(filter.as_doc(), true);
                let env = Env::new(&(), NOW_MS);
                let (store, ns) = (&fixture.store, &fixture.ns);
                let count = delete(store, ns, &statement, Durability::Buffered, &env).unwrap();
                removed.fetch_add(count, SeqCst);
            });
        }
    });
    assert_eq!(removed.load(SeqCst), DOCS as u64 / 7 * 5);
    assert_eq!(values(&fixture, "n").len() as i64, DOCS / 7 * 2);
}

/// Drops the collection when the statement has committed its first group; with `gone`, the records are removed as well
/// before the statement continues.
struct Drops<'f> {
    fixture: &'f Fixture,
    done: AtomicBool,
    gone: bool,
}

impl Interrupt for Drops<'_> {
    fn check(&self) -> nagi_error::Result<()> {
        Ok(())
    }

    fn yielded(&self, _: bool) {
        let Fixture { store, ns, .. } = self.fixture;
        if self.done.swap(true, SeqCst) {
            return;
        }
        let old = store.collection(ns).unwrap();
        store.drop_collection(ns).unwrap();
        let has_records = || {
            let snapshot = store.snapshot().unwrap();
            snapshot.reader().scan(&old, true).unwrap().advance().unwrap()
        };
        while self.gone && has_records() {
            thread::yield_now();
        }
    }
}

#[test]
fn a_drop_in_the_middle_is_an_error() {
    for (gone, filter) in [(false, "{}"), (true, "{}"), (true, "{_id: {$gte: 0}}")] {
        let fixture = filled(0);
        let drops = Drops { fixture: &fixture, done: AtomicBool::new(false), gone };
        let (filter, change) = (doc(filter), doc("{$inc: {n: 1}}"));
        let statement = UpdateStatement {
            multi: true,
            ..UpdateStatement::new(filter.as_doc(), change.as_doc().into())
        };
        let env = Env::new(&drops, NOW_MS);
        let done = update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env);
        assert_eq!(done.unwrap_err().code(), Code::QUERY_PLAN_KILLED, "{gone}");
    }
}

#[test]
fn statements_by_id_stop_before_a_repeated_id() {
    for kind in 0..4 {
        let fixture = filled(kind);
        let done = by_ids(&fixture, &[5, 9000, 3, 5, 4], Some("{$inc: {n: 1}}"));
        assert_eq!(done, [(true, true), (false, false), (true, true)]);
        assert_eq!(by_ids(&fixture, &[5], Some("{$set: {n: 1}}")), [(true, false)]);
        assert_eq!(
            by_ids(&fixture, &[4, 9000, 3], None),
            [(true, true), (false, false), (true, true)]
        );
        assert_eq!(values(&fixture, "n").len() as i64, DOCS - 2);
        // An error anywhere: nothing is written, and the caller executes them one by one.
        assert_eq!(by_ids(&fixture, &[6, 7], Some("{$push: {n: 1}}")), []);
        assert_eq!(by_ids(&fixture, &[6, 7], Some("{$set: {'k.$': 1}}")), []);
        assert_eq!(values(&fixture, "n")[6 - 2], 0);
    }
}
