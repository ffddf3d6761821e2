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

/// Links between the project's documents have existing targets.
#[test]
fn links_between_documents_hold() {
    let mut breaches = Breaches::default();
    for source in sources(|p| p.ends_with(".md") && !p.starts_with("third_party/")) {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in source.text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = target.split('#').next().unwrap_or("");
                let outside = target.is_empty() || target.contains(':');
                if !outside && !root().join(folder).join(target).exists() {
                    breaches.add(&source.path, Some(index + 1), format!("no file `{target}`"));
                }
            }
        }
    }
    breaches.finish("links");
}
