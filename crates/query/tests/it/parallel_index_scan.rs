//! Index scans, and the stages above them, are read by two threads with the result of one.

use std::sync::atomic::Ordering::SeqCst;

use nagi_bson::{DocBuf, Value};
use nagi_error::Result;
use nagi_query::limits::QueryOptions;
use nagi_query::{AggregateRequest, Env, Hint, Interrupt, Take, aggregate};
use nagi_store::WriteOptions;

use crate::fixture::{Fixture, NOW_MS, doc};
use crate::parallel_scan::Helping;

const DOCS: i64 = 24_000;

/// Each value of `g` has a fifth of the documents; the entries of an index are long enough to be divided.
fn filled(indexes: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    let collection = fixture.store.collection_or_create(&fixture.ns).unwrap();
    for first in (0..DOCS).step_by(1000) {
        let all = fixture.store.write(WriteOptions::default(), &mut |txn| {
            (first..first + 1000).try_for_each(|n| {
                let k = (n * 7919) % 30_011;
                let text = format!(
                    "{{_id: {n}, g: {}, s: 'a text of more than forty characters, {}', k: {k}, \
                     sub: {{x: {}, y: {n}}}, a: [{}, {}, {n}], \
                     d: {{$numberDecimal: '{n}.{k}7777777777777777777{k}'}}}}",
                    n % 5,
                    n % 17,
                    n % 100,
                    n % 3,
                    n % 4
                );
                txn.insert(&collection, doc(&text).as_doc()).map(drop)
            })
        });
        all.unwrap();
    }
    for index in indexes {
        fixture.index(&format!("{{key: {index}, name: '{}'}}", index.replace('\'', "")));
    }
    fixture
}

fn run(fixture: &Fixture, hint: &str, pipeline: &str, interrupt: &dyn Interrupt) -> Result<String> {
    let wrapped = doc(&format!("{{p: {pipeline}, h: {hint}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
    let Value::Doc(hint) = wrapped.get("h") else { panic!("{hint}: no key") };
    let request = AggregateRequest {
        options: QueryOptions { allow_disk_use: true, ..QueryOptions::DEFAULT },
        hint: Some(Hint::Key(hint)),
        ..AggregateRequest::new(&fixture.ns, stages)
    };
    let env = Env::new(interrupt, NOW_MS);
    let mut execution = aggregate(&fixture.store, &request, &env)?;
    let mut out: Vec<DocBuf> = Vec::new();
    execution.batch(interrupt, &mut |doc| {
        out.push(doc.to_buf());
        Ok(Take::More)
    })?;
    let stats = execution.stats();
    Ok(format!("{out:?} {} {}", stats.keys_examined, stats.docs_examined))
}

const MATCHES: &[&str] = &[
    "{$match: {}}",
    "{$match: {g: {$gte: 1}}}",
    "{$match: {g: {$in: [0, 2, 4]}, k: {$gt: 100}}}",
    "{$match: {g: {$gte: 0}, s: /7$/}}",
    "{$match: {g: 3}}",
];
const BETWEEN: &[&str] = &[
    "",
    "{$project: {g: 1, k: 1, s: 1, t: {$strLenCP: '$s'}}},",
    "{$addFields: {k: {$multiply: ['$k', 2]}}}, {$match: {k: {$mod: [4, 0]}}},",
    "{$unwind: '$a'}, {$match: {a: {$gt: 1}}},",
    "{$replaceRoot: {newRoot: {$mergeObjects: ['$$ROOT', '$sub']}}},",
    "{$match: {$expr: {$gt: ['$k', '$sub.y']}}},",
];
const LAST: &[&str] = &[
    "{$group: {_id: '$g', sum: {$sum: '$d'}, mean: {$avg: {$multiply: ['$d', 3]}}}}",
    "{$group: {_id: '$g', n: {$sum: 1}, k: {$sum: '$k'}}}",
    "{$group: {_id: '$s', first: {$first: '$k'}, last: {$last: '$k'}}}",
    "{$group: {_id: null, all: {$push: {$mod: ['$k', 7]}}}}",
    "{$count: 'n'}",
    "{$sort: {k: -1, _id: 1}}, {$limit: 40}, {$project: {k: 1}}",
];
/// Covered for some of the pipelines, fetched for others.
const HINTS: &[&str] = &["{g: 1, s: 1, k: 1}", "{s: 1, 'sub.x': 1, g: -1}", "{g: 1, a: 1, s: 1}"];

#[test]
fn two_threads_give_what_one_gives() {
    let fixture = filled(HINTS);
    let mut seed = 11_u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let mut divided = 0;
    for _ in 0..60 {
        let (hint, first) = (HINTS[draw(HINTS.len())], MATCHES[draw(MATCHES.len())]);
        let (between, last) = (BETWEEN[draw(BETWEEN.len())], LAST[draw(LAST.len())]);
        let pipeline = format!("[{first}, {between} {last}]");
        let looks = [i64::MAX, 0, 1][draw(3)];
        let helping = Helping::new(looks, i64::MAX);
        let expected = run(&fixture, hint, &pipeline, &()).unwrap();
        let found = run(&fixture, hint, &pipeline, &helping).unwrap();
        assert_eq!(found, expected, "{pipeline} by {hint}, {looks} looks");
        assert_eq!(helping.out.load(SeqCst), 0, "{pipeline}");
        divided += u32::from(helping.looks_left.load(SeqCst) < looks);
    }
    for (hint, by) in HINTS.iter().flat_map(|hint| [(hint, "'$s'"), (hint, "null")]) {
        let pipeline = format!(
            "[{{$match: {{g: {{$gte: 0}}}}}}, {{$group: {{_id: {by}, sum: {{$sum: '$d'}}, mean: {{$avg: \
             {{$multiply: ['$d', 3]}}}}}}}}]"
        );
        let helping = Helping::new(i64::MAX, i64::MAX);
        let expected = run(&fixture, hint, &pipeline, &()).unwrap();
        assert_eq!(run(&fixture, hint, &pipeline, &helping).unwrap(), expected, "{pipeline}");
    }
    assert!(divided > 8, "{divided} of them were divided");
}
