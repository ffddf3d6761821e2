//! Pipelines of the maximal length, on the stack of a connection.

use nagi_budget::{Budget, Metering, Pool};
use nagi_error::Code;
use nagi_query::{AggregateRequest, Explained, Verbosity, limits::PIPELINE_STAGES_MAX};
use nagi_store::{Store, StoreOptions};

use super::fixture::{Fixture, doc};

/// The stack that `nagi_net` gives to connection threads.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 };

/// One stage of each kind with an input stage, whose output for `{_id, k, a}` is valid input for the same stage.
const STAGES: [&str; 24] = [
    "{$addFields: {x: '$k'}}",
    "{$bucket: {groupBy: '$_id', boundaries: [0, 1, 2, 1000], output: {k: {$first: '$k'}}}}",
    "{$bucketAuto: {groupBy: '$k', buckets: 2, output: {k: {$first: '$k'}}}}",
    "{$count: 'k'}",
    "{$densify: {field: 'k', range: {step: 1, bounds: 'full'}}}",
    "{$facet: {k: [{$limit: 1}, {$unset: 'k'}]}}",
    "{$fill: {sortBy: {_id: 1}, output: {k: {method: 'locf'}}}}",
    "{$graphLookup: {from: 'c', startWith: 1, connectFromField: 'z', connectToField: '_id', as: 'g'}}",
    "{$group: {_id: '$_id', k: {$sum: '$k'}}}",
    "{$limit: 5}",
    "{$lookup: {from: 'c', pipeline: [{$match: {_id: 1}}], as: 'l'}}",
    "{$lookup: {from: 'c', localField: 'k', foreignField: '_id', as: 'l'}}",
    "{$match: {$expr: {$gte: [{$rand: {}}, 0]}}}",
    "{$project: {k: {$add: ['$k', 1]}}}",
    "{$redact: '$$KEEP'}",
    "{$replaceWith: {k: '$k'}}",
    "{$sample: {size: 5}}",
    "{$setWindowFields: {sortBy: {_id: 1}, output: {k: {$max: '$k'}}}}",
    "{$skip: 0}",
    "{$sort: {k: 1}}",
    "{$sortByCount: '$k'}",
    "{$unionWith: {coll: 'c', pipeline: [{$limit: 1}]}}",
    "{$unset: 'x'}",
    "{$unwind: '$k'}",
];

fn on_a_connections_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    thread.join().unwrap();
}

fn filled() -> Fixture {
    let fixture = Fixture::new();
    (0..5).for_each(|n| fixture.insert(&format!("{{_id: {n}, k: {n}, a: [1, 2]}}")).unwrap());
    fixture
}

/// Repeats a stage as often as the limit of a pipeline allows; one stage may consist of several.
fn repeated(stage: &str) -> String {
    let stands_for = if ["{$sortByCount", "{$fill", "{$densify", "{$setWindowFields"]
        .iter()
        .any(|kind| stage.starts_with(kind))
    {
        2
    } else {
        1
    };
    vec![stage; PIPELINE_STAGES_MAX / stands_for].join(", ")
}

#[test]
fn a_thousand_stages_of_each_kind_run_on_the_stack_of_a_connection() {
    on_a_connections_stack(|| {
        let fixture = filled();
        for stage in STAGES {
            let text = format!("[{}]", repeated(stage));
            fixture.aggregate(&text).unwrap_or_else(|error| panic!("{stage}: {error}"));
            let wrapped = doc(&format!("{{p: {text}}}"));
            let nagi_bson::Value::Array(stages) = wrapped.get("p") else { panic!() };
            let explained = Explained::Aggregate(AggregateRequest::new(&fixture.ns, stages));
            fixture.try_explain(&explained, Verbosity::ExecutionStats).unwrap();
        }
    });
}

#[test]
fn long_pipelines_nest_and_stop_where_memory_does() {
    on_a_connections_stack(|| {
        let mut fixture = Fixture::new();
        let engine = std::sync::Arc::new(nagi_kv::Memory::new());
        // Without optimization a frame is several times as large.
        let budget = Budget::new(if cfg!(debug_assertions) { 256 << 20 } else { 64 << 20 });
        let options = StoreOptions { budget, ..StoreOptions::default() };
        fixture.store = Store::open(engine, options).unwrap();
        fixture.insert("{_id: 1, k: 1}").unwrap();
        for (levels, fits) in [(3, true), (19, false)] {
            let groups = repeated(STAGES[8]).replacen(STAGES[8], "{$match: {_id: 1}}", 1);
            let mut pipeline = format!("[{groups}]");
            for _ in 0..levels {
                let nested = format!("{{$unionWith: {{coll: 'c', pipeline: {pipeline}}}}}");
                pipeline = format!("[{}]", groups.replacen(STAGES[8], &nested, 1));
            }
            let metering = Metering::begin(fixture.store.budget());
            match fixture.aggregate(&pipeline) {
                Ok(found) => assert!(fits && found.len() == 1, "{levels} levels: {found:?}"),
                Err(error) => {
                    assert!(!fits, "{levels} levels: {error}");
                    assert_eq!(error.code(), Code::EXCEEDED_MEMORY_LIMIT, "{error}");
                }
            }
            drop(metering);
            assert_eq!(fixture.store.budget().pool(Pool::Evaluation).used, 0);
        }
    });
}

#[test]
fn documents_that_double_with_each_stage_end_the_pipeline() {
    let doubling = [
        "{$set: {k: {a: '$k', b: '$k'}}}",
        "{$set: {k: ['$k', '$k']}}",
        "{$set: {k: {$concat: ['$k', '$k']}}}",
        "{$project: {k: {a: '$k', b: '$k'}}}",
        "{$replaceWith: {k: {a: '$k', b: '$k'}}}",
        "{$replaceWith: {k: ['$k', '$k']}}",
        "{$bucket: {groupBy: {$literal: 1}, boundaries: [0, 2], output: {k: {$push: {a: '$k', b: '$k'}}}}}",
        "{$bucketAuto: {groupBy: '$$ROOT', buckets: 1}}",
        "{$bucketAuto: {groupBy: {$literal: 1}, buckets: 1, output: {k: {$push: '$k'}, l: {$push: '$$ROOT'}}}}",
        "{$facet: {k: [{$unset: 'z'}], l: [{$unset: 'z'}]}}",
        "{$group: {_id: {a: '$$ROOT', b: '$$ROOT'}}}",
        "{$group: {_id: 1, k: {$mergeObjects: {a: '$$ROOT', b: '$$ROOT'}}}}",
        "{$lookup: {from: 'one', let: {r: '$$ROOT'}, pipeline: [{$set: {r: ['$$r', '$$r']}}], as: 'k'}}",
        "{$setWindowFields: {output: {k: {$addToSet: '$$ROOT'}, l: {$last: '$$ROOT'}}}}",
    ];
    let fixture = Fixture::new();
    let pad = "x".repeat(1 << 20);
    fixture.insert(&format!("{{_id: 1, k: '{pad}'}}")).unwrap();
    fixture.insert_doc("one", doc("{_id: 1}").as_doc()).unwrap();
    for stage in doubling {
        let error =
            fixture.aggregate(&format!("[{}]", vec![stage; 40].join(", "))).expect_err(stage);
        let expected = [
            Code::BSON_OBJECT_TOO_LARGE,
            Code::EXCEEDED_MEMORY_LIMIT,
            Code::Location(13_548),
            Code::Location(5_414_201),
        ];
        assert!(expected.contains(&error.code()), "{stage}: {error}");
    }
}
