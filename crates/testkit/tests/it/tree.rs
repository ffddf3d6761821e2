//! Rules over the repository as a whole.
use nagi_testkit::tidy::{Breaches, paths, read, root, sources};
use std::fs;

const BINARY_BYTES_MAX: u64 = 64 << 10;

/// Recorded replies, compressed: this data changes only when cases are recorded again.
const RECORDED: &str = "tests/golden-set/known/";
/// Data directories of earlier versions, packed: only their own binaries could create them again.
const PACKED: &str = "tests/drivers/upgrade/folder-";
const PACKED_BYTES_MAX: u64 = 128 << 10;

#[test]
fn no_large_binaries() {
    let mut breaches = Breaches::default();
    for path in paths(|path| !path.starts_with(RECORDED)) {
        let bytes = fs::metadata(root().join(&path)).map_or(0, |m| m.len());
        let bytes_max = if path.starts_with(PACKED) { PACKED_BYTES_MAX } else { BINARY_BYTES_MAX };
        if bytes > bytes_max && read(&path).is_none() {
            breaches.add(&path, None, format!("a binary of {bytes} bytes"));
        }
    }
    breaches.finish("binaries");
}

/// Documents that must exist; a page that is not kept up to date is deleted instead.
#[test]
fn documents_are_present() {
    let mut breaches = Breaches::default();
    for (path, lines_max) in [
        ("README.md", 120),
        ("ARCHITECTURE.md", 300),
        ("CONTRIBUTING.md", 200),
        ("CHANGELOG.md", 2000),
        ("docs/dependencies.md", 400),
        ("LICENSE", 400),
    ] {
        match read(path) {
            None => breaches.add(path, None, "missing"),
            Some(text) if text.lines().count() > lines_max => {
                breaches.add(path, None, format!("longer than {lines_max} lines"));
            }
            Some(_) => {}
        }
    }
    breaches.finish("documents");
}

/// Links between the project's documents have existing targets: files, and headings in them.
#[test]
fn links_between_documents_hold() {
    let mut breaches = Breaches::default();
    for source in sources(|p| p.ends_with(".md") && !p.starts_with("third_party/")) {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in source.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                if file.contains(':') {
                    continue;
                }
                let path = root().join(folder).join(file);
                if !file.is_empty() && !path.exists() {
                    breaches.add(&source.path, Some(index + 1), format!("no file `{file}`"));
                } else if !heading.is_empty() {
                    let text = match file {
                        "" => source.text.clone(),
                        _ => fs::read_to_string(&path).unwrap_or_default(),
                    };
                    if !text.lines().any(|line| anchor(line).is_some_and(|a| a == heading)) {
                        breaches.add(&source.path, Some(index + 1), format!("no heading `{link}`"));
                    }
                }
            }
        }
    }
    breaches.finish("links");
}

/// The anchor of a heading, as renderers make it: its letters, digits, `-` and `_`, spaces as `-`.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[test]
fn anchors_are_those_of_renderers() {
    assert_eq!(anchor("## \"It is slow\" - why?").unwrap(), "it-is-slow---why");
    assert_eq!(anchor("### Fields of `hello`").unwrap(), "fields-of-hello");
    assert_eq!(anchor("text"), None);
}

/// The table of contents of the manual names every page of `docs`.
#[test]
fn every_page_is_in_the_summary() {
    let summary = read("docs/SUMMARY.md").expect("the manual has a table of contents");
    let mut breaches = Breaches::default();
    for page in
        sources(|p| p.ends_with(".md") && p.starts_with("docs/") && p.matches('/').count() == 1)
    {
        let name = &page.path["docs/".len()..];
        if name != "SUMMARY.md" && !summary.contains(&format!("]({name})")) {
            breaches.add(&page.path, None, "not in docs/SUMMARY.md");
        }
    }
    breaches.finish("pages");
}

/// Paths in backticks exist: those that begin at the root (`crates/...`, `docs/...`, `tests/...`) and those that begin
/// with the name of a crate (`kv/src/...`). The part of a path before a placeholder (`<name>`, `*`) is checked.
#[test]
fn paths_in_documents_exist() {
    let mut breaches = Breaches::default();
    for source in sources(|p| p.ends_with(".md") && !p.starts_with("third_party/")) {
        for (index, line) in source.text.lines().enumerate() {
            for path in quoted_paths(line).filter(|path| !exists(path)) {
                breaches.add(&source.path, Some(index + 1), format!("no file `{path}`"));
            }
        }
    }
    breaches.finish("paths");
}

#[test]
fn paths_are_found_in_text() {
    let found = |line| quoted_paths(line).collect::<Vec<_>>();
    assert_eq!(found("`tests/run NAGI all`, crates/x, `docs/a.md`"), ["tests/run", "docs/a.md"]);
    assert_eq!(found("`crates/kv/src/{a,b.rs}`"), ["crates/kv/src/a", "crates/kv/src/b.rs"]);
    assert_eq!(found("`tests/golden/<kind>/x.txt`, `kv/src/*.rs`"), ["tests/golden", "kv/src"]);
    assert!(found("`make test`, `conflict.rs`, `journal/j._N`").is_empty());
    assert!(exists("crates/testkit/src") && exists("testkit/src") && !exists("docs/no-such.md"));
}

/// The paths in backticks of a line, with braces expanded, each up to its first placeholder.
fn quoted_paths(line: &str) -> impl Iterator<Item = String> {
    let quoted = line.split('`').skip(1).step_by(2).filter_map(|text| text.split(' ').next());
    quoted.flat_map(braces).filter_map(|path| {
        let known = path.split(['<', '*']).next()?;
        let whole = if known.len() == path.len() { known } else { known.rsplit_once('/')?.0 };
        let whole = whole.trim_end_matches('/');
        let (first, rest) = whole.split_once('/')?;
        let at_root = ["crates", "docs", "tests"].contains(&first);
        let in_crate = rest.split('/').next().is_some_and(|part| ["src", "tests"].contains(&part));
        (at_root || in_crate).then(|| whole.to_owned())
    })
}

/// `a/{b,c}` as `a/b` and `a/c`.
fn braces(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(l, rest)| Some((l, rest.split_once('}')?))) {
        Some((left, (parts, right))) => {
            parts.split(',').map(|part| format!("{left}{part}{right}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

fn exists(path: &str) -> bool {
    root().join(path).exists() || root().join("crates").join(path).exists()
}
