//! Index intersection: it is chosen where it pays, and then returns the result of a collection scan, also when
//! documents are inserted, deleted and changed between two batches.

use nagi_bson::Doc;
use nagi_query::{Env, FindRequest, Hint, find};

use crate::any_plan::{Random, cases, sorted};
use crate::fixture::{Fixture, NOW_MS, doc, drain};

fn request<'r>(fixture: &'r Fixture, filter: Doc<'r>) -> FindRequest<'r> {
    FindRequest { filter, ..FindRequest::new(&fixture.ns) }
}

fn plan(fixture: &Fixture, filter: &str) -> String {
    let filter = doc(filter);
    fixture.plan(&request(fixture, filter.as_doc()))
}

/// `a` and `b` each match a tenth, both together a hundredth.
fn tenths() -> Fixture {
    let fixture = Fixture::new();
    for id in 0..2000 {
        fixture.insert(&format!("{{_id: {id}, a: {}, b: {}}}", id % 10, id / 10 % 10)).unwrap();
    }
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    fixture.index("{key: {b: -1}, name: 'b_-1'}");
    fixture
}

#[test]
fn it_is_chosen_where_each_index_alone_reads_too_much() {
    let fixture = tenths();
    let both = "FETCH < AND_SORTED < IXSCAN a_1 < IXSCAN b_-1";
    assert_eq!(plan(&fixture, "{a: 3, b: 4}"), both);
    // The entries of a range are not in the order of records.
    assert!(!plan(&fixture, "{a: 3, b: {$gt: 4}}").contains("AND"));
    // No document matches: one search in one index is enough.
    assert!(!plan(&fixture, "{a: 3, b: 77}").contains("AND"));
    fixture.index("{key: {a: 1, b: 1}, name: 'a_1_b_1'}");
    assert_eq!(plan(&fixture, "{a: 3, b: 4}"), "FETCH < IXSCAN a_1_b_1");
}

#[test]
fn few_documents_are_read_through_the_narrow_index_alone() {
    let fixture = Fixture::new();
    for id in 0..2000 {
        fixture.insert(&format!("{{_id: {id}, a: {id}, b: {}}}", id % 2)).unwrap();
    }
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    fixture.index("{key: {b: 1}, name: 'b_1'}");
    assert_eq!(plan(&fixture, "{a: 500, b: 0}"), "FETCH < IXSCAN a_1");
}

#[test]
fn documents_that_change_between_batches_are_asked_again() {
    let fixture = tenths();
    let filter = doc("{a: 3, b: 4}");
    let env = Env::new(&(), NOW_MS);
    let mut execution =
        find(&fixture.store, &request(&fixture, filter.as_doc()), &env).expect("plans");
    execution.save();
    // The trial has recorded its results; the documents after them must be up to date.
    for id in 2000..2400 {
        let b = if id < 2200 { 4 } else { 5 };
        fixture.insert(&format!("{{_id: {id}, a: 3, b: {b}}}")).unwrap();
    }
    let found = drain(execution, 7).unwrap();
    assert!(found.len() >= 20);
    for found in &found {
        assert_eq!(found.get("a"), nagi_bson::Value::Int32(3));
        assert_eq!(found.get("b"), nagi_bson::Value::Int32(4));
    }
}

/// A collection with random values, and queries that use all of its indexes.
fn one_collection(seed: u64) -> u64 {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let fixture = Fixture::new();
    let (many_a, many_b, many_c) =
        (2 + random.below(12), 2 + random.below(12), 1 + random.below(6));
    let arrays = random.chance(30);
    for id in 0..600 {
        let a = match random.below(40) {
            0 => "null".to_owned(),
            1 => format!("NumberLong({})", random.below(many_a)),
            2 if arrays => format!("[{}, {}]", random.below(many_a), random.below(many_a)),
            _ => random.below(many_a).to_string(),
        };
        let c = match random.chance(50) {
            true => format!(", c: 'c{}'", random.below(many_c)),
            false => String::new(),
        };
        let b = random.below(many_b);
        fixture.insert(&format!("{{_id: {id}, a: {a}, b: {b}{c}}}")).unwrap();
    }
    for key in ["{a: 1}", "{b: -1}", "{c: 1}", "{c: 1, b: 1}", "{a: 'hashed'}"] {
        // Arrays cannot be hashed.
        if random.chance(70) && !(arrays && key.contains("hashed")) {
            fixture.index(&format!("{{key: {key}, name: \"{key}\"}}"));
        }
    }
    let mut intersected = 0;
    for _ in 0..20 {
        let a = match random.below(6) {
            0 => "null".to_owned(),
            1 => format!("{}.0", random.below(many_a)),
            _ => random.below(many_a).to_string(),
        };
        let c = random.one(&["", ", c: 'c0'", ", c: null", ", c: {$gt: 'c'}"]);
        let filter = format!("{{a: {a}, b: {}{c}}}", random.below(many_b));
        let wanted = doc(&filter);
        let asked = request(&fixture, wanted.as_doc());
        intersected += u64::from(fixture.plan(&asked).contains("AND_SORTED"));
        let natural = doc("{$natural: 1}");
        let scanned = FindRequest { hint: Some(Hint::Key(natural.as_doc())), ..asked };
        let expected = sorted(&fixture.find(&scanned).unwrap());
        let env = Env::new(&(), NOW_MS);
        let batch = 1 + random.below(9);
        let found = drain(find(&fixture.store, &asked, &env).unwrap(), batch).unwrap();
        assert_eq!(sorted(&found), expected, "seed {seed}: {filter}");
    }
    intersected
}

#[test]
fn an_intersection_returns_what_a_collection_scan_returns() {
    let collections = cases().div_ceil(100);
    let intersected: u64 = (1..=collections).map(one_collection).sum();
    assert!(intersected >= collections, "{intersected} intersections in {collections}");
}
