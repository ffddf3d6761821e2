//! Text searches by index, compared with searches of every document: the same set, and the same scores.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_lang::{
    expr::ParseCx,
    filter::{Allowed, Filter},
    text::{Language, TextSpec},
};
use nagi_query::{Env, FindRequest, find};

use crate::any_plan::Random;
use crate::fixture::{Fixture, NOW_MS, doc, drain};

impl Random {
    fn word(&mut self) -> &'static str {
        const WORDS: &[&str] = &[
            "fox",
            "Foxes",
            "run",
            "running",
            "the",
            "caf\u{e9}",
            "cafe",
            "H\u{e4}user",
            "haus",
            "is",
            "quick",
            "QUICK",
            "dog's",
            "dogs",
            "a-b",
            "naive",
            "na\u{ef}ve",
            "x_y",
            "12",
            "le",
        ];
        WORDS[self.below(WORDS.len())]
    }

    fn words(&mut self, count_max: usize) -> String {
        let count = self.below(count_max + 1);
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    fn document(&mut self, id: usize) -> String {
        let language = match self.below(6) {
            0 => ", language: 'german'",
            1 => ", language: 'fr'",
            2 => ", language: 'none'",
            _ => "",
        };
        format!(
            "{{_id: {id}, p: {}, t: \"{}\", u: [\"{}\", {{v: \"{}\"{language}}}], o: \"{}\"{}}}",
            self.below(3),
            self.words(6),
            self.words(2),
            self.words(3),
            self.words(3),
            if self.below(5) == 0 { ", language: 'es'" } else { "" }
        )
    }

    fn search(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..=self.below(3) {
            let part = match self.below(6) {
                0 => format!("-{} ", self.word()),
                1 => format!("\\\"{} {}\\\" ", self.word(), self.word()),
                2 if self.below(3) == 0 => format!("-\\\"{}\\\" ", self.word()),
                _ => format!("{} ", self.word()),
            };
            out.push_str(&part);
        }
        let mut options = String::new();
        if self.below(4) == 0 {
            options.push_str(", $caseSensitive: true");
        }
        if self.below(4) == 0 {
            options.push_str(", $diacriticSensitive: true");
        }
        if self.below(3) == 0 {
            options.push_str(", $language: 'german'");
        }
        format!("$text: {{$search: \"{out}\"{options}}}")
    }
}

fn run(fixture: &Fixture, filter: Doc<'_>, scored: bool, batch: usize) -> Vec<(String, f64)> {
    let projection = doc("{_id: 1, s: {$meta: 'textScore'}}");
    let sort = doc("{s: {$meta: 'textScore'}, _id: 1}");
    let request = match scored {
        true => FindRequest {
            filter,
            projection: projection.as_doc(),
            sort: sort.as_doc(),
            ..FindRequest::new(&fixture.ns)
        },
        false => FindRequest { filter, ..FindRequest::new(&fixture.ns) },
    };
    let execution = find(&fixture.store, &request, &Env::new(&(), NOW_MS)).expect("a plan");
    let found = drain(execution, batch).expect("documents");
    let score = |doc: &DocBuf| match doc.get("s") {
        Value::Double(score) => score,
        _ => 0.0,
    };
    found.iter().map(|doc| (doc.get("_id").to_string(), score(doc))).collect()
}

fn check(index: &str, spec: TextSpec, prefixed: bool, seed: u64) {
    let mut random = Random(seed);
    let fixture = Fixture::of_kind(seed);
    fixture.index(index);
    let docs: Vec<DocBuf> = (0..150).map(|id| doc(&random.document(id))).collect();
    for doc in &docs {
        fixture.insert_doc("c", doc.as_doc()).expect("inserted");
    }
    let spec = Arc::new(spec);
    for _ in 0..120 {
        let fixed = if prefixed { "p: 1, " } else { "" };
        let text = format!("{{{fixed}{}}}", random.search());
        let filter = doc(&text);
        let mut naive =
            Filter::parse_with(filter.as_doc(), &mut ParseCx::new(), Allowed::WITH_NEAR).unwrap();
        naive = naive.normalize();
        let search = naive.text().expect("a search").clone();
        let bound = search.bind(&spec).expect("a language");
        let mut expected: Vec<(String, f64)> = docs
            .iter()
            .filter(|doc| !prefixed || doc.get("p") == Value::Int32(1))
            .filter(|doc| bound.matches(doc.as_doc()).unwrap())
            .map(|doc| (doc.get("_id").to_string(), bound.score(doc.as_doc()).unwrap()))
            .collect();
        let mut found = run(&fixture, filter.as_doc(), true, 1 + random.below(40));
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{text}: {found:?}");
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(found.len(), expected.len(), "{text}: {found:?} {expected:?}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.0, expected.0, "{text}");
            assert!((found.1 - expected.1).abs() < 1e-9, "{text}: {found:?} {expected:?}");
        }
        let mut plain = run(&fixture, filter.as_doc(), false, 1 + random.below(40));
        plain.sort_by(|a, b| a.0.cmp(&b.0));
        let ids = |list: &[(String, f64)]| list.iter().map(|p| p.0.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&plain), ids(&expected), "{text}");
    }
}

fn spec(fields: &[(&str, f64)], wildcard: Option<f64>, version: u8) -> TextSpec {
    TextSpec {
        fields: fields.iter().map(|(path, weight)| ((*path).into(), *weight)).collect(),
        wildcard,
        default_language: Language::ENGLISH,
        language_override: "language".into(),
        version,
    }
}

#[test]
fn searches_find_what_a_scan_finds() {
    let fields = [("t", 3.0), ("u", 1.0), ("u.v", 2.0)];
    let index =
        "{key: {t: 'text', 'u.v': 'text', u: 'text'}, name: 'x', weights: {t: 3, 'u.v': 2}}";
    check(index, spec(&fields, None, 3), false, 7);
    let index = "{key: {'$**': 'text'}, name: 'x', weights: {t: 3}}";
    check(index, spec(&[("t", 3.0)], Some(1.0), 3), false, 11);
    let index = "{key: {p: 1, t: 'text', o: 'text', _id: 1}, name: 'x', textIndexVersion: 2}";
    check(index, spec(&[("o", 1.0), ("t", 1.0)], None, 2), true, 13);
    let index = "{key: {t: 'text', u: 'text', 'u.v': 'text'}, name: 'x', textIndexVersion: 1}";
    check(index, spec(&[("t", 1.0), ("u", 1.0), ("u.v", 1.0)], None, 1), false, 17);
}

/// More scored records than the memory holds: they are spilled, and the result is the same.
#[test]
fn scores_spill() {
    let fixture = Fixture::new();
    fixture.index("{key: {t: 'text'}, name: 'x'}");
    for id in 0..5000 {
        let words = if id % 3 == 0 { "fox dog" } else { "dog" };
        fixture.insert(&format!("{{_id: {id}, t: '{words}'}}")).unwrap();
    }
    let pipeline = "[{$match: {$text: {$search: 'dog fox'}}}, {$project: {s: {$meta: 'textScore'}}}, \
                    {$group: {_id: '$s', n: {$sum: 1}}}, {$sort: {_id: 1}}]";
    let plain = fixture.aggregate(pipeline).unwrap();
    let spilled = fixture.aggregate_in(pipeline, 50_000).unwrap();
    assert_eq!(plain, spilled);
    assert_eq!(plain.len(), 2);
    let refused = fixture.aggregate_without_disk(pipeline, 50_000).unwrap_err();
    assert!(refused.to_string().starts_with("292 "), "{refused}");
}
