//! Write statements: their changes, their replies, and that they do not meet their own changes.

use nagi_bson::{Doc, DocBuf};
use nagi_query::{
    DeleteStatement, Env, FindAndModifyRequest, FindRequest, InsertStatement, UpdateStatement,
    delete, find_and_modify, insert, update,
};
use nagi_store::Durability;

use crate::fixture::{Fixture, NOW_MS, doc};

fn filled() -> Fixture {
    let fixture = Fixture::new();
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    for n in 0..1200 {
        fixture.insert(&format!("{{_id: {n}, a: {n}}}")).unwrap();
    }
    fixture
}

fn run(fixture: &Fixture, filter: &str, change: &str, multi: bool, upsert: bool) -> String {
    let (filter, change) = (doc(filter), doc(change));
    let statement = UpdateStatement {
        multi,
        upsert,
        ..UpdateStatement::new(filter.as_doc(), change.as_doc().into())
    };
    let env = Env::new(&(), NOW_MS);
    match update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env) {
        Ok(done) => format!("{} {} {:?}", done.matched, done.modified, done.upserted),
        Err(error) => format!("error {error}"),
    }
}

fn all(fixture: &Fixture, filter: &str) -> Vec<DocBuf> {
    let filter = doc(filter);
    fixture.find(&FindRequest { filter: filter.as_doc(), ..FindRequest::new(&fixture.ns) }).unwrap()
}

#[test]
fn an_update_of_the_scanned_key_changes_each_document_once() {
    let fixture = filled();
    assert_eq!(run(&fixture, "{a: {$gte: 0}}", "{$inc: {a: 1000}}", true, false), "1200 1200 None");
    assert_eq!(all(&fixture, "{a: {$gte: 1000, $lt: 2200}}").len(), 1200);
    assert_eq!(all(&fixture, "{a: {$gte: 2200}}").len(), 0);
}

#[test]
fn an_update_without_effect_matches_and_does_not_modify() {
    let fixture = filled();
    assert_eq!(run(&fixture, "{a: {$lt: 10}}", "{$set: {b: 1}}", true, false), "10 10 None");
    assert_eq!(run(&fixture, "{a: {$lt: 10}}", "{$set: {b: 1}}", true, false), "10 0 None");
    assert_eq!(run(&fixture, "{a: {$lt: 10}}", "{$set: {b: 2}}", false, false), "1 1 None");
    assert_eq!(
        run(&fixture, "{}", "{c: 1}", true, false),
        "error 9 FailedToParse: multi update is not supported for replacement-style update"
    );
}

#[test]
fn an_upsert_inserts_what_filter_and_update_say() {
    let fixture = Fixture::new();
    assert_eq!(run(&fixture, "{_id: 7, a: 1}", "{$set: {b: 2}}", false, true), "0 0 Some(7)");
    assert_eq!(run(&fixture, "{_id: 7}", "{$set: {b: 3}}", false, true), "1 1 None");
    assert_eq!(format!("{:?}", all(&fixture, "{}")), "[{ _id: 7, a: 1, b: 3 }]");
}

#[test]
fn an_error_in_the_middle_keeps_what_was_done_before() {
    let fixture = Fixture::new();
    fixture.index("{key: {u: 1}, name: 'u_1', unique: true}");
    for n in 0..3 {
        fixture.insert(&format!("{{_id: {n}, u: {n}}}")).unwrap();
    }
    let outcome = run(&fixture, "{}", "{$set: {u: 9}}", true, false);
    assert!(outcome.starts_with("error 11000"), "{outcome}");
    assert_eq!(all(&fixture, "{u: 9}").len(), 1);
    assert_eq!(all(&fixture, "{}").len(), 3);
}

#[test]
fn deletes_remove_the_first_or_all() {
    let fixture = filled();
    let env = Env::new(&(), NOW_MS);
    let filter = doc("{a: {$lt: 700}}");
    let run = |multi| {
        let statement = DeleteStatement::new(filter.as_doc(), multi);
        delete(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env).unwrap()
    };
    assert_eq!(run(false), 1);
    assert_eq!(run(true), 699);
    assert_eq!(run(true), 0);
    assert_eq!(all(&fixture, "{}").len(), 500);
    let collection = fixture.store.collection(&fixture.ns).unwrap();
    assert_eq!(collection.count(), 500);
}

