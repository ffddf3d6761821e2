//! For every forced plan the result is that of a collection scan with filter and sort.
//!
//! Collections, indexes and queries are generated from a seed; on a failure the message has all three.

use std::collections::BTreeMap;

use nagi_bson::{ArrayBuf, Doc, DocBuf, ValueBuf};
use nagi_lang::{collation::Asked, sort::SortSpec};
use nagi_query::{
    AggregateRequest, CountRequest, DistinctRequest, Env, FindRequest, Hint, aggregate, count,
    distinct, find,
};
use nagi_store::Namespace;

use crate::fixture::{Fixture, NOW_MS, doc, drain};

const QUERIES_EACH: u64 = 20;

/// Number of queries: 2,000, or the value of NAGI_CASES.
pub(crate) fn cases() -> u64 {
    std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)
}

/// xorshift64*: the same cases in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

pub(crate) const SCALARS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4.5",
    "NumberLong(2)",
    "-1",
    "null",
    "'x'",
    "'xy'",
    "'X'",
    "'y'",
    "true",
    "{x: 1}",
    "{x: 1, y: 2}",
    "[]",
    "NaN",
    "ISODate('2020-01-01T00:00:00Z')",
    "ObjectId('000000000000000000000001')",
];
const PATHS: &[&str] = &["a", "b", "c", "a.x", "a.y", "b.x", "a.0", "a.0.x"];
pub(crate) const INDEXES: &[&str] = &[
    "{key: {a: 1}, name: 'a_1'}",
    "{key: {a: -1}, name: 'a_-1'}",
    "{key: {b: 1}, name: 'b_1'}",
    "{key: {a: 1, b: 1}, name: 'a_1_b_1'}",
    "{key: {b: -1, a: 1}, name: 'b_-1_a_1'}",
    "{key: {a: 1, b: -1, c: 1}, name: 'a_1_b_-1_c_1'}",
    "{key: {c: 1, _id: -1}, name: 'c_1__id_-1'}",
    "{key: {'a.x': 1}, name: 'a.x_1'}",
    "{key: {'a.x': 1, 'a.y': -1}, name: 'a.x_1_a.y_-1'}",
    "{key: {'a.0': 1}, name: 'a.0_1'}",
    "{key: {'b.x': 1, c: 1}, name: 'b.x_1_c_1'}",
    "{key: {a: 1}, name: 'a_sparse', sparse: true}",
    "{key: {b: 1, c: 1}, name: 'b_c_sparse', sparse: true}",
    "{key: {'a.x': 1}, name: 'a.x_sparse', sparse: true}",
    "{key: {'a.x': 1}, name: 'a.x_partial', partialFilterExpression: {'a.x': {$exists: true}}}",
    "{key: {c: 1}, name: 'c_partial', partialFilterExpression: {a: {$gt: 1}}}",
    "{key: {b: 1}, name: 'b_partial', partialFilterExpression: {b: {$exists: true}}}",
    "{key: {a: 'hashed'}, name: 'a_hashed'}",
    "{key: {b: 1, a: 'hashed'}, name: 'b_a_hashed'}",
    "{key: {a: 1}, name: 'a_collated', collation: {locale: 'en', strength: 2}}",
    "{key: {b: 1, a: -1}, name: 'b_a_collated', collation: {locale: 'en', strength: 2}}",
    "{key: {b: 1}, name: 'b_number_partial', partialFilterExpression: {a: {$type: 'number'}}}",
    "{key: {a: 1, c: 1}, name: 'a_c_partial', partialFilterExpression: {$or: [{a: 1}, {c: 'x'}]}}",
    "{key: {c: -1, a: 1}, name: 'c_a_unique', unique: true}",
    "{key: {'$**': 1}, name: 'all_wild'}",
    "{key: {'a.$**': 1}, name: 'a_wild'}",
    "{key: {'$**': 1}, name: 'out_wild', wildcardProjection: {'a.x': 0, b: 0}}",
    "{key: {c: 1, 'a.$**': 1}, name: 'c_a_wild'}",
    "{key: {'b.$**': 1, c: -1}, name: 'b_c_wild'}",
    "{key: {'$**': 1}, name: 'collated_wild', collation: {locale: 'en', strength: 2}}",
    "{key: {'$**': 1}, name: 'partial_wild', partialFilterExpression: {a: {$gte: 1}}}",
    "{key: {g: '2dsphere'}, name: 'g_sphere'}",
    "{key: {a: 1, g: '2dsphere'}, name: 'a_g_sphere'}",
    "{key: {g: '2d'}, name: 'g_2d'}",
];

