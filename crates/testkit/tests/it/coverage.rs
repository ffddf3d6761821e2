//! Rules over `docs/features.tsv`, the inventory of client-visible features, and `docs/coverage.md`, which
//! lists the features that are present.
//!
//! The page is generated from the rows that tests over the wire reported (`make coverage`), and `make test`
//! compares it with the rows of its own run (tests/run). This file checks what needs no server: that the page
//! and the inventory contain the same rows, and that a row that is present has golden cases.
use nagi_testkit::tidy::{read, root};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const PAGE: &str = "docs/coverage.md";

struct Feature {
    id: String,
    name: String,
    kind: String,
    tier: String,
    part: bool,
}

fn inventory() -> Vec<Feature> {
    let text = read("docs/features.tsv").expect("docs/features.tsv is there");
    let mut features = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [id, name, kind, tier, part] = cells[..] else { panic!("five cells in: {line}") };
        assert!(matches!(part, "" | "part"), "last cell of {id}");
        features.push(Feature {
            id: id.to_owned(),
            name: name.to_owned(),
            kind: kind.to_owned(),
            tier: tier.to_owned(),
            part: part == "part",
        });
    }
    features
}

/// The ids of the rows that the page says are there: they are in comments at its end.
fn listed() -> BTreeSet<String> {
    let page = read(PAGE).expect("the page is there");
    let lines =
        page.lines().filter_map(|line| line.strip_prefix("<!-- there: ")?.strip_suffix(" -->"));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// Protocol names in a cell: `$eq / implicit equality`, `$setUnion, $setDifference`.
fn names(feature: &Feature) -> Vec<&str> {
    let split = |c: char| !(c.is_ascii_alphanumeric() || c == '$' || c == '_');
    let words = feature.name.split(split);
    words.filter(|word| word.starts_with('$') && word.len() > 1).collect()
}

#[test]
fn page_and_inventory_have_the_same_rows() {
    let (there, page) = (listed(), read(PAGE).expect("the page is there"));
    let rows: BTreeSet<String> = inventory().into_iter().map(|f| f.id).collect();
    assert!(there.is_subset(&rows), "run `make coverage`");
    for feature in inventory() {
        assert!(
            page.contains(&feature.name),
            "{} is not on the page: run `make coverage`",
            feature.name
        );
    }
    for feature in inventory().iter().filter(|f| f.part) {
        assert!(!there.contains(&feature.id), "{} is there in part only", feature.id);
    }
}

/// A kind, the folder of its golden cases, and rows whose cases are in a file of another name.
type Shown = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Kinds whose rows need golden cases.
const SHOWN: &[Shown] = &[
    ("accumulator", "accum", &[]),
    (
        "expression",
        "expr",
        &[("expr.timezone", "dateToString"), ("expr.samplerate", "../filter/sampleRate")],
    ),
    (
        "query-operator",
        "filter",
        &[
            ("q.eq_null", "eq"),
            ("q.cmp_array", "gt"),
            ("q.geo.formats", "geoWithin"),
            ("q.rand", "../expr/rand"),
            ("q.nearsphere", "near"),
            ("q.geowithin", "geoWithin"),
            ("q.geo.formats", "geoIntersects"),
        ],
    ),
    (
        "update-operator",
        "update",
        &[
            ("u.push.each", "push"),
            ("u.push.position", "push"),
            ("u.push.slice", "push"),
            ("u.push.sort", "push"),
            ("u.pos", "positional"),
            ("u.pos_all", "positional"),
            ("u.pos_filtered", "positional"),
            ("u.pushall", "unknown"),
        ],
    ),
];

/// Every row that counts as present has golden cases.
#[test]
fn rows_that_are_there_have_golden_cases() {
    let there = listed();
    let mut problems = String::new();
    for feature in inventory().iter().filter(|f| f.tier != "T3" && there.contains(&f.id)) {
        let Some((_, folder, others)) = SHOWN.iter().find(|(kind, ..)| *kind == feature.kind)
        else {
            continue;
        };
        let stems = match others.iter().find(|(id, _)| *id == feature.id) {
            Some((_, stem)) => vec![*stem],
            None => names(feature).iter().map(|name| name.trim_start_matches('$')).collect(),
        };
        let file = |stem: &str| root().join(format!("tests/golden/{folder}/{stem}.txt"));
        // An alias has its cases in the file of the canonical name.
        if !stems.iter().any(|stem| file(stem).exists()) {
            let _ = writeln!(problems, "  {} ({})", feature.id, stems.join(", "));
        }
    }
    assert!(problems.is_empty(), "rows of docs/features.tsv without golden cases:\n{problems}");
}

#[test]
fn ids_are_unique() {
    let mut seen = BTreeSet::new();
    for feature in inventory() {
        assert!(seen.insert(feature.id.clone()), "{} is there twice", feature.id);
    }
}
