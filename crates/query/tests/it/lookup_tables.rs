//! Hash joins give the result of a plan for each document: over views, with pipelines and with expressions.

use nagi_bson::{Doc, DocBuf, Value};
use nagi_lang::collation::Asked;
use nagi_query::{AggregateRequest, Env, Take, aggregate};

use crate::any_plan::Random;
use crate::fixture::{Fixture, NOW_MS, doc, drain};
use crate::lookups::{filled, joined_under, texts, value};

/// Views on the other collection.
const VIEWS: &[(&str, &str)] = &[
    ("chosen", "[{$match: {g: {$lt: 4}}}]"),
    ("shaped", "[{$project: {f: 1, h: 1, k: '$g', both: {$ifNull: ['$f', '$g']}}}]"),
    ("unwound", "[{$unwind: '$g'}, {$set: {f: ['$f', '$g']}}]"),
    ("grouped", "[{$group: {_id: '$g', f: {$first: '$f'}, count: {$sum: 1}}}, {$sort: {_id: 1}}]"),
    ("few", "[{$sort: {g: 1, _id: -1}}, {$limit: 7}]"),
];

/// The other collection of the pipelines: the collection and its views.
const FROM: &[&str] = &["o", "chosen", "shaped", "unwound", "grouped", "few"];

const PIPELINES: &[&str] = &[
    "{from: 'FROM', localField: 'l', foreignField: 'f', as: 'j'}",
    "{from: 'FROM', localField: 'm.l', foreignField: 'h.f', as: 'j'}",
    "{from: 'FROM', localField: 'l', foreignField: 'f', pipeline: [{$match: {g: 2}}], as: 'j'}",
    "{from: 'FROM', localField: 'l', foreignField: 'f', pipeline: [{$sort: {g: -1, _id: 1}}, {$limit: 2}], as: 'j'}",
    "{from: 'FROM', localField: 'l', foreignField: 'f', let: {v: '$_id'},
      pipeline: [{$match: {$expr: {$gt: ['$_id', '$$v']}}}, {$project: {f: 1, v: '$$v'}}], as: 'j'}",
    "{from: 'FROM', let: {v: '$l'}, pipeline: [{$match: {$expr: {$eq: ['$f', '$$v']}}}], as: 'j'}",
    "{from: 'FROM', let: {v: '$l'}, pipeline: [
      {$match: {$expr: {$eq: ['$$v', '$h.f']}}}, {$set: {w: '$$v'}}], as: 'j'}",
    "{from: 'FROM', let: {v: '$l', w: '$_id'}, pipeline: [
      {$match: {$expr: {$and: [{$eq: ['$f', '$$v']}, {$ne: ['$_id', '$$w']}]}}}], as: 'j'}",
    "{from: 'FROM', let: {v: '$l', w: {$mod: ['$_id', 5]}}, pipeline: [
      {$match: {$expr: {$and: [{$eq: ['$g', '$$w']}, {$eq: ['$f', '$$v']}, {$eq: ['$f', '$$w']}]}}}], as: 'j'}",
    "{from: 'FROM', let: {w: {$mod: ['$_id', 5]}}, pipeline: [{$match: {f: {$ne: 3}}},
      {$match: {$expr: {$eq: ['$g', '$$w']}}}, {$sort: {_id: -1}}], as: 'j'}",
    "{from: 'FROM', let: {w: {$mod: ['$_id', 5]}}, pipeline: [{$set: {x: {$type: '$f'}}},
      {$group: {_id: '$g', all: {$push: '$x'}}}, {$sort: {_id: 1}},
      {$match: {$expr: {$eq: ['$_id', '$$w']}}}], as: 'j'}",
    "{from: 'FROM', let: {v: '$l'}, pipeline: [{$group: {_id: '$f', n: {$sum: 1}}}, {$sort: {_id: 1}},
      {$match: {$expr: {$lt: ['$_id', '$$v']}}}], as: 'j'}",
    "{from: 'FROM', pipeline: [{$match: {g: 2}}, {$sort: {_id: -1}}], as: 'j'}",
    "{from: 'FROM', let: {v: '$l'}, pipeline: [], as: 'j'}",
    "{from: 'FROM', let: {v: '$l'}, pipeline: [{$match: {$expr: {$eq: ['$f', {$ifNull: ['$$v', 1]}]}}},
      {$lookup: {from: 'c', let: {u: '$f'}, pipeline: [{$match: {$expr: {$eq: ['$l', '$$u']}}},
      {$set: {z: '$$v'}}], as: 'k'}}], as: 'j'}",
    "{from: 'FROM', let: {CURRENT: '$$ROOT'}, pipeline: [{$match: {$expr: {$eq: ['$f', '$l']}}}], as: 'j'}",
    "{let: {v: '$l'}, pipeline: [{$documents: [{f: 1}, {f: null}, {}, {f: 'a'}, {f: [1, 2]}]},
      {$match: {$expr: {$eq: ['$f', '$$v']}}}], as: 'j'}",
    "{let: {v: '$l'}, pipeline: [{$documents: [{f: '$$v'}]}], as: 'j'}",
];