/// Names of fields that hold arrays in some documents.
pub(crate) const ALL_FIELDS: &[&str] = &["a", "b", "c"];

/// A value that indexes store unchanged.
fn plain_value(random: &mut Random) -> String {
    match random.below(6) {
        0 => format!("{{x: {}, y: {}}}", plain_value(random), random.below(4)),
        _ => match random.one(SCALARS) {
            "[]" => "{x: 'x'}".to_owned(),
            scalar => scalar.to_owned(),
        },
    }
}

pub(crate) fn value(random: &mut Random) -> String {
    match random.below(10) {
        0 | 1 => {
            let items: Vec<String> = (0..random.below(4)).map(|_| item(random)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => random.one(SCALARS).to_owned(),
    }
}

fn item(random: &mut Random) -> String {
    match random.below(6) {
        0 => format!("{{x: {}, y: {}}}", random.one(SCALARS), random.one(SCALARS)),
        1 => format!("{{x: {}}}", random.one(SCALARS)),
        2 => format!("[{}]", random.one(SCALARS)),
        _ => random.one(SCALARS).to_owned(),
    }
}

pub(crate) fn document(random: &mut Random, id: u64) -> String {
    document_with(random, id, ALL_FIELDS)
}

/// A document with arrays in these fields only.
fn document_with(random: &mut Random, id: u64, arrays: &[&str]) -> String {
    let mut fields = vec![format!("_id: {id}")];
    for name in ALL_FIELDS {
        if random.chance(85) {
            let value = match arrays.contains(name) {
                true => value(random),
                false => plain_value(random),
            };
            fields.push(format!("{name}: {value}"));
        }
    }
    if random.chance(60) {
        fields.push(format!("g: {}", place(random)));
    }
    format!("{{{}}}", fields.join(", "))
}

/// A pair of coordinates that every geometry index accepts.
fn place(random: &mut Random) -> String {
    format!("[{}, {}]", random.below(20), random.below(20))
}

fn region(random: &mut Random) -> String {
    let (x, y) = (random.below(15), random.below(15));
    match random.below(3) {
        0 => format!("g: {{$geoWithin: {{$box: [[{x}, {y}], [{}, {}]]}}}}", x + 5, y + 6),
        1 => format!("g: {{$geoWithin: {{$centerSphere: [[{x}, {y}], 0.1]}}}}"),
        _ => format!(
            "g: {{$geoWithin: {{$geometry: {{type: 'Polygon', coordinates: [[[{x}, {y}], \
             [{x}, {1}], [{0}, {1}], [{0}, {y}], [{x}, {y}]]]}}}}}}",
            x + 6,
            y + 6
        ),
    }
}

fn operator(random: &mut Random) -> String {
    let v = value(random);
    match random.below(16) {
        0 => format!("{{$gt: {v}}}"),
        1 => format!("{{$gte: {v}}}"),
        2 => format!("{{$lt: {v}}}"),
        3 => format!("{{$lte: {v}}}"),
        4 => format!("{{$gt: {}, $lt: {}}}", random.one(SCALARS), random.one(SCALARS)),
        5 => format!("{{$in: [{v}, {}, {}]}}", random.one(SCALARS), random.one(SCALARS)),
        6 => format!("{{$nin: [{v}, {}]}}", random.one(SCALARS)),
        7 => format!("{{$ne: {v}}}"),
        8 => format!("{{$not: {{$gt: {v}}}}}"),
        9 => format!("{{$exists: {}}}", random.one(&["true", "false"])),
        10 => format!(
            "{{$type: {}}}",
            random.one(&[
                "'number'",
                "'string'",
                "'array'",
                "'null'",
                "'object'",
                "['int', 'bool']"
            ])
        ),
        11 => format!("{{$elemMatch: {{$gt: {}, $lt: {}}}}}", random.below(3), random.below(5)),
        12 => format!("{{$elemMatch: {{x: {}, y: {v}}}}}", random.one(SCALARS)),
        13 => random.one(&["/^x/", "/y/", "/^x.*y/", "{$mod: [2, 1]}", "{$size: 2}"]).to_owned(),
        14 => format!("{{$not: {{$in: [{v}]}}}}"),
        _ => v,
    }
}

fn condition(random: &mut Random) -> String {
    if random.chance(6) {
        return region(random);
    }
    let path = random.one(PATHS);
    format!("'{path}': {}", operator(random))
}

/// A comparison of a path with a value, as an expression.
fn comparison(random: &mut Random) -> String {
    let path = random.one(&["$a", "$b", "$c", "$a.x", "$b.x", "$$ROOT.c", "$a.0", "$_id"]);
    let literal = |random: &mut Random| match random.below(12) {
        0 => "'$$REMOVE'".to_owned(),
        1 => "'$$NOW'".to_owned(),
        2 => "{$add: [1, 1]}".to_owned(),
        3 => format!("'${}'", random.one(ALL_FIELDS)),
        4 => "{$minKey: 1}".to_owned(),
        _ => format!("{{$literal: {}}}", value(random)),
    };
    if random.chance(20) {
        let elements: Vec<String> = (0..random.below(4)).map(|_| literal(random)).collect();
        return format!("{{$in: ['{path}', [{}]]}}", elements.join(", "));
    }
    let operator = random.one(&["$eq", "$lt", "$lte", "$gt", "$gte"]);
    let operand = literal(random);
    match random.chance(30) {
        true => format!("{{{operator}: [{operand}, '{path}']}}"),
        false => format!("{{{operator}: ['{path}', {operand}]}}"),
    }
}

fn expression(random: &mut Random) -> String {
    format!("{{$expr: {}}}", logic(random, 2))
}

/// Comparisons that `$and`, `$or` and `$not` combine.
fn logic(random: &mut Random, depth: u32) -> String {
    let operator = match random.below(8) {
        0 => "$and",
        1 | 2 => "$or",
        3 => return format!("{{$not: [{}]}}", comparison(random)),
        _ => return comparison(random),
    };
    if depth == 0 {
        return comparison(random);
    }
    let parts: Vec<String> = (0..random.below(4)).map(|_| logic(random, depth - 1)).collect();
    format!("{{{operator}: [{}]}}", parts.join(", "))
}

pub(crate) fn filter(random: &mut Random) -> String {
    let mut parts: Vec<String> =
        (0..random.below(3)).map(|_| format!("{{{}}}", condition(random))).collect();
    if random.chance(15) {
        parts.push(expression(random));
    }
    if random.chance(4) {
        parts.push(format!("{{$or: [{}, {{{}}}]}}", expression(random), condition(random)));
    }
    if random.chance(20) {
        let branches: Vec<String> =
            (0..1 + random.below(3)).map(|_| format!("{{{}}}", condition(random))).collect();
        parts.push(format!("{{$or: [{}]}}", branches.join(", ")));
    }
    if random.chance(8) {
        // Elements that satisfy several conditions at once, some of them on inner arrays.
        let (path, inner) = (random.one(&["a", "b"]), condition(random));
        parts.push(format!("{{{path}: {{$elemMatch: {{x: {}, {inner}}}}}}}", operator(random)));
    }
    if random.chance(5) {
        parts.push(format!("{{$nor: [{{{}}}]}}", condition(random)));
    }
    match parts.len() {
        0 => format!("{{{}}}", condition(random)),
        1 => parts.remove(0),
        _ => format!("{{$and: [{}]}}", parts.join(", ")),
    }
}

pub(crate) fn sort(random: &mut Random) -> String {
    if random.chance(50) {
        return "{}".to_owned();
    }
    let mut fields = BTreeMap::new();
    for _ in 0..1 + random.below(2) {
        fields.insert(random.one(&["a", "b", "c", "a.x", "_id"]), random.one(&["1", "-1"]));
    }
    let fields: Vec<String> = fields.iter().map(|(k, v)| format!("'{k}': {v}")).collect();
    format!("{{{}}}", fields.join(", "))
}

pub(crate) const PROJECTIONS: &[&str] =
    &["{}", "{}", "{a: 1, _id: 0}", "{b: 1, a: 1, _id: 0}", "{'a.x': 1, _id: 0}", "{c: 1}"];

pub(crate) struct Case<'c> {
    pub(crate) fixture: &'c Fixture,
    pub(crate) filter: DocBuf,
    pub(crate) sort: DocBuf,
    pub(crate) projection: DocBuf,
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) collation: Option<DocBuf>,
}

