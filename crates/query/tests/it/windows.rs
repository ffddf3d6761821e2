//! Window functions, compared with a second implementation: every window is computed on its own, from the start.
//!
//! Documents, partitions and windows are generated from a seed. Accumulators run over the list of the window's
//! documents; the other functions follow their definition, in doubles.

use std::fmt::Write as _;

use bumpalo::Bump;
use nagi_bson::{Doc, DocBuf, Value, compare, number};
use nagi_lang::accum::AccumSpec;
use nagi_lang::expr::{Eval, ParseCx, Vars};

use crate::any_plan::Random;
use crate::fixture::{Fixture, doc};

const COLLECTIONS: u64 = 5;
const WINDOWS_EACH: usize = 5;

const VALUES: &[&str] = &[
    "1",
    "2",
    "-3",
    "4.5",
    "0.1",
    "1e10",
    "-7.25",
    "NumberLong(9000000000)",
    "NumberDecimal('2.25')",
    "null",
    "'x'",
    "[1]",
];

/// Accumulators whose results are compared exactly.
const EXACT: &[&str] = &[
    "{$sum: '$v'}",
    "{$avg: '$v'}",
    "{$min: '$v'}",
    "{$max: '$v'}",
    "{$first: '$v'}",
    "{$last: '$v'}",
    "{$push: '$v'}",
    "{$count: {}}",
    "{$firstN: {input: '$v', n: 3}}",
    "{$lastN: {input: '$v', n: 3}}",
    "{$minN: {input: '$v', n: 2}}",
    "{$maxN: {input: '$v', n: 2}}",
    "{$top: {output: '$_id', sortBy: {v: 1}}}",
    "{$bottom: {output: '$_id', sortBy: {v: 1}}}",
    "{$topN: {n: 3, output: '$_id', sortBy: {v: -1}}}",
    "{$bottomN: {n: 3, output: '$_id', sortBy: {w: 1, v: -1}}}",
    "{$percentile: {input: '$w', p: [0.1, 0.5, 0.9], method: 'approximate'}}",
    "{$median: {input: '$v', method: 'approximate'}}",
    "{$concatArrays: '$a'}",
];

/// Accumulators whose results are compared as sets, and as doubles.
const SETS: &[&str] = &["{$addToSet: '$v'}", "{$setUnion: '$a'}"];
const REAL: &[&str] = &["{$stdDevPop: '$w'}", "{$stdDevSamp: '$w'}"];

/// A partition's documents in order.
type Docs = Vec<DocBuf>;

fn generate(random: &mut Random, fixture: &Fixture) -> Vec<Docs> {
    let mut partitions: Vec<Docs> = vec![Docs::new(), Docs::new(), Docs::new()];
    for id in 0..60 {
        let group = random.below(3);
        let mut text = format!("{{_id: {id}, g: {group}, t: {}, ", random.below(25));
        if random.below(8) > 0 {
            let _ = write!(text, "v: {}, ", random.one(VALUES));
        }
        if random.below(6) > 0 {
            let _ = write!(text, "a: [{}, {}], ", random.below(4), random.below(4));
        }
        let _ = write!(text, "w: {}.5}}", random.below(40));
        fixture.insert(&text).unwrap();
        partitions[group].push(doc(&text));
    }
    for partition in &mut partitions {
        partition.sort_by_key(|doc| (number::as_i64_exact(doc.get("t")), id(doc)));
    }
    partitions
}

fn id(doc: &DocBuf) -> i64 {
    number::as_i64_exact(doc.get("_id")).unwrap()
}

fn key(doc: &DocBuf) -> i64 {
    number::as_i64_exact(doc.get("t")).unwrap()
}

/// The end of a window; none is unbounded.
#[derive(Clone, Copy)]
enum End {
    Unbounded,
    Current,
    By(i64),
}

impl End {
    fn text(self) -> String {
        match self {
            End::Unbounded => "'unbounded'".to_owned(),
            End::Current => "'current'".to_owned(),
            End::By(by) => by.to_string(),
        }
    }

    fn random(random: &mut Random, reach: usize) -> End {
        match random.below(5) {
            0 => End::Unbounded,
            1 => End::Current,
            _ => End::By(random.below(2 * reach + 1) as i64 - reach as i64),
        }
    }

    fn offset(self, unbounded: i64) -> i64 {
        match self {
            End::Unbounded => unbounded,
            End::Current => 0,
            End::By(by) => by,
        }
    }
}

struct Window {
    range: bool,
    ends: [End; 2],
}

impl Window {
    fn random(random: &mut Random) -> Window {
        loop {
            let range = random.below(2) == 0;
            let ends = [End::random(random, 6), End::random(random, 6)];
            if ends[0].offset(i64::MIN) <= ends[1].offset(i64::MAX) {
                return Window { range, ends };
            }
        }
    }

