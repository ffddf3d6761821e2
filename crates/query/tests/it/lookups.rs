//! Joins of many documents at a time give the result of joining each document alone.

use nagi_bson::{DocBuf, Value};
use nagi_error::Result;
use nagi_lang::collation::Asked;
use nagi_query::{AggregateRequest, Env, Take, aggregate};

use crate::any_plan::Random;
use crate::fixture::{Ahead, Fixture, NOW_MS, doc, drain};

/// Local and foreign values; `-` leaves the field out.
const VALUES: &[&str] = &[
    "-",
    "null",
    "1",
    "2",
    "1.0",
    "{$numberLong: '2'}",
    "{$numberDecimal: '1'}",
    "3",
    "NaN",
    "'a'",
    "'b'",
    "''",
    "true",
    "{$oid: '0123456789abcdef01234567'}",
    "{$date: 5}",
    "[1, 2]",
    "[]",
    "[null]",
    "[[1]]",
    "['a', 1, 1]",
    "{x: 1}",
    "{$minKey: 1}",
    "{$symbol: 'a'}",
    "/a/",
    "4",
    "5",
];

const INDEXES: &[&str] = &[
    "{key: {f: 1}, name: 'one'}",
    "{key: {f: -1}, name: 'down'}",
    "{key: {f: 1, g: 1}, name: 'two'}",
    "{key: {f: 1}, name: 'sparse', sparse: true}",
    "{key: {f: 1}, name: 'partial', partialFilterExpression: {f: {$gt: 1}}}",
    "{key: {f: 'hashed'}, name: 'hashed'}",
    "{key: {'$**': 1}, name: 'wild'}",
    "{key: {'h.f': 1}, name: 'below'}",
    "{key: {f: 1}, name: 'collated', collation: {locale: 'en', strength: 2}}",
];

const PIPELINES: &[&str] = &[
    "[{$lookup: {from: 'o', localField: 'l', foreignField: 'f', as: 'j'}}]",
    "[{$lookup: {from: 'o', localField: 'l', foreignField: '_id', as: 'j'}}]",
    "[{$lookup: {from: 'o', localField: 'm.l', foreignField: 'f', as: 'm.j'}}]",
    "[{$lookup: {from: 'o', localField: 'm.l', foreignField: 'h.f', as: 'j'}}]",
    "[{$lookup: {from: 'o', localField: 'l', foreignField: 'f', as: 'j'}}, {$unwind: '$j'},
      {$match: {'j.g': {$lt: 4}}}]",
    "[{$lookup: {from: 'o', localField: 'l', foreignField: 'f', as: 'j'}}, {$limit: 5}]",
    "[{$lookup: {from: 'o', localField: 'l', foreignField: 'f', pipeline: [{$match: {g: 2}}],
      as: 'j'}}]",
    "[{$lookup: {from: 'c', localField: 'l', foreignField: 'l', as: 'j'}}]",
    "[{$lookup: {from: 'o', localField: 'l', foreignField: 'f', as: 'j'}},
      {$lookup: {from: 'o', localField: 'j.g', foreignField: 'f', as: 'k'}}]",
];

pub(crate) fn value(random: &mut Random, field: &str) -> String {
    match VALUES[random.below(VALUES.len())] {
        "-" => String::new(),
        value => format!(", {field}: {value}"),
    }
}

