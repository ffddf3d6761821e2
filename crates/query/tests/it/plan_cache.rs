//! The plan cache: entries become active, bad choices are replaced, changes of indexes drop the entries.

use nagi_bson::{Doc, DocBuf, Value};
use nagi_query::{
    Env, ExecutionStats, FindRequest, Hint, PlanCacheFigures, ShapeRequest, find,
    plan_cache_figures, set_index_filter,
};

use crate::fixture::{Fixture, NOW_MS, doc, drain};

fn stats(fixture: &Fixture, filter: &str) -> (usize, ExecutionStats) {
    let filter = doc(filter);
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(&fixture.ns) };
    let env = Env::new(&(), NOW_MS);
    let mut execution = find(&fixture.store, &request, &env).unwrap();
    let stats = execution.stats();
    (drain(execution, usize::MAX).unwrap().len(), stats)
}

fn figures(fixture: &Fixture) -> PlanCacheFigures {
    plan_cache_figures(&fixture.store)
}

/// `a` and `b` are alternately the better index: 2,000 documents have b = 0, and few have the same a.
fn skewed() -> Fixture {
    let fixture = Fixture::new();
    for id in 0..4000 {
        let (a, b) = if id < 2000 { (id % 500, 0) } else { (999, id) };
        fixture.insert(&format!("{{_id: {id}, a: {a}, b: {b}}}")).unwrap();
    }
    fixture.index("{key: {a: 1}, name: 'a_1'}");
    fixture.index("{key: {b: 1}, name: 'b_1'}");
    fixture
}

#[test]
fn an_entry_becomes_active_and_is_used() {
    let fixture = skewed();
    let (found, first) = stats(&fixture, "{a: 7, b: 0}");
    assert_eq!((found, first.from_multi_planner, first.from_plan_cache), (4, true, false));
    assert_eq!(figures(&fixture).entries, 1);
    // The second trial needs no more work, and the entry becomes active.
    assert!(!stats(&fixture, "{a: 8, b: 0}").1.from_plan_cache);
    let (found, third) = stats(&fixture, "{b: 0, a: 9}");
    assert_eq!((found, third.from_plan_cache, third.from_multi_planner), (4, true, false));
    assert_eq!(third.plan_cache_key, first.plan_cache_key);
    assert_eq!(third.keys_examined, 4);
    let figures = figures(&fixture);
    assert_eq!((figures.hits, figures.misses, figures.replanned), (1, 2, 0));
    assert!(figures.bytes > 0);
}

#[test]
fn a_choice_that_turned_bad_is_made_anew() {
    let fixture = skewed();
    for a in 1..4 {
        stats(&fixture, &format!("{{a: {a}, b: 0}}"));
    }
    // This time `a` leads to 2,000 documents, and `b` to one.
    let (found, replanned) = stats(&fixture, "{a: 999, b: 3000}");
    assert_eq!((found, replanned.from_plan_cache, replanned.from_multi_planner), (1, false, true));
    assert_eq!(replanned.replanned, Some((8, 256)));
    assert_eq!(figures(&fixture).replanned, 1);
    assert_eq!(stats(&fixture, "{a: 999, b: 3001}").0, 1);
    assert_eq!(stats(&fixture, "{a: 3, b: 0}").0, 4);
}

#[test]
fn changes_of_indexes_forget_the_entries() {
    let fixture = skewed();
    for a in 1..4 {
        stats(&fixture, &format!("{{a: {a}, b: 0}}"));
    }
    assert_eq!(figures(&fixture).entries, 1);
    fixture.index("{key: {a: 1, b: 1}, name: 'a_1_b_1'}");
    // The cache of the old version is dropped with its last reader.
    assert_eq!(figures(&fixture).entries, 0);
    assert!(!stats(&fixture, "{a: 5, b: 0}").1.from_plan_cache);
}

#[test]
fn shapes_differ_by_operators_and_paths_only() {
    let fixture = skewed();
    let shape = |filter: &str| stats(&fixture, filter).1.query_hash;
    assert_eq!(shape("{a: 1, b: 2}"), shape("{b: 'x', a: null}"));
    assert_ne!(shape("{a: 1, b: 2}"), shape("{a: 1, b: {$gt: 2}}"));
    assert_ne!(shape("{a: 1, b: 2}"), shape("{a: 1, c: 2}"));
    assert_eq!(shape("{$or: [{a: 1}, {b: 1}]}"), shape("{$or: [{b: 4}, {a: 7}]}"));
}

/// Otherwise all expressions of a collection would share a plan, and a row of slow operations.
#[test]
fn expressions_differ_by_operators_and_paths_only() {
    let fixture = skewed();
    let shape =
        |expr: &str| stats(&fixture, &format!("{{c: {{$gt: -1}}, $expr: {expr}}}")).1.query_hash;
    assert_eq!(shape("{$eq: ['$a', 1]}"), shape("{$eq: ['$a', 'x']}"));
    assert_eq!(shape("{$in: ['$a', [1]]}"), shape("{$in: ['$a', [1, 'x', 3]]}"));
    assert_eq!(shape("{$eq: ['$a', {$literal: 1}]}"), shape("{$eq: ['$a', {$literal: {b: 2}}]}"));
    for other in ["{$gt: ['$a', 1]}", "{$eq: ['$b', 1]}", "{$eq: ['$a', '$b']}", "{$eq: [1, '$a']}"]
    {
        assert_ne!(shape("{$eq: ['$a', 1]}"), shape(other), "{other}");
    }
    assert_ne!(
        shape("{$and: [{$eq: ['$a', 1]}, {$gt: ['$b', 2]}]}"),
        shape("{$or: [{$eq: ['$a', 1]}, {$gt: ['$b', 2]}]}")
    );
}

#[test]
fn index_filters_choose_whatever_is_hinted() {
    let fixture = skewed();
    let env = Env::new(&(), NOW_MS);
    let (query, indexes) = (doc("{a: 1, b: 1}"), doc("{i: ['b_1']}"));
    let Value::Array(indexes) = indexes.get("i") else { unreachable!() };
    let empty = Doc::EMPTY;
    let shape =
        ShapeRequest { query: query.as_doc(), sort: empty, projection: empty, collation: None };
    set_index_filter(&fixture.store, &fixture.ns, &shape, indexes, &env).unwrap();
    let filter: DocBuf = doc("{a: 3, b: 0}");
    let request = FindRequest {
        filter: filter.as_doc(),
        hint: Some(Hint::Name("a_1")),
        ..FindRequest::new(&fixture.ns)
    };
    assert_eq!(fixture.plan(&request), "FETCH < IXSCAN b_1");
    // The index filter survives changes of indexes.
    fixture.index("{key: {c: 1}, name: 'c_1'}");
    assert_eq!(fixture.plan(&request), "FETCH < IXSCAN b_1");
}