    fn text(&self) -> String {
        let name = if self.range { "range" } else { "documents" };
        format!("{{{name}: [{}, {}]}}", self.ends[0].text(), self.ends[1].text())
    }

    /// The documents of the window of the document at `at`.
    fn docs<'d>(&self, docs: &'d [DocBuf], at: usize) -> Vec<&'d DocBuf> {
        let inside = |other: usize| {
            let by_place = other as i64 - at as i64;
            let by_key = key(&docs[other]) - key(&docs[at]);
            let distance = |end: End| match end {
                End::By(_) if self.range => by_key,
                _ => by_place,
            };
            self.ends[0].offset(i64::MIN) <= distance(self.ends[0])
                && distance(self.ends[1]) <= self.ends[1].offset(i64::MAX)
        };
        (0..docs.len()).filter(|other| inside(*other)).map(|other| &docs[other]).collect()
    }
}

/// The accumulator's result for these documents alone.
fn accumulate(spec: &AccumSpec, docs: &[&DocBuf]) -> DocBuf {
    let mut state = spec.new_state();
    for doc in docs {
        let (arena, vars) = (Bump::new(), Vars::EMPTY);
        let cx = Eval::new(doc.as_doc(), &vars, &arena, 0);
        state.add(spec.argument().eval(&cx).unwrap()).unwrap();
    }
    DocBuf::build(|out| state.finish(out.slot("r")))
}

fn ordered(value: Value<'_>) -> Vec<nagi_bson::ValueBuf> {
    let items = value.as_array().map(|a| a.iter().collect::<Vec<_>>()).unwrap_or_default();
    let mut items: Vec<_> = items.into_iter().map(nagi_bson::ValueBuf::new).collect();
    items.sort_by(|a, b| compare::values(a.value(), b.value()));
    items
}

fn near(a: Value<'_>, b: Value<'_>) -> bool {
    match (number::as_f64(a), number::as_f64(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs()),
        _ => a.is_nullish() && b.is_nullish(),
    }
}

fn agrees(call: &str, expected: Value<'_>, found: Value<'_>) -> bool {
    if SETS.contains(&call) {
        let (a, b) = (ordered(expected), ordered(found));
        return a.len() == b.len()
            && a.iter().zip(&b).all(|(a, b)| compare::equal(a.value(), b.value()));
    }
    if REAL.contains(&call) {
        return near(expected, found);
    }
    expected.same_bytes(&found) || format!("{expected}") == format!("{found}")
}

