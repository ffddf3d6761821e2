//! An index gets its first array between two batches: conditions that were decided by bounds and keys are then
//! tested on the documents, or the cursor fails if there are no documents.

use nagi_bson::DocBuf;
use nagi_error::Code;
use nagi_query::{Env, FindRequest, Take, find};

use crate::fixture::{Fixture, NOW_MS, doc, drain};

/// The result of a find with `filter` and an index on `key`, if documents with arrays are inserted after its first
/// batch.
fn found(key: &str, filter: &str, projection: &str, plan: &str) -> nagi_error::Result<Vec<DocBuf>> {
    let fixture = Fixture::new();
    for id in 0..300 {
        fixture.insert(&format!("{{_id: {id}, i: {id}, s: 'm{}'}}", id % 10)).unwrap();
    }
    fixture.index(&format!("{{key: {key}, name: 'by'}}"));
    let (filter, projection) = (doc(filter), doc(projection));
    let request = FindRequest {
        filter: filter.as_doc(),
        projection: projection.as_doc(),
        ..FindRequest::new(&fixture.ns)
    };
    assert_eq!(fixture.plan(&request), plan);
    let env = Env::new(&(), NOW_MS);
    let mut execution = find(&fixture.store, &request, &env).expect("plans");
    let first = execution.batch(&(), &mut |_| Ok(Take::Last)).expect("a batch");
    assert!(first, "there is more");
    execution.save();
    for id in 1000..1020 {
        fixture.insert(&format!("{{_id: {id}, i: {id}, s: ['m3', 'y']}}")).unwrap();
    }
    drain(execution, 7)
}

fn returns_no_array_with_m3(key: &str, filter: &str, plan: &str) {
    let found = found(key, filter, "{}", plan).expect("it goes on");
    assert!(found.len() > 200, "{filter}: {}", found.len());
    let wrong = found.iter().find(|found| found.get("s").as_array().is_some());
    assert!(wrong.is_none(), "{filter} returns {wrong:?}");
}

#[test]
fn what_keys_decided_is_asked_of_documents() {
    let fetched = "FETCH < IXSCAN by";
    returns_no_array_with_m3("{s: 1}", "{s: {$ne: 'm3'}}", fetched);
    returns_no_array_with_m3("{s: 1}", "{s: {$nin: ['m3', 'm4']}}", fetched);
    returns_no_array_with_m3("{i: 1, s: 1}", "{i: {$gte: 0}, s: {$ne: 'm3'}}", fetched);
    returns_no_array_with_m3("{i: 1, s: 1}", "{i: {$gte: 0}, s: {$not: /3$/}}", fetched);
}

#[test]
fn records_with_several_entries_come_once() {
    let found = found("{s: 1}", "{s: {$gt: 'm1'}}", "{}", "FETCH < IXSCAN by").expect("it goes on");
    let mut ids: Vec<String> = found.iter().map(|found| found.get("_id").to_string()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
    assert!(ids.contains(&"1000".to_owned()));
}

#[test]
fn what_is_made_of_keys_alone_ends() {
    let covered = "PROJECTION_COVERED < IXSCAN by";
    for filter in ["{s: {$gte: 'm0'}}", "{s: {$ne: 'm3'}}"] {
        let error =
            found("{s: 1}", filter, "{_id: 0, s: 1}", covered).expect_err("keys are no documents");
        assert_eq!(error.code(), Code::QUERY_PLAN_KILLED);
        assert!(error.to_string().contains("index 'by' became multikey"), "{error}");
    }
}