/// Also returns the number of indexes of the other collection.
pub(crate) fn filled(random: &mut Random) -> (Fixture, usize) {
    let fixture = Fixture::new();
    for n in 0..2 + random.below(60) {
        let (l, inner) = (value(random, "l"), value(random, "l"));
        fixture.insert(&format!("{{_id: {n}{l}, m: [{{x: 1{inner}}}]}}")).unwrap();
    }
    if random.below(3) == 0 {
        let options = doc("{clusteredIndex: {key: {_id: 1}, unique: true}}");
        let ns = nagi_store::Namespace::new("test", "o").unwrap();
        fixture.store.create_collection(&ns, options.as_doc()).unwrap();
    }
    for n in 0..random.below(60) {
        let (f, inner) = (value(random, "f"), value(random, "f"));
        let g = if random.below(4) == 0 { "[1, 2, 3]".to_owned() } else { format!("{}", n % 5) };
        let other = format!("{{_id: {n}{f}, g: {g}, h: {{x: 1{inner}}}}}");
        fixture.insert_doc("o", doc(&other).as_doc()).unwrap();
    }
    let ns = nagi_store::Namespace::new("test", "o").unwrap();
    let mut count = 0;
    for _ in 0..random.below(3) {
        let spec = doc(INDEXES[random.below(INDEXES.len())]);
        // An index that is incompatible with another one or with the documents is left out.
        let made = fixture.store.create_indexes(&ns, &[spec.as_doc()], Default::default());
        count += usize::from(made.is_ok());
    }
    (fixture, count)
}

/// The equivalent pipeline for which neither an index nor a table joins many documents: it uses a plan for each
/// document, and expressions that planning cannot use.
fn one_by_one(pipeline: &str) -> String {
    let plain = match pipeline.contains("pipeline:") {
        true => pipeline.to_owned(),
        false => pipeline.replace(", as: '", ", pipeline: [{$match: {}}], as: '"),
    };
    plain.replace("{$expr: {", "{$expr: {$or: [false, {").replace("}}}], as", "}]}}}], as")
}

fn joined(fixture: &Fixture, pipeline: &str, ahead: usize) -> Result<Vec<DocBuf>> {
    joined_under(fixture, pipeline, ahead, Asked::Inherited)
}

