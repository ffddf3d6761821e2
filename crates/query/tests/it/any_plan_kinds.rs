//! Like `any_plan`, for queries that a collection scan cannot run or that random queries rarely contain: text
//! searches, `min` and `max`, hidden indexes, `$or` with an index for each branch, `$in` merged into an order.
//!
//! A text search is compared with a search in this file that splits at blanks; `min` and `max` are compared with
//! the order of keys of a sort.

use nagi_bson::{Doc, DocBuf, Value};
use nagi_lang::sort::SortSpec;
use nagi_query::{Env, FindRequest, Hint, find};

use crate::any_plan::{Case, PROJECTIONS, Random, SCALARS, cases, check, document, filter};
use crate::fixture::{Fixture, NOW_MS, doc, drain};

const QUERIES_EACH: u64 = 20;

const WORDS: &[&str] = &["ash", "beech", "cedar", "elm", "fir", "oak", "pine", "yew"];

const TEXT_INDEXES: &[&str] = &[
    "{key: {w: 'text'}, name: 'text', default_language: 'none'}",
    "{key: {w: 'text', 'v.w': 'text'}, name: 'text', default_language: 'none', weights: {w: 7}}",
    "{key: {'$**': 'text'}, name: 'text', default_language: 'none'}",
    "{key: {w: 'text', a: 1}, name: 'text', default_language: 'none'}",
];

const OTHERS: &[&str] = &[
    "{key: {a: 1}, name: 'a_1'}",
    "{key: {b: -1, a: 1}, name: 'b_-1_a_1'}",
    "{key: {a: 1, b: 1, c: -1}, name: 'a_1_b_1_c_-1'}",
    "{key: {c: 1}, name: 'c_1'}",
    "{key: {c: 1, b: -1}, name: 'c_1_b_-1'}",
    "{key: {b: 'hashed'}, name: 'b_hashed'}",
    "{key: {a: 1, c: -1}, name: 'hidden', hidden: true}",
    "{key: {'$**': 1}, name: 'hidden_wild', hidden: true}",
    "{key: {a: 1}, name: 'a_sparse', sparse: true}",
    "{key: {b: 1}, name: 'b_partial', partialFilterExpression: {a: {$gte: 1}}}",
    "{key: {'a.$**': 1, b: 1}, name: 'a_b_wild'}",
];

/// Words of the field `w`, or of all strings if the index contains all.
fn words(random: &mut Random, count_max: usize) -> Vec<&'static str> {
    let count = random.below(count_max + 1);
    (0..count).map(|_| WORDS[random.below(WORDS.len())]).collect()
}

fn with_words(random: &mut Random, id: u64) -> String {
    let plain = document(random, id);
    let (w, v) = (words(random, 5).join(" "), words(random, 2).join(" "));
    let upper = if random.below(4) == 0 { w.to_uppercase() } else { w };
    format!("{}, w: '{upper}', v: [{{w: '{v}'}}, 1]}}", &plain[..plain.len() - 1])
}

/// A search: any of some words, none of others, and phrases.
struct Search {
    any: Vec<&'static str>,
    none: Vec<&'static str>,
    phrase: Option<String>,
}

impl Search {
    fn new(random: &mut Random) -> Search {
        let mut any = words(random, 2);
        any.push(WORDS[random.below(WORDS.len())]);
        let none = if random.below(3) == 0 { words(random, 1) } else { Vec::new() };
        let phrase = (random.below(4) == 0).then(|| {
            format!("{} {}", WORDS[random.below(WORDS.len())], WORDS[random.below(WORDS.len())])
        });
        Search { any, none, phrase }
    }

    fn text(&self) -> String {
        let none = self.none.iter().map(|word| format!("-{word}"));
        let phrase = self.phrase.iter().map(|phrase| format!("\\\"{phrase}\\\""));
        let parts = self.any.iter().map(|word| (*word).to_owned()).chain(none).chain(phrase);
        parts.collect::<Vec<_>>().join(" ")
    }

    /// Searches the strings alone, independently of the index.
    fn finds(&self, texts: &[String]) -> bool {
        let has = |word: &str| texts.iter().any(|text| text.split(' ').any(|found| found == word));
        // The words of a phrase are searched, too. That does not matter, because the whole phrase has to match.
        let phrase = self.phrase.as_ref();
        let any = match phrase {
            Some(phrase) => texts.iter().any(|text| text.contains(phrase.as_str())),
            None => self.any.iter().any(|word| has(word)),
        };
        any && !self.none.iter().any(|word| has(word))
    }
}

/// The strings of a document that the index contains, in lower case.
fn texts_of(doc: Doc<'_>, index: usize) -> Vec<String> {
    let mut out = Vec::new();
    match index {
        2 => strings_of(Value::Doc(doc), &mut out),
        1 => {
            strings_of(doc.get("w"), &mut out);
            strings_of(doc.get("v"), &mut out);
        }
        _ => strings_of(doc.get("w"), &mut out),
    }
    out
}