impl Case<'_> {
    pub(crate) fn request<'r>(&'r self, hint: Option<Hint<'r>>) -> FindRequest<'r> {
        FindRequest {
            filter: self.filter.as_doc(),
            sort: self.sort.as_doc(),
            projection: self.projection.as_doc(),
            skip: self.skip,
            limit: self.limit,
            collation: self.asked(),
            hint,
            ..FindRequest::new(&self.fixture.ns)
        }
    }

    pub(crate) fn asked(&self) -> Asked {
        Asked::parse(self.collation.as_ref().map(DocBuf::as_doc)).unwrap()
    }

    pub(crate) fn run(&self, hint: Option<Hint<'_>>, batch: usize) -> Option<Vec<DocBuf>> {
        let env = Env::new(&(), NOW_MS);
        let execution = find(&self.fixture.store, &self.request(hint), &env).ok()?;
        drain(execution, batch).ok()
    }
}

/// Documents built from keys have their fields in the order of the keys.
pub(crate) fn sorted(docs: &[DocBuf]) -> Vec<String> {
    let shown = |doc: &DocBuf| {
        let fields = doc.as_doc().iter().map(|e| format!("{}: {:?}", e.name(), e.value()));
        let mut fields: Vec<String> = fields.collect();
        fields.sort();
        fields.join(", ")
    };
    let mut out: Vec<String> = docs.iter().map(shown).collect();
    out.sort();
    out
}

