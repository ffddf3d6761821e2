//! Reads the repository for the tidy rules: files, manifests, and a list of breaches.
//!
//! The rules themselves are this crate's tests (`tests/it`), one family per file; this module is the code they
//! share. It reads the working tree, never git, so an untracked file is checked as well.
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// A file of the repository: its path from the root with `/`, and its text.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path from the repository's root, e.g. `crates/bson/src/lib.rs`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Collects every breach of a rule, so that one run reports all of them.
#[derive(Debug, Default)]
pub struct Breaches(Vec<String>);

impl Breaches {
    /// Records a breach at `path`, and at `line` (from 1) if it has one.
    pub fn add(&mut self, path: &str, line: Option<usize>, what: impl fmt::Display) {
        self.0.push(match line {
            Some(line) => format!("{path}:{line}: {what}"),
            None => format!("{path}: {what}"),
        });
    }

    /// Panics with all breaches if any exist.
    pub fn finish(self, rule: &str) {
        assert!(self.0.is_empty(), "{rule}:\n  {}", self.0.join("\n  "));
    }
}

/// The repository's root, derived from the path of this crate.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/testkit lies two folders below the root")
        .to_owned()
}

/// All files below the root for which `keep(path)` is true, sorted, without build output.
pub fn paths(keep: impl Fn(&str) -> bool) -> Vec<String> {
    const SKIPPED: &[&str] =
        &[".git", "target", "node_modules", "data", "corpus", "artifacts", ".cache", "__pycache__"];
    let root = root();
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            if is_dir && !SKIPPED.iter().any(|s| name == *s) {
                folders.push(path);
            } else if entry.file_type().is_ok_and(|t| t.is_file()) {
                let inside = path.strip_prefix(&root).expect("walked from the root");
                let inside = inside.to_string_lossy().replace('\\', "/");
                if keep(&inside) {
                    found.push(inside);
                }
            }
        }
    }
    found.sort();
    found
}

/// The files for which `keep(path)` is true, with their texts.
pub fn sources(keep: impl Fn(&str) -> bool) -> Vec<Source> {
    paths(keep)
        .into_iter()
        .map(|path| Source { text: read(&path).unwrap_or_default(), path })
        .collect()
}

/// Rust files of the crates, tests included.
pub fn rust_sources() -> Vec<Source> {
    sources(|path| path.starts_with("crates/") && path.ends_with(".rs"))
}

/// The text of one file, or `None` if it is missing or not UTF-8.
pub fn read(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// Names in one table of a manifest (`[dependencies]`), in order. Parses only the part of TOML that the
/// project's files use.
pub fn manifest_keys(manifest: &str, table: &str) -> Vec<String> {
    let mut inside = false;
    let mut keys = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            let head = head.trim_end_matches(']');
            inside = head == table;
            if let Some(name) = head.strip_prefix(table).and_then(|rest| rest.strip_prefix('.')) {
                keys.push(name.to_owned());
            }
        } else if inside
            && !line.starts_with('#')
            && let Some((key, _)) = line.split_once('=')
        {
            let key = key.trim().trim_matches('"');
            keys.push(key.split('.').next().unwrap_or(key).to_owned());
        }
    }
    keys
}

/// Converts `findAndModify` to `find_and_modify`; a leading `$` is removed.
pub fn snake(name: &str) -> String {
    let chars = name.trim_start_matches('$').chars().collect::<Vec<_>>();
    let mut out = String::new();
    for (at, c) in chars.iter().enumerate() {
        let after_word = at > 0 && !chars[at - 1].is_ascii_uppercase();
        let before_word = chars.get(at + 1).is_some_and(|next| next.is_ascii_lowercase());
        if c.is_ascii_uppercase() && (after_word || before_word) && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_manifests() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb.workspace = true\n\
                    [dependencies.c]\nversion = \"1\"\n[dev-dependencies]\nd = \"1\"\n";
        assert_eq!(manifest_keys(text, "dependencies"), ["a", "b", "c"]);
        assert_eq!(manifest_keys(text, "dev-dependencies"), ["d"]);
    }

    #[test]
    fn names_map_to_files() {
        assert_eq!(snake("findAndModify"), "find_and_modify");
        assert_eq!(snake("$dateAdd"), "date_add");
        assert_eq!(snake("getDefaultRWConcern"), "get_default_rw_concern");
    }
}