fn strings_of(value: Value<'_>, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.to_lowercase()),
        Value::Doc(doc) => doc.iter().for_each(|element| strings_of(element.value(), out)),
        Value::Array(items) => items.iter().for_each(|item| strings_of(item, out)),
        _ => {}
    }
}

fn ids(docs: &[DocBuf]) -> Vec<String> {
    let mut out: Vec<String> = docs.iter().map(|doc| doc.get("_id").to_string()).collect();
    out.sort();
    out
}

fn found(fixture: &Fixture, request: &FindRequest<'_>, batch: usize) -> Option<Vec<DocBuf>> {
    drain(find(&fixture.store, request, &Env::new(&(), NOW_MS)).ok()?, batch).ok()
}

fn search(fixture: &Fixture, index: usize, random: &mut Random, seed: u64) {
    let search = Search::new(random);
    let other = if random.below(2) == 0 { "{}".to_owned() } else { filter(random) };
    let (all, natural) = (doc(&other), doc("{$natural: 1}"));
    let hint = Some(Hint::Key(natural.as_doc()));
    let request = FindRequest { filter: all.as_doc(), hint, ..FindRequest::new(&fixture.ns) };
    let Some(scanned) = found(fixture, &request, 100) else { return };
    let expected: Vec<DocBuf> =
        scanned.into_iter().filter(|doc| search.finds(&texts_of(doc.as_doc(), index))).collect();
    let text = format!("{{$and: [{other}, {{$text: {{$search: \"{}\"}}}}]}}", search.text());
    let filter = doc(&text);
    let by_score = doc("{score: {$meta: 'textScore'}}");
    let sort = if random.below(2) == 0 { by_score.as_doc() } else { Doc::EMPTY };
    let request = FindRequest { filter: filter.as_doc(), sort, ..FindRequest::new(&fixture.ns) };
    let found = found(fixture, &request, 1 + random.below(20));
    let context = format!("seed {seed} index {} filter {text}", TEXT_INDEXES[index]);
    let found = found.unwrap_or_else(|| panic!("failed: {context}"));
    assert_eq!(ids(&found), ids(&expected), "{context} plan {}", fixture.plan(&request));
}

/// A filter whose branches or values have bounds of their own, and an order.
fn merged(random: &mut Random) -> (String, String) {
    let one = |random: &mut Random| random.one(SCALARS).to_owned();
    let list = |random: &mut Random| {
        let items: Vec<String> = (0..1 + random.below(4)).map(|_| one(random)).collect();
        items.join(", ")
    };
    let filter = match random.below(5) {
        0 => format!("{{a: {{$in: [{}]}}}}", list(random)),
        1 => format!("{{a: {{$in: [{}]}}, b: {{$in: [{}]}}}}", list(random), list(random)),
        2 => format!(
            "{{$or: [{{a: {}}}, {{b: {}}}, {{c: {{$in: [{}]}}}}]}}",
            one(random),
            one(random),
            list(random)
        ),
        3 => format!(
            "{{$or: [{{a: {}, b: {{$gt: {}}}}}, {{c: {}, b: {}}}]}}",
            one(random),
            one(random),
            one(random),
            one(random)
        ),
        _ => {
            format!("{{b: {}, $or: [{{a: {}}}, {{c: {}}}]}}", one(random), one(random), one(random))
        }
    };
    let sort =
        random.one(&["{b: 1}", "{b: -1}", "{c: -1}", "{b: 1, c: -1}", "{a: 1}", "{c: 1, b: -1}"]);
    (filter, sort.to_owned())
}

fn merge(fixture: &Fixture, hints: &[String], random: &mut Random, seed: u64) {
    let (filter, sort) = merged(random);
    let case = Case {
        fixture,
        filter: doc(&filter),
        sort: doc(&sort),
        projection: doc(random.one(PROJECTIONS)),
        skip: 0,
        limit: (random.below(2) == 0).then(|| 1 + random.below(6) as u64),
        collation: None,
    };
    let natural = doc("{$natural: 1}");
    let scan = case.run(Some(Hint::Key(natural.as_doc())), usize::MAX);
    let Some(expected) = scan else { return };
    check(&case, None, 1 + random.below(9), &expected, seed);
    let plan = fixture.plan(&case.request(None));
    assert!(!plan.contains("hidden"), "a hidden index serves: seed {seed} {filter} {plan}");
    for name in hints {
        let partly = ["sparse", "partial", "hashed", "hidden", "wild", "text"];
        if !partly.iter().any(|kind| name.contains(kind)) {
            check(&case, Some(Hint::Name(name)), 1 + random.below(9), &expected, seed);
        }
    }
}

