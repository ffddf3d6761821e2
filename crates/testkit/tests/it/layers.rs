//! Layers within crates: the modules directly below a crate's root have no cycles.
//!
//! Each folder is a layer. Files within a folder may use each other. Between folders, uses go in one direction
//! only, so that a reader can begin at the bottom and a test can build a layer without those above it.
use std::collections::{BTreeMap, BTreeSet};

use nagi_testkit::tidy::{Breaches, Source, rust_sources};

/// Modules that are inherently mutual, with the reason.
const MUTUAL: &[(&str, &[&str], &str)] = &[
    (
        "budget",
        &["budget", "charge", "line", "meter"],
        "one account: who waits, what is charged, what is metered",
    ),
    (
        "kv-lmdb",
        &["apply", "core", "merge", "view"],
        "a view merges what the core has not applied yet",
    ),
    ("kv-lmdb", &["check", "engine"], "the engine is checked with its own files"),
    (
        "kv-rocks",
        &["capacity", "closed", "db", "quarantine"],
        "callbacks of the library under the handle that owns it",
    ),
    (
        "kv-rocks",
        &["engine", "found", "repair", "state"],
        "repair opens the engine that it repairs, and a start compares the files as repair does",
    ),
    (
        "lang",
        &["accum", "expr", "sort", "window"],
        "$sum is an expression, an accumulator and a window function; $sortArray sorts by a sort specification",
    ),
];

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_below_a_crate_have_no_cycles() {
    let sources = rust_sources();
    let crates: BTreeSet<&str> =
        sources.iter().filter_map(|source| crate_of(&source.path)).collect();
    let mut breaches = Breaches::default();
    for name in crates {
        let graph = graph(name, &sources);
        for cycle in cycles(&graph) {
            let known = MUTUAL.iter().any(|(of, modules, _)| *of == name && *modules == cycle);
            if !known {
                breaches.add(&format!("crates/{name}/src"), None, cycle.join(" <-> "));
            }
        }
        for (_, modules, _) in MUTUAL.iter().filter(|(of, ..)| *of == name) {
            if !cycles(&graph).iter().any(|cycle| cycle == modules) {
                breaches.add(&format!("crates/{name}/src"), None, "MUTUAL lists what is no cycle");
            }
        }
    }
    breaches.finish("modules use each other in a circle: move what both need below them");
}

#[test]
fn cycles_are_found() {
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")];
    let mut graph = Graph::new();
    for (from, to) in edges {
        graph.entry(from.into()).or_default().insert(to.into());
        graph.entry(to.into()).or_default();
    }
    assert_eq!(cycles(&graph), [["a", "b", "c"]]);
    let heads = |text| heads(text).collect::<Vec<_>>();
    assert_eq!(heads("use crate::{a::b, C, d::{e, f::{g}}};"), ["a", "C", "d"]);
    assert_eq!(heads("let x = crate::y::z(); // crate::no"), ["y"]);
}

fn crate_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

/// The graph of which module uses which. Names that `lib.rs` exports count as the module they come from.
fn graph(name: &str, sources: &[Source]) -> Graph {
    let root = format!("crates/{name}/src/");
    let inside = || sources.iter().filter_map(|s| Some((s.path.strip_prefix(&root)?, &*s.text)));
    let module = |file: &str| file.split('/').next().unwrap_or("").replace(".rs", "");
    let modules: BTreeSet<String> =
        inside().map(|(file, _)| module(file)).filter(|m| m != "lib" && m != "main").collect();
    let mut exported = BTreeMap::new();
    for (_, text) in inside().filter(|(file, _)| matches!(*file, "lib.rs" | "main.rs")) {
        for statement in text.split("use ").skip(1) {
            let statement = statement.split(';').next().unwrap_or("");
            let Some((from, names)) = statement.split_once("::") else { continue };
            for name in words(names) {
                exported.insert(name.to_owned(), from.to_owned());
            }
        }
    }
    let mut graph: Graph = modules.iter().map(|m| (m.clone(), BTreeSet::new())).collect();
    for (file, text) in inside() {
        let from = module(file);
        let Some(uses) = graph.get_mut(&from) else { continue };
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
        for head in heads(code) {
            let to = match modules.contains(head) {
                true => head,
                false => exported.get(head).map_or("", String::as_str),
            };
            if to != from && modules.contains(to) {
                uses.insert(to.to_owned());
            }
        }
    }
    graph
}

/// The first names after `crate::`, including each name of a braced list.
fn heads(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    let mut found = Vec::new();
    // A braced list may span several lines: its names are those at depth one.
    let mut depth = 0_usize;
    for line in code {
        let mut rest = line;
        if depth == 0 {
            while let Some(at) = rest.find("crate::") {
                rest = &rest[at + "crate::".len()..];
                if rest.starts_with('{') {
                    break;
                }
                found.extend(words(rest).next());
            }
            if !rest.starts_with('{') || !line.contains("crate::{") {
                continue;
            }
        }
        depth = listed(rest, depth, &mut found);
    }
    found.into_iter()
}

/// Reads a line of a braced list that begins at `depth`. Adds the heads of its items and returns the depth
/// after the line.
fn listed<'t>(line: &'t str, mut depth: usize, found: &mut Vec<&'t str>) -> usize {
    let mut fresh = depth == 1;
    for (at, letter) in line.char_indices() {
        match letter {
            '{' => {
                depth += 1;
                fresh = depth == 1;
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return 0;
                }
            }
            ',' => fresh = depth == 1,
            _ if fresh && (letter.is_alphanumeric() || letter == '_') => {
                found.extend(words(&line[at..]).next());
                fresh = false;
            }
            _ => {}
        }
    }
    depth
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Groups of modules that can reach each other, sorted.
fn cycles(graph: &Graph) -> Vec<Vec<&str>> {
    let reach = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(at) = open.pop() {
            for next in &graph[&at] {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> =
        graph.keys().map(|module| (module.as_str(), reach(module))).collect();
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for (module, from) in &reached {
        let known = groups.iter().any(|group| group.contains(module));
        if from.contains(*module) && !known {
            let mutual = |other: &&str| from.contains(*other) && reached[*other].contains(*module);
            groups.push(reached.keys().copied().filter(mutual).collect());
        }
    }
    groups
}
