//! Like `any_plan`, for writes: an update, a delete and a findAndModify with any plan change the documents that a
//! collection scan finds, and afterwards every index matches the documents.

use nagi_bson::DocBuf;
use nagi_query::{
    CountRequest, DeleteStatement, Env, FindAndModifyRequest, Hint, UpdateStatement, count, delete,
    find_and_modify, update,
};
use nagi_store::Durability;

use crate::any_plan::{Case, INDEXES, Random, cases, document, filter, sort};
use crate::fixture::{Fixture, NOW_MS, doc};

const QUERIES_EACH: u64 = 20;

fn ids(docs: &[DocBuf]) -> Vec<String> {
    let mut out: Vec<String> = docs.iter().map(|doc| doc.get("_id").to_string()).collect();
    out.sort();
    out
}

fn case<'f>(fixture: &'f Fixture, filter: &str, sort: &str) -> Case<'f> {
    Case {
        fixture,
        filter: doc(filter),
        sort: doc(sort),
        projection: DocBuf::new(),
        skip: 0,
        limit: None,
        collation: None,
    }
}

fn scanned(fixture: &Fixture, filter: &str, sort: &str) -> Option<Vec<DocBuf>> {
    let natural = doc("{$natural: 1}");
    case(fixture, filter, sort).run(Some(Hint::Key(natural.as_doc())), usize::MAX)
}

/// Indexes that contain every document.
fn hint<'h>(hints: &'h [String], random: &mut Random) -> Option<Hint<'h>> {
    let partly = ["sparse", "partial", "hashed", "sphere", "2d", "wild"];
    let name = &hints[random.below(hints.len())];
    let whole = !partly.iter().any(|kind| name.contains(kind));
    (whole && random.below(2) == 0).then_some(Hint::Name(name))
}

fn valid(fixture: &Fixture, context: &str) {
    let collection = fixture.store.collection(&fixture.ns).unwrap();
    let report = fixture.store.validate(&collection).unwrap();
    assert!(report.errors.is_empty(), "{context}: {:?}", report.errors);
}

/// Marks the documents that match; the mark is in wildcard indexes, too.
fn updated(fixture: &Fixture, hints: &[String], random: &mut Random, seed: u64, mark: u64) {
    let text = filter(random);
    let Some(expected) = scanned(fixture, &text, "{}") else { return };
    let env = Env::new(&(), NOW_MS);
    let (query, hint) = (doc(&text), hint(hints, random));
    let change = doc(&format!("{{$set: {{z: {mark}}}}}"));
    let statement = UpdateStatement {
        multi: true,
        hint,
        ..UpdateStatement::new(query.as_doc(), change.as_doc().into())
    };
    let context = format!("seed {seed} update {text} hint {hint:?}");
    let done = update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env);
    let done = done.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(done.matched as usize, expected.len(), "{context}");
    let marked = scanned(fixture, &format!("{{z: {mark}}}"), "{}").unwrap();
    assert_eq!(ids(&marked), ids(&expected), "{context}");
    counted(fixture, &text, hint, random, expected.len(), &context);
}

/// A count with skip and limit.
fn counted(
    fixture: &Fixture,
    text: &str,
    hint: Option<Hint<'_>>,
    random: &mut Random,
    all: usize,
    context: &str,
) {
    let query = doc(text);
    let (skip, limit) = (random.below(4), random.below(6) as u64);
    let request = CountRequest {
        filter: query.as_doc(),
        skip: skip as u64,
        limit: (limit > 0).then_some(limit),
        hint,
        ..CountRequest::new(&fixture.ns)
    };
    let counted = count(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
    let left = all.saturating_sub(skip);
    let wanted = if limit > 0 { left.min(limit as usize) } else { left };
    assert_eq!(counted.count as usize, wanted, "{context} count skip {skip} limit {limit}");
}

/// Removes the first document of an order, or any. Returns the documents that existed.
fn removed(fixture: &Fixture, hints: &[String], random: &mut Random, seed: u64) {
    // The order ends with _id, so that the first document is determined.
    let (text, order) = (filter(random), sort(random));
    let order = match order.as_str() {
        "{}" => "{_id: 1}".to_owned(),
        order if order.contains("_id") => order.to_owned(),
        order => format!("{}, _id: -1}}", &order[..order.len() - 1]),
    };
    let Some(expected) = scanned(fixture, &text, &order) else { return };
    let env = Env::new(&(), NOW_MS);
    let (query, ordered, hint) = (doc(&text), doc(&order), hint(hints, random));
    let request = FindAndModifyRequest {
        filter: query.as_doc(),
        sort: ordered.as_doc(),
        remove: true,
        hint,
        ..FindAndModifyRequest::new(&fixture.ns)
    };
    let context = format!("seed {seed} findAndModify {text} sort {order} hint {hint:?}");
    let done = find_and_modify(&fixture.store, &request, Durability::Buffered, &env);
    let done = done.unwrap_or_else(|error| panic!("{context}: {error}"));
    let seen = done.value.map(|doc| doc.get("_id").to_string());
    assert_eq!(seen, expected.first().map(|doc| doc.get("_id").to_string()), "{context}");
}

fn deleted(fixture: &Fixture, hints: &[String], random: &mut Random, seed: u64) {
    let text = filter(random);
    let Some(expected) = scanned(fixture, &text, "{}") else { return };
    let before = scanned(fixture, "{}", "{}").unwrap();
    let env = Env::new(&(), NOW_MS);
    let (query, hint) = (doc(&text), hint(hints, random));
    let statement = DeleteStatement { hint, ..DeleteStatement::new(query.as_doc(), true) };
    let context = format!("seed {seed} delete {text} hint {hint:?}");
    let count = delete(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env);
    let count = count.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(count as usize, expected.len(), "{context}");
    let gone = ids(&expected);
    let left: Vec<String> = ids(&before).into_iter().filter(|id| !gone.contains(id)).collect();
    assert_eq!(ids(&scanned(fixture, "{}", "{}").unwrap()), left, "{context}");
}

fn one_collection(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
    let fixture = Fixture::of_kind(seed);
    let mut hints = vec!["_id_".to_owned()];
    for _ in 0..1 + random.below(4) {
        let text = random.one(INDEXES);
        let name = doc(text).get("name").as_str().unwrap().to_owned();
        if !hints.contains(&name) && fixture.try_index(text).is_ok() {
            hints.push(name);
        }
    }
    for id in 0..20 + random.below(40) as u64 {
        // Parallel arrays and arrays in hashed fields are refused.
        let _ = fixture.insert(&document(&mut random, id));
    }
    for mark in 0..QUERIES_EACH - 6 {
        updated(&fixture, &hints, &mut random, seed, mark);
    }
    for _ in 0..4 {
        removed(&fixture, &hints, &mut random, seed);
    }
    valid(&fixture, &format!("seed {seed} after updates, indexes {hints:?}"));
    deleted(&fixture, &hints, &mut random, seed);
    deleted(&fixture, &hints, &mut random, seed);
    valid(&fixture, &format!("seed {seed} after deletes, indexes {hints:?}"));
}

#[test]
fn writes_by_any_plan_change_what_a_scan_finds() {
    for seed in 1..=cases().div_ceil(QUERIES_EACH) {
        one_collection(seed);
    }
}