#[test]
fn find_and_modify_gives_the_document_before_or_after() {
    let fixture = filled();
    let env = Env::new(&(), NOW_MS);
    let (filter, sort) = (doc("{a: {$lt: 5}}"), doc("{a: -1}"));
    let (change, fields) = (doc("{$set: {b: 1}}"), doc("{_id: 0, a: 1, b: 1}"));
    let request = FindAndModifyRequest {
        filter: filter.as_doc(),
        sort: sort.as_doc(),
        update: change.as_doc().into(),
        fields: fields.as_doc(),
        ..FindAndModifyRequest::new(&fixture.ns)
    };
    let run = |request: &FindAndModifyRequest<'_>| {
        let done = find_and_modify(&fixture.store, request, Durability::Buffered, &env).unwrap();
        format!("{:?} {} {}", done.value, done.n, done.updated_existing)
    };
    assert_eq!(run(&request), "Some({ a: 4 }) 1 true");
    assert_eq!(run(&FindAndModifyRequest { new: true, ..request }), "Some({ a: 4, b: 1 }) 1 true");
    let remove = FindAndModifyRequest {
        remove: true,
        update: nagi_bson::Value::Missing,
        fields: Doc::EMPTY,
        ..request
    };
    assert_eq!(run(&remove), "Some({ _id: 4, a: 4, b: 1 }) 1 false");
    assert_eq!(all(&fixture, "{a: 4}").len(), 0);
}

/// Runs the statement `times` times in each of several threads at once.
fn at_once(fixture: &Fixture, filter: &str, change: &str, upsert: bool, times: usize) {
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..times {
                    let outcome = run(fixture, filter, change, false, upsert);
                    assert!(!outcome.starts_with("error"), "{outcome}");
                }
            });
        }
    });
}

#[test]
fn concurrent_increments_are_all_counted() {
    let fixture = Fixture::new();
    fixture.index("{key: {n: 1}, name: 'n_1'}");
    fixture.insert("{_id: 1, n: 0}").unwrap();
    at_once(&fixture, "{_id: 1}", "{$inc: {n: 1}}", false, 100);
    assert_eq!(format!("{:?}", all(&fixture, "{n: 600}")), "[{ _id: 1, n: 600 }]");
}

/// A write comes before or after a concurrent drop: no single-document statement fails because of it.
#[test]
fn writes_beside_drops_have_an_order() {
    let fixture = Fixture::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                fixture.store.drop_collection(&fixture.ns).unwrap();
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                let fixture = &fixture;
                scope.spawn(move || {
                    for n in 0..60 {
                        let env = Env::new(&(), NOW_MS);
                        let one = doc(&format!("{{_id: '{seed}-{n}'}}"));
                        let docs = [one.as_doc()];
                        let statement = InsertStatement {
                            docs: &docs,
                            ordered: true,
                            done: &[],
                            statement: None,
                            durability: Durability::Buffered,
                            bypass_validation: false,
                            keep_empty_timestamps: false,
                            encryption: None,
                        };
                        let store = &fixture.store;
                        let inserted = insert(store, &fixture.ns, &statement, &env);
                        assert_eq!(inserted.map(|outcome| outcome.count).ok(), Some(1));
                        let own = format!("{{_id: 'u{seed}'}}");
                        let outcome = run(fixture, &own, "{$inc: {n: 1}}", false, true);
                        assert!(!outcome.starts_with("error"), "{outcome}");
                        let filter = doc(&own);
                        let statement = DeleteStatement::new(filter.as_doc(), false);
                        let durability = Durability::Buffered;
                        delete(store, &fixture.ns, &statement, durability, &env).unwrap();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

#[test]
fn concurrent_upserts_make_one_document() {
    let fixture = Fixture::new();
    fixture.index("{key: {k: 1}, name: 'k_1', unique: true}");
    at_once(&fixture, "{k: 'x'}", "{$inc: {n: 1}}", true, 50);
    let found = all(&fixture, "{}");
    assert_eq!(found.len(), 1);
    assert_eq!(format!("{:?}", found[0].get("n")), "Int32(300)");
}
