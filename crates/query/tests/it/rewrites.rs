//! A pipeline rewritten by the rules yields the same result as the original.
//!
//! Documents, indexes and pipelines are generated from a seed; a failure message contains them.

use nagi_bson::{Value, json};
use nagi_query::{AggregateRequest, DeleteStatement, Env, aggregate, delete};
use nagi_store::Durability;

use crate::{
    any_plan::{Random, SCALARS, cases},
    fixture::{Fixture, NOW_MS, doc, drain},
};

const PIPELINES_EACH: u64 = 20;

const FIELDS: &[&str] = &["a", "b", "c", "a.x", "b.y", "d", "a.0", "_id", "_id.x"];

fn value(random: &mut Random) -> String {
    match random.below(4) {
        0 => format!("[{}, {}]", random.one(SCALARS), random.one(SCALARS)),
        1 => format!("[{{x: {}}}, {{x: {}, y: 1}}]", random.one(SCALARS), random.one(SCALARS)),
        _ => random.one(SCALARS).to_owned(),
    }
}

/// The last fields always have an index: with limits they are not used in conditions.
fn condition(random: &mut Random, limits: bool) -> String {
    let field = random.one(if limits { &FIELDS[..FIELDS.len() - 2] } else { FIELDS });
    let scalar = random.one(SCALARS);
    let test = match random.below(8) {
        0 => format!("{{$in: [{scalar}, {}]}}", random.one(SCALARS)),
        1 => "{$exists: true}".to_owned(),
        2 => "{$type: 'int'}".to_owned(),
        3 => format!("{{$ne: {scalar}}}"),
        4 => format!("{{{}: {scalar}}}", random.one(&["$lt", "$lte", "$gt", "$gte"])),
        5 => "{$size: 2}".to_owned(),
        _ => format!("{{$eq: {scalar}}}"),
    };
    format!("{{'{field}': {test}}}")
}

fn matching(random: &mut Random, limits: bool) -> String {
    let (one, other) = (condition(random, limits), condition(random, limits));
    match random.below(4) {
        0 => format!("{{$match: {{$or: [{one}, {other}]}}}}"),
        1 => format!("{{$match: {{$and: [{one}, {other}]}}}}"),
        2 => format!("{{$match: {{$nor: [{one}]}}}}"),
        _ => format!("{{$match: {one}}}"),
    }
}

/// A join, usually with an unwind of its result.
fn join(random: &mut Random) -> String {
    let join = random.one(&[
        "{$lookup: {from: 'c', localField: 'a', foreignField: 'b', as: 'd'}}",
        "{$lookup: {from: 'c', localField: 'c', foreignField: 'a', as: 'd'}}",
        "{$lookup: {from: 'c', let: {a: '$a'}, as: 'd', pipeline: [{$match: {$expr: {$eq: \
         ['$b', '$$a']}}}, {$project: {c: 1}}]}}",
        "{$lookup: {from: 'c', localField: 'a', foreignField: 'c', as: 'd.x'}}",
    ]);
    let unwound = random.one(&[
        "",
        ", {$unwind: '$d'}",
        ", {$unwind: {path: '$d', preserveNullAndEmptyArrays: true}}",
        ", {$unwind: {path: '$d', includeArrayIndex: 'n', preserveNullAndEmptyArrays: true}}",
        ", {$unwind: {path: '$d', includeArrayIndex: 'd.n'}}",
        ", {$unwind: '$d.x'}",
    ]);
    format!("{join}{unwound}")
}

/// A stage. If `limits`, it may be a limit: then the order of documents is the same for every plan.
fn stage(random: &mut Random, limits: bool) -> String {
    match random.below(16) {
        0..4 => matching(random, limits),
        4 => "{$project: {a: 1, c: '$b'}}".to_owned(),
        5 => random
            .one(&[
                "{$project: {'a.x': 1, b: 1, _id: 0}}",
                "{$project: {a: 0}}",
                "{$project: {d: '$a', a: '$c', b: {$type: '$b'}}}",
            ])
            .to_owned(),
        6 => random
            .one(&["{$addFields: {b: '$a'}}", "{$set: {'a.x': 1, d: '$c'}}", "{$unset: ['a.x']}"])
            .to_owned(),
        7 => random
            .one(&["{$unwind: '$a'}", "{$unwind: {path: '$b', includeArrayIndex: 'd'}}"])
            .into(),
        8 => random
            .one(&[
                "{$group: {_id: '$a', n: {$sum: 1}}}",
                "{$group: {_id: '$b', c: {$sum: '$c'}}}",
                "{$group: {_id: {x: '$a'}, b: {$max: '$b'}}}",
            ])
            .to_owned(),
        9 => "{$replaceRoot: {newRoot: {a: '$b', b: '$a', _id: '$_id'}}}".to_owned(),
        10 => join(random),
        11 => format!("{{$sort: {{{}: 1, b: -1}}}}", random.one(&["a", "c", "d"])),
        12..14 if limits => format!("{{$limit: {}}}", 1 + random.below(20)),
        14 if limits => format!("{{$skip: {}}}", random.below(5)),
        _ => matching(random, limits),
    }
}