pub(crate) fn keys(docs: &[DocBuf], sort: &SortSpec) -> Vec<Vec<u8>> {
    docs.iter()
        .map(|doc| {
            let mut key = Vec::new();
            sort.key(doc.as_doc(), &mut key).unwrap();
            key
        })
        .collect()
}

pub(crate) fn check(
    case: &Case<'_>,
    hint: Option<Hint<'_>>,
    batch: usize,
    expected: &[DocBuf],
    seed: u64,
) {
    let plan = case.fixture.plan(&case.request(hint));
    let context = format!(
        "seed {seed} hint {hint:?} batch {batch}\n filter {:?}\n sort {:?} projection {:?} \
         skip {} limit {:?} collation {:?}\n plan {plan}",
        case.filter, case.sort, case.projection, case.skip, case.limit, case.collation
    );
    let found = case.run(hint, batch).unwrap_or_else(|| panic!("failed: {context}"));
    if case.limit.is_none() && case.skip == 0 {
        assert_eq!(sorted(&found), sorted(expected), "{context}");
    }
    assert_eq!(found.len(), expected.len(), "{context}");
    if case.projection.as_doc().is_empty() {
        let spec = SortSpec::parse(case.sort.as_doc()).unwrap().collated(case.asked().or(None));
        let (found, expected) = (keys(&found, &spec), keys(expected, &spec));
        for (a, b) in found.iter().zip(&expected) {
            assert!(spec.compare(a, b).is_eq(), "order: {context}");
        }
    }
}

fn one_collection(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let fixture = Fixture::of_kind(random.below(8) as u64);
    let mut hints: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(4) {
        let text = random.one(INDEXES);
        let spec = doc(text);
        let name = spec.get("name").as_str().unwrap().to_owned();
        if !hints.contains(&name) && fixture.try_index(text).is_ok() {
            hints.push(name);
        }
    }
    let mut docs = Vec::new();
    let arrays: Vec<&str> = match random.below(3) {
        0 => ALL_FIELDS.to_vec(),
        _ => ALL_FIELDS.iter().copied().filter(|_| random.chance(30)).collect(),
    };
    for id in 0..10 + random.below(40) as u64 {
        let text = document_with(&mut random, id, &arrays);
        // Parallel arrays and arrays in hashed fields are refused.
        if fixture.insert(&text).is_ok() {
            docs.push(text);
        }
    }
    for _ in 0..QUERIES_EACH {
        one_query(&fixture, &hints, &mut random, seed);
    }
}