/// Compares the documents whose index keys lie within bounds, in index order, with the keys of a sort.
fn between(fixture: &Fixture, docs: &[DocBuf], random: &mut Random, seed: u64) {
    let (name, pattern) = match random.below(3) {
        0 => ("a_1", "{a: 1}"),
        1 => ("c_1_b_-1", "{c: 1, b: -1}"),
        _ => ("b_-1_a_1", "{b: -1, a: 1}"),
    };
    let pattern = doc(pattern);
    let spec = SortSpec::parse(pattern.as_doc()).unwrap();
    let key = |doc: Doc<'_>| {
        let mut key = Vec::new();
        spec.key(doc, &mut key).unwrap();
        key
    };
    let mut bound = || {
        let fields: Vec<String> = pattern
            .as_doc()
            .iter()
            .map(|element| format!("{}: {}", element.name(), random.one(SCALARS)))
            .collect();
        doc(&format!("{{{}}}", fields.join(", ")))
    };
    let (mut min, mut max) = (bound(), bound());
    if [&min, &max]
        .iter()
        .any(|bound| bound.as_doc().iter().any(|e| matches!(e.value(), Value::Array(_))))
    {
        return; // an array as a bound is itself, not its elements
    }
    if spec.compare(&key(min.as_doc()), &key(max.as_doc())).is_gt() {
        std::mem::swap(&mut min, &mut max);
    }
    let (low, high) = (key(min.as_doc()), key(max.as_doc()));
    let mut expected: Vec<(Vec<u8>, String)> = docs
        .iter()
        .map(|doc| (key(doc.as_doc()), doc.get("_id").to_string()))
        .filter(|(key, _)| spec.compare(key, &low).is_ge() && spec.compare(key, &high).is_lt())
        .collect();
    expected.sort_by(|a, b| spec.compare(&a.0, &b.0));
    let request = FindRequest {
        hint: Some(Hint::Name(name)),
        min: min.as_doc(),
        max: max.as_doc(),
        ..FindRequest::new(&fixture.ns)
    };
    let context = format!("seed {seed} {name} min {min:?} max {max:?}");
    let same = spec.compare(&low, &high).is_eq();
    let Some(seen) = found(fixture, &request, 7) else {
        assert!(same, "failed: {context}"); // an empty range is refused
        return;
    };
    for (seen, expected) in seen.iter().zip(&expected) {
        assert!(spec.compare(&key(seen.as_doc()), &expected.0).is_eq(), "order: {context}");
    }
    let mut expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    expected.sort();
    assert_eq!(ids(&seen), expected, "{context}");
}

fn one_collection(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let fixture = Fixture::of_kind(seed);
    let index = random.below(TEXT_INDEXES.len());
    fixture.index(TEXT_INDEXES[index]);
    let mut hints: Vec<String> = Vec::new();
    for _ in 0..2 + random.below(5) {
        let text = random.one(OTHERS);
        let name = doc(text).get("name").as_str().unwrap().to_owned();
        if !hints.contains(&name) && fixture.try_index(text).is_ok() {
            hints.push(name);
        }
    }
    for id in 0..10 + random.below(40) as u64 {
        // Parallel arrays and arrays in hashed fields are refused.
        let _ = fixture.insert(&with_words(&mut random, id));
    }
    let ranged = scalars(&mut random);
    for _ in 0..QUERIES_EACH / 4 {
        search(&fixture, index, &mut random, seed);
        search(&fixture, index, &mut random, seed);
        merge(&fixture, &hints, &mut random, seed);
        between(&ranged.0, &ranged.1, &mut random, seed);
    }
}

/// A collection without arrays, so that each document has one key in each index.
fn scalars(random: &mut Random) -> (Fixture, Vec<DocBuf>) {
    let fixture = Fixture::of_kind(random.below(8) as u64);
    for index in ["a_1", "c_1_b_-1", "b_-1_a_1"] {
        let spec = OTHERS.iter().find(|spec| spec.contains(&format!("name: '{index}'"))).unwrap();
        fixture.index(spec);
    }
    let mut docs = Vec::new();
    for id in 0..10 + random.below(30) {
        let mut text = format!("{{_id: {id}");
        for name in ["a", "b", "c"] {
            let value = random.one(SCALARS);
            if value != "[]" && random.below(6) > 0 {
                text.push_str(&format!(", {name}: {value}"));
            }
        }
        text.push('}');
        fixture.insert(&text).unwrap();
        docs.push(doc(&text));
    }
    (fixture, docs)
}

#[test]
fn every_kind_of_index_returns_what_a_scan_returns() {
    for seed in 1..=cases().div_ceil(QUERIES_EACH) {
        one_collection(seed);
    }
}