#[test]
fn rewritten_pipelines_yield_the_same() {
    let rounds = cases() / PIPELINES_EACH;
    for seed in 1..=rounds {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let fixture = Fixture::new();
        for id in 0..10 + random.below(20) {
            let id = if random.chance(30) { format!("{{x: {id}}}") } else { id.to_string() };
            let (a, b, c) = (value(&mut random), value(&mut random), random.one(SCALARS));
            let text = match random.below(6) {
                0 => format!("{{_id: {id}, b: {b}}}"),
                1 => format!("{{_id: {id}, a: {a}}}"),
                _ => format!("{{_id: {id}, a: {a}, b: {b}, c: {c}}}"),
            };
            fixture.insert(&text).unwrap();
        }
        let indexed = random.chance(50);
        if indexed {
            fixture.index("{key: {a: 1}, name: 'a'}");
            fixture.index("{key: {c: 1}, name: 'c'}");
        }
        for _ in 0..PIPELINES_EACH {
            // Documents from an index are in another order than those from the collection.
            let limits = !indexed && random.chance(50);
            let count = 1 + random.below(5);
            let stages: Vec<String> = (0..count).map(|_| stage(&mut random, limits)).collect();
            let pipeline = format!("[{}]", stages.join(", "));
            compare(&fixture, &pipeline, seed);
        }
    }
}

fn compare(fixture: &Fixture, pipeline: &str, seed: u64) {
    let wrapped = doc(&format!("{{p: {pipeline}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
    let run = |rewrites: bool| {
        let request = AggregateRequest { rewrites, ..AggregateRequest::new(&fixture.ns, stages) };
        let env = Env::new(&(), NOW_MS);
        let found = aggregate(&fixture.store, &request, &env)
            .and_then(|execution| drain(execution, usize::MAX));
        let mut found: Vec<String> =
            found.ok()?.iter().map(|found| json::to_relaxed(found.as_doc())).collect();
        found.sort_unstable();
        Some(found)
    };
    // An error of a document that is no longer needed may disappear, but no new error may occur.
    if let Some(plain) = run(false) {
        assert_eq!(run(true), Some(plain), "seed {seed}: {pipeline}");
    }
}

/// A small sample picks records without reading all, each with the same probability, whatever gaps there are.
#[test]
fn small_samples_are_fair() {
    let fixture = Fixture::new();
    for id in 0..400 {
        fixture.insert(&format!("{{_id: {id}, gap: {}}}", id % 4 != 0 || id > 300)).unwrap();
    }
    let gone = doc("{gap: true, _id: {$lt: 300}}");
    let statement = DeleteStatement::new(gone.as_doc(), true);
    let env = Env::new(&(), NOW_MS);
    delete(&fixture.store, &fixture.ns, &statement, Durability::Buffered, &env).unwrap();
    let left = fixture.aggregate("[{$count: 'n'}]").unwrap();
    let Value::Int32(left) = left[0].get("n") else { panic!("no count: {left:?}") };
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let picked = fixture.aggregate("[{$sample: {size: 5}}]").unwrap();
        let ids: std::collections::BTreeSet<String> =
            picked.iter().map(|found| format!("{:?}", found.get("_id"))).collect();
        assert_eq!(ids.len(), 5, "five different ones: {picked:?}");
        ids.into_iter().for_each(|id| *seen.entry(id).or_insert(0) += 1);
    }
    // 2,000 picks of fewer than 180 records: each is picked about eleven times, and none more than 40 times.
    assert!(seen.len() as i32 > left * 9 / 10, "{} of {left} came", seen.len());
    assert!(seen.values().all(|count| *count < 40), "{seen:?}");
}