fn check(seed: u64) {
    let mut random = Random(seed * 0x9E37_79B9 + 1);
    let fixture = Fixture::new();
    let partitions = generate(&mut random, &fixture);
    for _ in 0..WINDOWS_EACH {
        let window = Window::random(&mut random);
        // Ties are ordered by the engine's record order, which is that of the ids.
        let sort = if window.range { "{t: 1}" } else { "{t: 1, _id: 1}" };
        for call in EXACT.iter().chain(SETS).chain(REAL) {
            let body = &call[1..call.len() - 1];
            let pipeline = format!(
                "[{{$setWindowFields: {{partitionBy: '$g', sortBy: {sort}, output: {{r: {{{body}, \
                 window: {}}}}}}}}}]",
                window.text()
            );
            let memory = if random.below(3) == 0 { 8_000 } else { 1 << 26 };
            let found = match fixture.aggregate_in(&pipeline, memory) {
                // The memory does not suffice even for the states: the test is repeated with more.
                Err(error) if error.code().0 == 5_414_201 => fixture.aggregate(&pipeline).unwrap(),
                found => found.unwrap(),
            };
            let spec = doc(call);
            let spec = AccumSpec::parse_field("r", Value::Doc(spec.as_doc()), &mut ParseCx::new());
            let spec = spec.unwrap();
            let mut results = found.iter();
            for docs in &partitions {
                for at in 0..docs.len() {
                    let result = results.next().unwrap();
                    assert_eq!(id(result), id(&docs[at]), "seed {seed} {pipeline}");
                    let expected = accumulate(&spec, &window.docs(docs, at));
                    assert!(
                        agrees(call, expected.get("r"), result.get("r")),
                        "seed {seed} {pipeline}\nat {result:?}\nexpected {expected:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn accumulators_over_windows_agree_with_fresh_ones() {
    (0..COLLECTIONS).for_each(check);
}

fn real(doc: &DocBuf, name: &str) -> f64 {
    number::as_f64(doc.get(name)).unwrap()
}

/// The definition of a function that is not an accumulator, over the documents of a window.
fn defined(name: &str, window: &[&DocBuf], here: &DocBuf) -> Option<f64> {
    let (first, last) = (window.first()?, window.last()?);
    match name {
        "$derivative" => {
            let run = real(last, "k") - real(first, "k");
            (run != 0.0).then(|| (real(last, "w") - real(first, "w")) / run)
        }
        "$integral" => Some(
            window
                .windows(2)
                .map(|two| {
                    (real(two[1], "k") - real(two[0], "k"))
                        * (real(two[0], "w") + real(two[1], "w"))
                        / 2.0
                })
                .sum(),
        ),
        "$covariancePop" => {
            let count = window.len() as f64;
            let mean = |name: &str| window.iter().map(|doc| real(doc, name)).sum::<f64>() / count;
            let (k, w) = (mean("k"), mean("w"));
            Some(
                window.iter().map(|doc| (real(doc, "k") - k) * (real(doc, "w") - w)).sum::<f64>()
                    / count,
            )
        }
        _ => {
            let all = || window.iter().map(|doc| real(doc, "w"));
            let (min, max) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
            Some(if min < max { (real(here, "w") - min) / (max - min) } else { 0.0 })
        }
    }
}

#[test]
fn functions_over_windows_agree_with_their_definitions() {
    let calls = [
        "$derivative: {input: '$w'}",
        "$integral: {input: '$w'}",
        "$covariancePop: ['$k', '$w']",
        "$minMaxScaler: {input: '$w'}",
    ];
    for seed in 1..40 {
        let mut random = Random(seed * 77_777);
        let fixture = Fixture::new();
        let mut docs = Docs::new();
        let mut k = 0;
        for id in 0..50 {
            k += 1 + random.below(3);
            let text = format!("{{_id: {id}, t: {k}, k: {k}, w: {}.25}}", random.below(90));
            fixture.insert(&text).unwrap();
            docs.push(doc(&text));
        }
        let window = Window::random(&mut random);
        for call in calls {
            let name = call.split(':').next().unwrap();
            let pipeline = format!(
                "[{{$setWindowFields: {{sortBy: {{t: 1}}, output: {{r: {{{call}, window: {}}}}}}}}}]",
                window.text()
            );
            let found = match fixture.aggregate(&pipeline) {
                // A window without the document is refused.
                Err(error) if name == "$minMaxScaler" && error.code().0 == 9 => continue,
                found => found.unwrap(),
            };
            for (at, result) in found.iter().enumerate() {
                let expected = defined(name, &window.docs(&docs, at), &docs[at]);
                let expected = expected.map_or(Value::Null, Value::Double);
                assert!(
                    near(expected, result.get("r")),
                    "seed {seed} {pipeline}\nat {result:?}\nexpected {expected}"
                );
            }
        }
    }
}

#[test]
fn a_window_that_left_a_large_number_behind_forgets_it() {
    let fixture = Fixture::new();
    for (id, v) in ["1e308", "1e308", "NaN", "0.1", "0.2", "Infinity", "3"].iter().enumerate() {
        fixture.insert(&format!("{{_id: {id}, v: {v}}}")).unwrap();
    }
    let found = fixture
        .aggregate(
            "[{$setWindowFields: {sortBy: {_id: 1}, output: {r: {$sum: '$v', window: \
             {documents: [-1, 0]}}, m: {$avg: '$v', window: {documents: [0, 0]}}}}}]",
        )
        .unwrap();
    let sums: Vec<f64> = found.iter().map(|doc| real(doc, "r")).collect();
    assert!(sums[1].is_infinite() && sums[2].is_nan() && sums[3].is_nan());
    assert_eq!(sums[4].to_bits(), (0.1_f64 + 0.2).to_bits());
    assert!(sums[5].is_infinite() && sums[6].is_infinite());
    assert_eq!(real(&found[6], "m"), 3.0);
}

#[test]
fn a_partition_larger_than_the_memory_goes_to_disk() {
    let fixture = Fixture::new();
    for n in 0..600 {
        fixture.insert(&format!("{{_id: {n}, g: {}, s: '{n:01000}'}}", n % 2)).unwrap();
    }
    let pipeline = "[{$setWindowFields: {partitionBy: '$g', sortBy: {_id: 1}, output: {all: {$sum: \
                    '$_id'}, near: {$min: '$_id', window: {documents: [-3, 2]}}, rest: {$count: {}, \
                    window: {documents: ['current', 'unbounded']}}}}}]";
    let expected = fixture.aggregate(pipeline).unwrap();
    let found = fixture.aggregate_in(pipeline, 150_000).unwrap();
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    let whole = "[{$setWindowFields: {sortBy: {_id: 1}, output: {r: {$push: '$s', window: \
                 {documents: [-500, 0]}}}}}]";
    let error = fixture.aggregate_in(whole, 150_000).unwrap_err();
    assert_eq!(error.code().0, 5_414_201);
    let refused = fixture.aggregate_without_disk(pipeline, 150_000).unwrap_err();
    assert_eq!(refused.code().0, 292);
    let last = Doc::trusted(found[599].as_bytes()).get("all");
    assert_eq!(number::as_i64_exact(last), Some(90_000));
}