const AFTER: &[&str] =
    &["", ", {$unwind: '$j'}", ", {$unwind: {path: '$j', preserveNullAndEmptyArrays: true}}"];

fn join(random: &mut Random) -> String {
    let pipeline = PIPELINES[random.below(PIPELINES.len())];
    let from = FROM[random.below(FROM.len())];
    let after = AFTER[random.below(AFTER.len())];
    format!("{{$lookup: {}}}{after}", pipeline.replace("FROM", from))
}

fn with_views(random: &mut Random, collation: Option<&str>) -> Fixture {
    let (fixture, _) = filled(random);
    let f = value(random, "f");
    for n in 100..140 {
        let other = format!("{{_id: {n}, g: {}{f}}}", n % 7);
        fixture.insert_doc("o", doc(&other).as_doc()).unwrap();
    }
    let collation = collation.map_or(String::new(), |text| format!(", collation: {text}"));
    for (name, pipeline) in VIEWS {
        let options = format!("{{viewOn: 'o', pipeline: {pipeline}{collation}}}");
        fixture.create(name, doc(&options).as_doc()).unwrap();
    }
    fixture
}

fn ids(fixture: &Fixture) -> Vec<String> {
    let docs = fixture.aggregate("[{$project: {_id: 1}}]").unwrap();
    docs.iter().map(|doc| doc.get("_id").to_string()).collect()
}

/// A single document is never joined by a table.
#[test]
fn a_table_finds_what_a_plan_for_each_document_finds() {
    let cases = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(250);
    let strength = "{locale: 'en', strength: 2}";
    for seed in 0..cases {
        let mut random = Random(0xD6E8_FEB8_6659_FD93u64.wrapping_mul(seed + 1) | 1);
        let collation = (random.below(4) == 0).then_some(strength);
        let fixture = with_views(&mut random, collation);
        let asked = match collation {
            Some(text) => Asked::parse(Some(doc(text).as_doc())).unwrap(),
            None => Asked::Inherited,
        };
        let join = join(&mut random);
        let context = format!("seed {seed} {join} {collation:?}");
        let mut alone = Vec::new();
        for id in ids(&fixture) {
            let pipeline = format!("[{{$match: {{_id: {id}}}}}, {join}]");
            let found = joined_under(&fixture, &pipeline, 1, asked);
            alone.extend(found.unwrap_or_else(|e| panic!("{context}: {e}")));
        }
        let together = joined_under(&fixture, &format!("[{join}]"), 64, asked).unwrap();
        assert_eq!(texts(&together, true), texts(&alone, true), "{context}");
        let wrapped = doc(&format!("{{p: [{join}]}}"));
        let Value::Array(stages) = wrapped.get("p") else { panic!("{join}: no array") };
        let request =
            AggregateRequest { collation: asked, ..AggregateRequest::new(&fixture.ns, stages) };
        for batch in [1, 3, 50] {
            let run = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
            let found = drain(run, batch).unwrap();
            assert_eq!(texts(&found, true), texts(&alone, true), "{context} batch {batch}");
        }
    }
}

/// `count` documents in each collection; in the other one each value occurs three times.
fn many(fixture: &Fixture, count: usize) {
    for n in 0..count {
        fixture.insert(&format!("{{_id: {n}, l: {}}}", n % 100)).unwrap();
        let other = format!("{{_id: {n}, f: {}, t: {}}}", n % (count / 3), n % 2);
        fixture.insert_doc("o", doc(&other).as_doc()).unwrap();
    }
}

fn examined(fixture: &Fixture, pipeline: &str) -> (usize, u64) {
    let wrapped = doc(&format!("{{p: {pipeline}}}"));
    let Value::Array(stages) = wrapped.get("p") else { panic!("{pipeline}: no array") };
    let request = AggregateRequest::new(&fixture.ns, stages);
    let mut run = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
    let mut found = 0;
    let mut take = |doc: Doc<'_>| {
        let Value::Array(joined) = doc.get("j") else { panic!("{doc:?}") };
        found += joined.count();
        Ok(Take::More)
    };
    while run.batch(&(), &mut take).unwrap() {}
    (found, run.stats().docs_examined)
}

