//! Commands and stages are compared by name only in their own rows; all other code reads the facts of a row.
use std::collections::BTreeSet;

use nagi_testkit::tidy::{Breaches, Source, rust_sources};

/// A table of rows, and the places where its names may be compared.
struct Table {
    /// The files that contain the rows.
    rows: &'static str,
    /// The text with which a row begins.
    row: &'static str,
    /// The files that are searched for comparisons.
    within: &'static str,
    /// Files that may compare names, with the reason.
    exempt: &'static [(&'static str, &'static str)],
}

const TABLES: &[Table] = &[
    Table {
        rows: "crates/server/src/commands/",
        row: "Facts {",
        within: "crates/server/src/",
        exempt: &[
            (
                "commands/replicate/apply_ops/catalog.rs",
                "entries of an oplog, some of which are no commands",
            ),
            ("commands/replicate/apply_ops/entry.rs", "the same"),
            ("commands/replicate/apply_ops/names.rs", "the same"),
            ("request/concern.rs", "fields of a write concern"),
            ("advice/query.rs", "how each kind of slow operation says what it searched for"),
            ("commands/crud/own_stages/coll_stats.rs", "a field of the stage"),
            ("commands/crud/bulk_write.rs", "the kinds of its operations"),
        ],
    },
    Table {
        rows: "crates/query/src/stages/",
        row: "StageSpec {",
        within: "crates/query/src/",
        exempt: &[],
    },
    Table {
        rows: "crates/query/src/stages/",
        row: "StageSpec {",
        within: "crates/server/src/",
        exempt: &[],
    },
];

#[test]
fn names_are_compared_in_their_rows_only() {
    let sources = rust_sources();
    let mut breaches = Breaches::default();
    for table in TABLES {
        let names = names(table, &sources);
        assert!(names.len() > 30, "no rows below {}", table.rows);
        for Source { path, text } in &sources {
            let Some(file) = path.strip_prefix(table.within) else { continue };
            if table.exempt.iter().any(|(exempt, _)| *exempt == file) {
                continue;
            }
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
            let own = |name: &str| text.contains(&format!("name: \"{name}\""));
            for (index, line) in code.lines().enumerate() {
                // The names of argument structs occur in errors only.
                let line = line.split("//").next().unwrap_or("");
                if line.trim_start().starts_with("args! {") {
                    continue;
                }
                for name in compared(line).filter(|name| names.contains(*name) && !own(name)) {
                    breaches.add(path, Some(index + 1), format!("compares with {name:?}"));
                }
            }
        }
    }
    breaches.finish("a name outside of its row: add a fact to the row and read that");
}

#[test]
fn comparisons_are_told_from_other_uses() {
    let found = |line| compared(line).collect::<Vec<_>>();
    assert_eq!(found(r#"        "find" => FIND,"#), ["find"]);
    assert_eq!(found(r#"if name == "drop" {"#), ["drop"]);
    assert_eq!(found(r#"matches!(name, "$out" | "$merge")"#), ["$out", "$merge"]);
    assert!(found(r#"OpKind::Insert => "insert","#).is_empty());
    assert!(found(r#"w.put("find", collection);"#).is_empty());
}

/// The files that belong to one kind of index, and may look into its details: those of the kinds, and the plans of
/// searches and of geometries.
const OF_KINDS: &[&str] = &[
    "crates/store/src/index/kinds/",
    "crates/query/src/plan/text.rs",
    "crates/query/src/plan/geo.rs",
    "crates/query/src/access/geo.rs",
];

/// Kinds of indexes are compared and looked into only in their own modules; all other code reads the row.
#[test]
fn kinds_of_indexes_are_asked_for_facts() {
    let sources = rust_sources();
    let kinds = names(
        &Table {
            rows: "crates/store/src/index/kinds/",
            row: "KindFacts {",
            within: "",
            exempt: &[],
        },
        &sources,
    );
    assert!(kinds.contains("2dsphere") && kinds.contains("wildcard"), "{kinds:?}");
    let mut breaches = Breaches::default();
    for Source { path, text } in &sources {
        let is_searched = ["store", "query", "server"]
            .iter()
            .any(|name| path.starts_with(&format!("crates/{name}/src/")));
        if !is_searched || OF_KINDS.iter().any(|own| path.starts_with(own)) {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
        for (index, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or("");
            for what in kind_uses(line) {
                breaches.add(path, Some(index + 1), format!("{what}: read the row of the kind"));
            }
            for name in compared(line).filter(|name| kinds.contains(*name)) {
                breaches.add(path, Some(index + 1), format!("compares with the kind {name:?}"));
            }
        }
    }
    breaches.finish("facts of index kinds");
}

/// The places of a line that name one kind, or look into what only one kind has.
fn kind_uses(line: &str) -> Vec<String> {
    let mut uses = Vec::new();
    for after in line.split("IndexKind::").skip(1) {
        if after.starts_with(|first: char| first.is_ascii_uppercase()) {
            let name: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
            uses.push(format!("IndexKind::{name}"));
        }
    }
    for part in ["text", "wildcard", "geometry"] {
        if line.contains(&format!("spec.{part}()")) || line.contains(&format!("spec.{part}.")) {
            uses.push(format!("spec.{part}"));
        }
    }
    for reading in ["kind.facts().name ==", "kind.facts().name !=", "match spec.kind"] {
        if line.contains(reading) {
            uses.push(reading.to_owned());
        }
    }
    uses
}

#[test]
fn uses_of_one_kind_are_found() {
    assert_eq!(kind_uses("    if spec.kind == IndexKind::Text {"), ["IndexKind::Text"]);
    assert_eq!(kind_uses("let is_text = index.spec.text().is_some();"), ["spec.text"]);
    assert_eq!(kind_uses("if spec.kind.facts().name == other {").len(), 1);
    assert!(kind_uses("IndexKind::all().map(IndexKind::facts)").is_empty());
    assert!(kind_uses("other.kind == spec.kind && spec.kind.facts().single").is_empty());
}

/// The names in the rows of a table.
fn names(table: &Table, sources: &[Source]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources.iter().filter(|source| source.path.starts_with(table.rows)) {
        for row in source.text.split(table.row).skip(1) {
            let name = row.trim_start().strip_prefix("name: \"").and_then(|r| r.split('"').next());
            names.extend(name.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    names
}

/// The literals with which a line compares: arms of a match, alternatives, operands of `==`.
fn compared(line: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = line.split('"').collect();
    let is_compared = |at: usize| {
        let (before, after) =
            (parts[at - 1].trim_end(), parts.get(at + 1).map_or("", |p| p.trim()));
        before.ends_with("==")
            || before.ends_with("!=")
            || before.ends_with('|')
            || after.starts_with("=>")
            || after.starts_with("| ")
            || after == "|"
            || after.starts_with("if ")
    };
    (1..parts.len())
        .step_by(2)
        .filter(move |at| is_compared(*at))
        .map(|at| line.split('"').nth(at).unwrap_or(""))
        .collect::<Vec<_>>()
        .into_iter()
}
