//! A `$facet` gives for each pipeline what that pipeline gives alone, also if its input takes many portions.

use nagi_bson::{Doc, Value};

use crate::any_plan::Random;
use crate::fixture::{Fixture, doc};

/// Some portions of 64 KiB.
const DOCS: i32 = 1500;

const STAGES: &[&str] = &[
    "{$match: {k: {$lt: 40}}}",
    "{$match: {k: 700}}",
    "{$project: {k: 1, g: 1, list: 1}}",
    "{$set: {g: {$mod: ['$k', 5]}, s: {$concat: ['x', '$s']}}}",
    "{$unwind: '$list'}",
    "{$unwind: {path: '$list', includeArrayIndex: 'k', preserveNullAndEmptyArrays: true}}",
    "{$limit: 3}",
    "{$limit: 700}",
    "{$skip: 5}",
    "{$skip: 900}",
    "{$sort: {s: 1, _id: -1}}",
    "{$sort: {g: -1, _id: 1, k: 1}}",
    "{$group: {_id: '$g', n: {$sum: '$k'}, all: {$push: '$_id'}}}, {$sort: {_id: 1}}",
    "{$group: {_id: null, n: {$sum: 1}, last: {$last: '$k'}}}",
    "{$count: 'k'}",
    "{$bucket: {groupBy: '$k', boundaries: [0, 10, 50], default: 99, output: {n: {$sum: 1}}}}, {$sort: {_id: 1}}",
    "{$bucketAuto: {groupBy: '$k', buckets: 4}}",
    "{$redact: {$cond: [{$lt: ['$k', 70]}, '$$KEEP', '$$PRUNE']}}",
    "{$replaceRoot: {newRoot: {k: '$k', _id: '$_id', g: '$g'}}}",
    "{$setWindowFields: {sortBy: {_id: 1, k: 1}, output: {g: {$documentNumber: {}}}}}",
    "{$lookup: {from: 'other', localField: 'g', foreignField: '_id', as: 'list'}}",
    "{$unionWith: {coll: 'other'}}",
    "{$graphLookup: {from: 'other', startWith: '$g', connectFromField: 'up', connectToField: '_id', as: 'list'}}",
    "{$fill: {sortBy: {_id: 1, k: 1}, output: {missing: {method: 'locf'}}}}",
];

fn filled() -> Fixture {
    let fixture = Fixture::new();
    let filling = "f".repeat(150);
    for id in 0..DOCS {
        let missing = if id % 3 == 0 { format!(", missing: {id}") } else { String::new() };
        let text = format!(
            "{{_id: {id}, k: {}, g: {}, s: '{}', list: [{}, {}], f: '{filling}'{missing}}}",
            id * 7 % 97,
            id % 9,
            id * 31 % 1009,
            id % 4,
            id % 6
        );
        fixture.insert(&text).unwrap();
    }
    for id in 0..6 {
        let text = doc(&format!("{{_id: {id}, k: {id}, up: {}}}", id + 1));
        fixture.insert_doc("other", text.as_doc()).unwrap();
    }
    fixture
}

fn pipeline(random: &mut Random) -> String {
    let count = 1 + random.below(4);
    let stages: Vec<&str> = (0..count).map(|_| random.one(STAGES)).collect();
    stages.join(", ")
}

#[test]
fn each_pipeline_gives_what_it_gives_alone() {
    let fixture = filled();
    let mut compared = 0;
    for seed in 1..=80 {
        let mut random = Random(seed);
        let pipelines: Vec<String> = (0..=random.below(4)).map(|_| pipeline(&mut random)).collect();
        let facets: Vec<String> =
            pipelines.iter().enumerate().map(|(at, stages)| format!("p{at}: [{stages}]")).collect();
        let facet = format!("[{{$skip: 1}}, {{$facet: {{{}}}}}]", facets.join(", "));
        // The first stage keeps the planner from reading anything else than the facet reads.
        let alone = pipelines
            .iter()
            .map(|stages| fixture.aggregate(&format!("[{{$skip: 1}}, {stages}]")))
            .collect::<Result<Vec<_>, _>>();
        let (found, alone) = match (fixture.aggregate(&facet), alone) {
            (Ok(found), Ok(alone)) => (found, alone),
            (Err(_), Err(_)) => continue,
            (found, alone) => panic!("seed {seed}: {facet}: {:?}, {:?}", found.err(), alone.err()),
        };
        compared += pipelines.len();
        for (at, alone) in alone.iter().enumerate() {
            let Value::Array(docs) = found[0].get(&format!("p{at}")) else { panic!("{found:?}") };
            let docs: Vec<_> =
                docs.iter().map(|doc| doc.as_doc().unwrap_or(Doc::EMPTY).to_buf()).collect();
            assert_eq!(format!("{docs:?}"), format!("{alone:?}"), "seed {seed}: {}", pipelines[at]);
        }
    }
    assert!(compared > 100, "{compared}");
}