/// Examined documents: the input, a scan for the first document, a scan for the table, and the matches.
#[test]
fn the_other_side_is_read_twice_not_once_a_document() {
    let fixture = Fixture::new();
    many(&fixture, 300);
    let view = "{viewOn: 'o', pipeline: [{$set: {v: {$add: ['$f', 0]}}}]}";
    fixture.create("made", doc(view).as_doc()).unwrap();
    let chosen = "{viewOn: 'o', pipeline: [{$match: {t: {$gte: 0}}}]}";
    fixture.create("chosen", doc(chosen).as_doc()).unwrap();
    let equal = "{$match: {$expr: {$eq: ['$f', '$$v']}}}";
    let cases = [
        ("{from: 'made', localField: 'l', foreignField: 'v', as: 'j'}".to_owned(), 900),
        ("{from: 'chosen', localField: 'l', foreignField: 'f', as: 'j'}".to_owned(), 900),
        ("{from: 'o', localField: 'l', foreignField: 'f', pipeline: [{$match: {t: 0}}], as: 'j'}".to_owned(), 450),
        (format!("{{from: 'o', let: {{v: '$l'}}, pipeline: [{equal}], as: 'j'}}"), 900),
        (format!("{{from: 'o', let: {{v: '$l'}}, pipeline: [{{$set: {{y: 1}}}}, {equal}], as: 'j'}}"), 900),
        (format!("{{from: 'made', let: {{v: '$l'}}, pipeline: [{equal}], as: 'j'}}"), 900),
        (format!("{{from: 'o', let: {{v: '$l'}}, pipeline: [{{$group: {{_id: '$f'}}}}, {}], as: 'j'}}",
            equal.replace("$f", "$_id")), 300),
        ("{from: 'o', pipeline: [{$match: {f: 7}}], as: 'j'}".to_owned(), 900),
        ("{from: 'o', let: {v: '$l'}, pipeline: [{$match: {f: 7}}, {$match: {$expr: {$gte: ['$$v', '$t']}}}],
          as: 'j'}".to_owned(), 0),
    ];
    for (join, count) in cases {
        let (found, examined) = examined(&fixture, &format!("[{{$lookup: {join}}}]"));
        if count > 0 {
            assert_eq!(found, count, "{join}");
        }
        let most = 300 + 2 * 300 + 900;
        assert!(examined <= most, "{join}: {examined}");
    }
    // An index that serves only the stages that are independent of the document is read once, too.
    let ns = nagi_store::Namespace::new("test", "o").unwrap();
    let index = doc("{key: {t: 1}, name: 't_1'}");
    fixture.store.create_indexes(&ns, &[index.as_doc()], Default::default()).unwrap();
    let join = format!(
        "[{{$lookup: {{from: 'o', let: {{v: '$l'}}, pipeline: [{{$match: {{t: 1}}}}, {equal}], as: 'j'}}}}]"
    );
    let (found, examined) = examined(&fixture, &join);
    assert_eq!(found, 450);
    assert!(examined <= 300 + 2 * 150 + 450, "{examined}");
}

/// A row that fails makes only the documents fail that reach it.
#[test]
fn a_row_that_fails_is_met_as_by_a_plan_for_each_document() {
    let fixture = Fixture::new();
    many(&fixture, 30);
    fixture.insert_doc("o", doc("{_id: 'zero', f: 500, z: 0}").as_doc()).unwrap();
    let divided = "{$set: {q: {$divide: [1, {$ifNull: ['$z', 1]}]}}}";
    let join = |first: &str, rest: &str| {
        format!(
            "[{{$lookup: {{from: 'o', let: {{v: '$l'}}, pipeline: [{first},
              {{$match: {{$expr: {{$lt: ['$f', {{$add: ['$$v', 1000]}}]}}}}}}{rest}], as: 'j'}}}}]"
        )
    };
    assert_eq!(fixture.aggregate(&join(divided, ", {$limit: 1}")).unwrap().len(), 30);
    assert!(fixture.aggregate(&join(divided, "")).is_err());
}

/// The random choices of a view are made anew for each document.
#[test]
fn what_is_random_is_not_kept() {
    let fixture = Fixture::new();
    many(&fixture, 200);
    let view = doc("{viewOn: 'o', pipeline: [{$sample: {size: 1}}]}");
    fixture.create("any", view.as_doc()).unwrap();
    for join in [
        "{from: 'any', pipeline: [], as: 'j'}",
        "{from: 'o', pipeline: [{$sample: {size: 1}}], as: 'j'}",
    ] {
        let docs: Vec<DocBuf> = fixture.aggregate(&format!("[{{$lookup: {join}}}]")).unwrap();
        let mut all = texts(
            &docs.iter().map(|d| DocBuf::build(|out| out.put("j", d.get("j")))).collect::<Vec<_>>(),
            false,
        );
        all.sort();
        all.dedup();
        assert!(all.len() > 10, "{join}: {}", all.len());
    }
}