fn one_query(fixture: &Fixture, hints: &[String], random: &mut Random, seed: u64) {
    let text = filter(random);
    let Ok(filter) = nagi_bson::json::parse(&text) else { panic!("{text}") };
    let case = Case {
        fixture,
        filter,
        sort: doc(&sort(random)),
        projection: doc(random.one(PROJECTIONS)),
        skip: if random.chance(15) { 1 + random.below(6) as u64 } else { 0 },
        limit: random.chance(20).then(|| 1 + random.below(5) as u64),
        collation: random.chance(15).then(|| doc("{locale: 'en', strength: 2}")),
    };
    let natural = doc("{$natural: 1}");
    // Sorting by two arrays of one document fails; an index that orders them cannot exist.
    let Some(expected) = case.run(Some(Hint::Key(natural.as_doc())), usize::MAX) else { return };
    check(&case, None, usize::MAX, &expected, seed);
    check(&case, None, 1 + random.below(6), &expected, seed);
    for name in hints {
        // A hinted sparse or partial index may not contain all documents.
        let partly = ["sparse", "partial", "hashed", "sphere", "2d"];
        if partly.iter().any(|kind| name.ends_with(kind)) {
            continue;
        }
        // A hinted wildcard index serves some part of the filter, or the query fails.
        if name.ends_with("wild") && case.run(Some(Hint::Name(name)), usize::MAX).is_none() {
            continue;
        }
        check(&case, Some(Hint::Name(name)), 1 + random.below(9), &expected, seed);
    }
    if case.limit.is_none() && case.skip == 0 {
        counts(&fixture.ns, &case, expected.len());
        values(&case, random.one(PATHS), natural.as_doc());
    }
}

fn counts(ns: &Namespace, case: &Case<'_>, expected: usize) {
    let filter: Doc<'_> = case.filter.as_doc();
    let collation = case.asked();
    let request = CountRequest { filter, collation, ..CountRequest::new(ns) };
    let counted = count(&case.fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
    assert_eq!(counted.count as usize, expected, "count {:?}: {}", filter, counted.plan_summary);
}

/// Checks that the distinct values at a path, and the groups by it, are those of a collection scan.
fn values(case: &Case<'_>, path: &str, natural: Doc<'_>) {
    let fixture = case.fixture;
    let env = Env::new(&(), NOW_MS);
    let seen = [None, Some(Hint::Key(natural))].map(|hint| {
        let request = DistinctRequest {
            filter: case.filter.as_doc(),
            hint,
            collation: case.asked(),
            ..DistinctRequest::new(&fixture.ns, path)
        };
        let found = ArrayBuf::build(|out| {
            distinct(&fixture.store, &request, &env, out).unwrap();
        });
        let stages = ArrayBuf::build(|out| {
            out.doc(|out| out.doc("$match", |out| out.extend(case.filter.as_doc())));
            out.doc(|out| out.doc("$group", |out| out.put("_id", format!("${path}").as_str())));
        });
        let request = AggregateRequest {
            hint,
            collation: case.asked(),
            ..AggregateRequest::new(&fixture.ns, stages.as_array())
        };
        let groups = aggregate(&fixture.store, &request, &env).and_then(|run| drain(run, 7));
        let groups = groups.unwrap().into_iter().map(|doc| ValueBuf::new(doc.get("_id")));
        (ordered(found.as_array().iter().map(ValueBuf::new)), ordered(groups))
    });
    let same = |a: &[ValueBuf], b: &[ValueBuf]| {
        let equal = |(a, b): (&ValueBuf, &ValueBuf)| collation_equal(case, a, b);
        a.len() == b.len() && a.iter().zip(b).all(equal)
    };
    assert!(same(&seen[0].0, &seen[1].0), "distinct {path} {:?} {seen:?}", case.filter);
    assert!(same(&seen[0].1, &seen[1].1), "group {path} {:?} {seen:?}", case.filter);
}

/// It is unspecified which of several equal values is returned.
fn collation_equal(case: &Case<'_>, a: &ValueBuf, b: &ValueBuf) -> bool {
    nagi_lang::collation::equal(a.value(), b.value(), case.asked().or(None))
}

fn ordered(values: impl Iterator<Item = ValueBuf>) -> Vec<ValueBuf> {
    let mut values: Vec<ValueBuf> = values.collect();
    values.sort_by(|a, b| {
        let lower = |value: &ValueBuf| format!("{:?}", value.value()).to_lowercase();
        nagi_bson::compare::values(a.value(), b.value()).then_with(|| lower(a).cmp(&lower(b)))
    });
    values
}

#[test]
fn any_plan_returns_what_a_collection_scan_returns() {
    for seed in 1..=cases().div_ceil(QUERIES_EACH) {
        one_collection(seed);
    }
}