pub(crate) fn joined_under(
    fixture: &Fixture,
    pipeline: &str,
    ahead: usize,
    collation: Asked,
) -> Result<Vec<DocBuf>> {
    let wrapped = doc(&format!("{{p: {pipeline}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
    let ahead = Ahead(ahead);
    let env = Env::new(&ahead, NOW_MS);
    let request = AggregateRequest { collation, ..AggregateRequest::new(&fixture.ns, stages) };
    let mut out = Vec::new();
    let mut execution = aggregate(&fixture.store, &request, &env)?;
    execution.batch(&ahead, &mut |doc| {
        out.push(doc.to_buf());
        Ok(Take::More)
    })?;
    Ok(out)
}

/// `sorted`: if there are several indexes a trial may choose another one, and then arrays and unwound documents
/// have another order.
pub(crate) fn texts(docs: &[DocBuf], sorted: bool) -> Vec<String> {
    let mut texts: Vec<String> =
        docs.iter().map(|doc| shown(Value::Doc(doc.as_doc()), sorted)).collect();
    if sorted {
        texts.sort();
    }
    texts
}

fn shown(value: Value<'_>, sorted: bool) -> String {
    match value {
        Value::Doc(doc) => {
            let field = |e: nagi_bson::Element<'_>| (e.name().to_owned(), shown(e.value(), sorted));
            format!("{:?}", doc.iter().map(field).collect::<Vec<_>>())
        }
        Value::Array(items) => {
            let mut items: Vec<String> = items.iter().map(|item| shown(item, sorted)).collect();
            if sorted {
                items.sort();
            }
            format!("{items:?}")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn any_join_is_that_of_each_document_alone() {
    let cases = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    for seed in 0..cases {
        let mut random = Random(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed + 1) | 1);
        let (fixture, indexes) = filled(&mut random);
        let texts = |docs: &[DocBuf]| texts(docs, indexes > 1);
        let pipeline = PIPELINES[random.below(PIPELINES.len())];
        let context = format!("seed {seed} {pipeline}");
        let expected = joined(&fixture, pipeline, 1).unwrap_or_else(|e| panic!("{context}: {e}"));
        let expected = texts(&expected);
        for ahead in [2, 3, 7, 256] {
            let found = joined(&fixture, pipeline, ahead).unwrap();
            assert_eq!(texts(&found), expected, "{context} ahead {ahead}");
        }
        // Reads in batches with other snapshots in between, of the size of the read-ahead.
        let wrapped = doc(&format!("{{p: {pipeline}}}"));
        let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
        let request = AggregateRequest::new(&fixture.ns, stages);
        for batch in [1, 2, 5, 200] {
            let run = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
            assert_eq!(texts(&drain(run, batch).unwrap()), expected, "{context} batch {batch}");
        }
    }
}

#[test]
fn any_join_is_what_a_plan_for_each_document_finds() {
    let cases = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let strength = doc("{locale: 'en', strength: 2}");
    for seed in 0..cases {
        let mut random = Random(0xA076_1D64_78BD_642Fu64.wrapping_mul(seed + 1) | 1);
        let (fixture, _) = filled(&mut random);
        let all: Vec<&str> = PIPELINES.iter().chain(COMPARED).copied().collect();
        let pipeline = all[random.below(all.len())];
        let collation = match random.below(4) {
            0 => Asked::parse(Some(strength.as_doc())).unwrap(),
            _ => Asked::Inherited,
        };
        let run = |pipeline: &str, ahead| {
            joined_under(&fixture, pipeline, ahead, collation).map(|found| texts(&found, true))
        };
        let context = format!("seed {seed} {pipeline} {collation:?}");
        // A value that is no array makes an `$in` fail, for whichever document.
        match (run(&one_by_one(pipeline), 1), run(pipeline, 1 + random.below(100))) {
            (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{context}"),
            (expected, found) => assert_eq!(expected.is_err(), found.is_err(), "{context}"),
        }
    }
}

/// Without an index the other collection is read twice: for the first document and for the table.
#[test]
fn a_table_is_made_of_one_scan_a_batch() {
    let fixture = Fixture::new();
    for n in 0..500 {
        fixture.insert(&format!("{{_id: {n}, l: {}}}", n % 50)).unwrap();
        fixture.insert_doc("o", doc(&format!("{{_id: {n}, f: {n}}}")).as_doc()).unwrap();
    }
    let wrapped = doc(&format!("{{p: {JOIN}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("no array") };
    let request = AggregateRequest::new(&fixture.ns, stages);
    let mut run = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
    let mut count = 0;
    let mut matched = 0;
    let mut take = |doc: nagi_bson::Doc<'_>| {
        let Value::Array(joined) = doc.get("j") else { panic!("{doc:?}") };
        matched += joined.count();
        count += 1;
        Ok(if count == 250 { Take::Last } else { Take::More })
    };
    run.batch(&(), &mut take).unwrap();
    run.save();
    // The next table finds the earlier documents as well as the one inserted since.
    fixture.insert_doc("o", doc("{_id: 1000, f: 7}").as_doc()).unwrap();
    assert!(!run.batch(&(), &mut take).unwrap());
    assert_eq!((count, matched), (500, 505));
    let examined = run.stats().docs_examined;
    // The input, three scans, and each joined document.
    assert!((2_500..2_600).contains(&examined), "{examined}");
}

/// Lookups that compare with expressions.
const COMPARED: &[&str] = &[
    "[{$lookup: {from: 'o', let: {v: '$l'}, pipeline: [{$match: {$expr: {$eq: ['$f', '$$v']}}}], as: 'j'}}]",
    "[{$lookup: {from: 'o', let: {v: '$l'}, pipeline: [{$match: {$expr: {$lt: ['$f', '$$v']}}}], as: 'j'}}]",
    "[{$lookup: {from: 'o', let: {v: '$l'}, pipeline: [{$match: {$expr: {$gte: ['$f', '$$v']}}}], as: 'j'}}]",
    "[{$lookup: {from: 'o', let: {v: '$l'}, pipeline: [{$match: {$expr: {$lte: ['$$v', '$h.f']}}}], as: 'j'}}]",
    "[{$match: {l: {$type: 'array'}}}, {$lookup: {from: 'o', let: {v: '$l'},
      pipeline: [{$match: {$expr: {$in: ['$f', '$$v']}}}], as: 'j'}}]",
    "[{$lookup: {from: 'o', let: {v: '$l'},
      pipeline: [{$match: {$expr: {$and: [{$gte: ['$f', 1]}, {$eq: ['$g', '$$v']}]}}}], as: 'j'}}]",
];

