//! Memory of a whole request: every stage that collects documents fails with 146 when the budget is exhausted, and
//! leaves nothing charged.

use std::sync::Arc;

use nagi_budget::{Budget, Metered, Metering, Pool};
use nagi_error::Code;
use nagi_query::{Env, UpdateStatement, update};
use nagi_store::{Durability, Store, StoreOptions};

use super::fixture::{Fixture, NOW_MS, doc};

#[global_allocator]
static ALLOCATOR: Metered<std::alloc::System> = Metered(std::alloc::System);

const MIB: u64 = 1 << 20;

/// Two thousand documents of two kilobytes, with a budget of 32 MiB.
fn fixture() -> Fixture {
    let engine = Arc::new(nagi_kv::Memory::new());
    let options = StoreOptions { budget: Budget::new(32 * MIB), ..StoreOptions::default() };
    let mut fixture = Fixture::new();
    fixture.store = Store::open(engine, options).unwrap();
    let pad = "x".repeat(2000);
    for n in 0..2000 {
        fixture.insert(&format!("{{_id: {n}, a: [{n}, 1, 2], pad: \"{pad}\"}}")).unwrap();
    }
    fixture
}

#[test]
fn what_stages_collect_ends_where_the_budget_does() {
    let fixture = fixture();
    let all = "{$group: {_id: null, l: {$push: \"$$ROOT\"}}}";
    let facets: Vec<String> = (0..50).map(|n| format!("f{n}: [{{$limit: 900}}]")).collect();
    for pipeline in [
        format!("[{all}, {{$set: {{m: [\"$l\", \"$l\", \"$l\", \"$l\", \"$l\", \"$l\"]}}}}]"),
        format!("[{{$facet: {{{}}}}}]", facets.join(", ")),
        "[{$lookup: {from: \"c\", pipeline: [{$unionWith: \"c\"}, {$unionWith: \"c\"}, {$unionWith: \"c\"}, \
          {$unionWith: \"c\"}], as: \"z\"}}]"
            .to_owned(),
        "[{$graphLookup: {from: \"c\", startWith: 1, connectFromField: \"a\", connectToField: \"a\", as: \"z\"}}, \
          {$set: {y: [\"$z\", \"$z\", \"$z\", \"$z\"]}}]"
            .to_owned(),
        "[{$set: {x: {$map: {input: {$range: [0, 100000]}, in: \"$pad\"}}}}]".to_owned(),
        "[{$limit: 1}, {$replaceWith: {x: {$reduce: {input: {$range: [0, 60]}, initialValue: \"$a\", \
          in: {$concatArrays: [\"$$value\", \"$$value\"]}}}}}]"
            .to_owned(),
    ] {
        let metering = Metering::begin(fixture.store.budget());
        let error = fixture.aggregate(&pipeline).expect_err(&pipeline);
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{pipeline}: {error}");
        drop(metering);
        let budget = fixture.store.budget();
        assert_eq!(budget.pool(Pool::Evaluation).used, 0, "{pipeline}");
        assert!(budget.pool(Pool::Evaluation).peak <= budget.demand_max(), "{pipeline}");
    }
}

/// `count` parts, separated by commas; `{n}` in each is its number.
fn many(count: usize, part: &str) -> String {
    let parts: Vec<String> = (0..count).map(|n| part.replace("{n}", &n.to_string())).collect();
    parts.join(", ")
}

#[test]
fn what_is_made_of_a_request_ends_where_the_budget_does() {
    let fixture = fixture();
    fixture.index("{key: {pad: 'text'}, name: 'pad_text'}");
    for pipeline in [
        format!("[{{$match: {{$or: [{}]}}}}]", many(150_000, "{a: {n}, b: 1}")),
        format!("[{{$match: {{{}}}}}]", many(300_000, "f{n}: 1")),
        format!("[{{$match: {{$nor: [{}]}}}}]", many(100_000, "{a: {$not: {$gt: {n}}}}")),
        format!(
            "[{{$match: {{$jsonSchema: {{properties: {{{}}}}}}}}}]",
            many(100_000, "f{n}: {bsonType: 'int', minimum: 1}")
        ),
        format!("[{{$match: {{$text: {{$search: '{}'}}}}}}]", many(300_000, "w{n}")),
        format!("[{{$project: {{{}}}}}]", many(400_000, "f{n}: 1")),
        format!("[{{$set: {{{}}}}}]", many(200_000, "f{n}: {$add: ['$_id', 1]}")),
        format!("[{{$group: {{_id: 1, {}}}}}]", many(200_000, "f{n}: {$sum: '$_id'}")),
        format!("[{{$replaceWith: {{{}}}}}]", many(300_000, "f{n}: '$_id'")),
        format!("[{{$set: {{x: {{$sum: [{}]}}}}}}]", many(700_000, "'$_id'")),
        format!(
            "[{{$set: {{x: {{$let: {{vars: {{{}}}, in: 1}}}}}}}}]",
            many(300_000, "f{n}: '$_id'")
        ),
    ] {
        let _metering = Metering::begin(fixture.store.budget());
        let shown = &pipeline[..40];
        let error = fixture.aggregate(&pipeline).expect_err(shown);
        assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{shown}: {error}");
    }
    let change = doc(&format!("{{$set: {{{}}}}}", many(400_000, "f{n}: 1")));
    let filter = doc("{_id: 1}");
    let _metering = Metering::begin(fixture.store.budget());
    let statement = UpdateStatement::new(filter.as_doc(), change.as_doc().into());
    let env = Env::new(&(), NOW_MS);
    let done = update(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env);
    assert_eq!(done.map(|_| ()).unwrap_err().code(), Code::EXCEEDED_MEMORY_LIMIT);
}

#[test]
fn what_fits_goes_on() {
    let fixture = fixture();
    let _metering = Metering::begin(fixture.store.budget());
    for pipeline in [
        "[{$group: {_id: \"$pad\", n: {$sum: 1}}}]",
        "[{$limit: 100}, {$group: {_id: null, l: {$push: \"$$ROOT\"}}}]",
        "[{$sort: {pad: 1, _id: -1}}, {$project: {_id: 1}}]",
        "[{$set: {x: {$map: {input: {$range: [0, 100]}, in: \"$pad\"}}}}, {$count: \"n\"}]",
    ] {
        fixture.aggregate(pipeline).unwrap_or_else(|error| panic!("{pipeline}: {error}"));
    }
}