const JOIN: &str = "[{$lookup: {from: 'o', localField: 'l', foreignField: 'f', as: 'j'}}]";

fn pair(count: usize, text: &str) -> Fixture {
    let fixture = Fixture::new();
    for n in 0..count {
        fixture.insert(&format!("{{_id: {n}, l: {n}}}")).unwrap();
        let other = format!("{{_id: {n}, f: {n}, text: '{text}'}}");
        fixture.insert_doc("o", doc(&other).as_doc()).unwrap();
    }
    let ns = nagi_store::Namespace::new("test", "o").unwrap();
    let spec = doc("{key: {f: 1}, name: 'f_1'}");
    fixture.store.create_indexes(&ns, &[spec.as_doc()], Default::default()).unwrap();
    fixture
}

/// Documents of a later batch are joined on the later snapshot.
#[test]
fn documents_that_wait_are_joined_anew_after_a_pause() {
    let fixture = pair(40, "old");
    let wrapped = doc(&format!("{{p: {JOIN}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("no array") };
    let request = AggregateRequest::new(&fixture.ns, stages);
    let mut run = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
    let mut seen = 0;
    run.batch(&(), &mut |_| {
        seen += 1;
        Ok(if seen == 20 { Take::Last } else { Take::More })
    })
    .unwrap();
    run.save();
    fixture.insert_doc("o", doc("{_id: 100, f: 25, text: 'new'}").as_doc()).unwrap();
    let mut counts = Vec::new();
    run.batch(&(), &mut |doc| {
        let Value::Array(joined) = doc.get("j") else { panic!("{doc:?}") };
        counts.push(joined.iter().count());
        Ok(Take::More)
    })
    .unwrap();
    assert_eq!(counts.len(), 20);
    assert_eq!((counts[5], counts.iter().sum::<usize>()), (2, 21));
}

/// A batch whose records exceed the memory is joined document by document.
#[test]
fn large_and_many_documents_are_joined_alone() {
    let fixture = pair(30, &"x".repeat(100_000));
    for ahead in [1, 8, 256] {
        let found = joined(&fixture, JOIN, ahead).unwrap();
        assert_eq!(found.len(), 30);
        for doc in &found {
            let Value::Array(joined) = doc.get("j") else { panic!("{doc:?}") };
            let one = joined.iter().next().and_then(|one| one.as_doc()).unwrap();
            assert_eq!(one.get("f"), doc.get("l"));
        }
    }
    let fixture = pair(3, "x");
    for n in 0..6000 {
        let other = format!("{{_id: {}, f: {}}}", n + 10, n % 3);
        fixture.insert_doc("o", doc(&other).as_doc()).unwrap();
    }
    for ahead in [1, 2, 256] {
        let found = joined(&fixture, JOIN, ahead).unwrap();
        let counts = found.iter().map(|doc| match doc.get("j") {
            Value::Array(joined) => joined.iter().count(),
            _ => 0,
        });
        assert_eq!(counts.collect::<Vec<_>>(), [2001; 3]);
    }
}

/// A client that takes few documents does not see an error of the documents after them.
#[test]
fn an_error_behind_the_last_document_does_not_show() {
    let fixture = pair(10, "x");
    fixture.insert("{_id: 'bad', l: 0, zero: 0}").unwrap();
    let first = "{$set: {q: {$cond: [{$eq: ['$zero', 0]}, {$divide: [1, '$zero']}, 1]}}}";
    let look = &JOIN[1..JOIN.len() - 1];
    for limit in 1..=10 {
        let pipeline = format!("[{first}, {look}, {{$skip: 0}}, {{$limit: {limit}}}]");
        assert_eq!(joined(&fixture, &pipeline, 256).unwrap().len(), limit);
    }
    assert!(joined(&fixture, &format!("[{first}, {look}]"), 256).is_err());
}
