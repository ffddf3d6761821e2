//! Dependency direction: a crate may use only the crates in its row. Cargo enforces the rest.
use nagi_testkit::tidy::{Breaches, manifest_keys, paths, read};

/// A crate, and the crates of the workspace it may use (`ARCHITECTURE.md` has the diagram).
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "app",
        &[
            "bson",
            "budget",
            "console",
            "doctor",
            "encryption",
            "error",
            "host",
            "http",
            "js",
            "kv",
            "kv-disk",
            "lang",
            "ldap",
            "net",
            "oidc",
            "otlp",
            "percore",
            "proc",
            "query",
            "server",
            "store",
            "tls",
            "wire",
        ],
    ),
    ("bench", &["bson", "budget", "embedded", "error", "kv", "kv-rocks", "proc"]),
    ("bson", &[]),
    ("budget", &["proc"]),
    ("console", &["bson", "error", "http", "proc", "server"]),
    ("doctor", &["bson", "proc"]),
    ("embedded", &["bson", "budget", "error", "host", "kv", "server", "store"]),
    ("encryption", &[]),
    ("error", &["bson"]),
    ("ftdc", &["bson"]),
    (
        "host",
        &[
            "budget",
            "encryption",
            "kv",
            "kv-disk",
            "kv-lmdb",
            "kv-rocks",
            "kv-tikv",
            "proc",
            "store",
        ],
    ),
    ("http", &[]),
    ("js", &["bson", "budget", "error", "lang"]),
    ("kv", &["percore"]),
    ("kv-disk", &["encryption", "kv", "percore"]),
    ("kv-lmdb", &["encryption", "kv", "kv-disk", "proc"]),
    ("kv-rocks", &["encryption", "kv", "kv-disk", "percore", "rocksdb-sys"]),
    ("kv-tikv", &["kv", "kv-disk"]),
    ("lang", &["bson", "budget", "error"]),
    ("ldap", &["bson", "lang", "server", "tls"]),
    ("net", &["budget", "server", "tls", "wire"]),
    ("oidc", &["bson", "http", "server"]),
    ("otlp", &["console", "http", "server"]),
    ("percore", &[]),
    ("proc", &[]),
    ("query", &["bson", "budget", "error", "lang", "percore", "store", "timeseries"]),
    ("rocksdb-codecs", &[]),
    ("rocksdb-sys", &["rocksdb-codecs"]),
    (
        "server",
        &[
            "bson",
            "budget",
            "encryption",
            "error",
            "ftdc",
            "js",
            "lang",
            "percore",
            "proc",
            "query",
            "store",
            "timeseries",
            "wire",
        ],
    ),
    ("store", &["bson", "budget", "error", "kv", "lang", "percore", "timeseries"]),
    ("testkit", &[]),
    ("timeseries", &["bson", "error"]),
    ("tls", &["bson", "server"]),
    ("wire", &["bson", "error"]),
];

/// No async runtime, no serde, no proc macros: the reasons are in `docs/dependencies.md`.
const BANNED: &[&str] = &[
    "async-trait",
    "anyhow",
    "derive_more",
    "futures",
    "once_cell",
    "serde",
    "serde_json",
    "thiserror",
    "tokio",
];

/// What one crate alone may use: `object_store`, which `nagi backup --archive` needs, runs on tokio; applications that
/// contain the library convert their types by serde; the console's HTTP server is `hyper` (decision 083); the client of
/// TiKV runs on tokio (decision 095).
const EXCEPTIONS: &[(&str, &str)] =
    &[("app", "tokio"), ("console", "tokio"), ("embedded", "serde"), ("kv-tikv", "tokio")];

/// The crates with cargo features. The library has one for the types of applications; `host` has one for the engine
/// over TiKV, which the library does without (decision 097).
const WITH_FEATURES: &[&str] = &["app", "embedded", "host", "percore"];

/// The package of the library has the name by which applications know it.
const LIBRARY: &str = "nagi";

/// The crate of the workspace that a dependency names.
fn own_crate(dependency: &str) -> Option<&str> {
    match dependency {
        LIBRARY => Some("embedded"),
        other => other.strip_prefix("nagi-"),
    }
}

/// The feature that lets a test control the schedule; no build of the server enables it (decision 045).
const TEST_FEATURE: &str = "shuttle";

/// Crates may have one more, by which fuzz targets reach what is private.
const FUZZ_FEATURE: &str = "fuzzing";

fn manifests() -> Vec<(String, String)> {
    paths(|p| p.starts_with("crates/") && p.ends_with("/Cargo.toml") && p.matches('/').count() == 2)
        .into_iter()
        .map(|path| {
            let text = read(&path).expect("a manifest is readable");
            (path, text)
        })
        .collect()
}

fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).expect("crates/<name>/Cargo.toml")
}

#[test]
fn dependencies_point_downwards() {
    let mut breaches = Breaches::default();
    for (path, text) in manifests() {
        let name = crate_of(&path);
        let Some((_, allowed)) = ALLOWED.iter().find(|(row, _)| *row == name) else {
            breaches.add(&path, None, "crate without a row in ALLOWED");
            continue;
        };
        for dep in manifest_keys(&text, "dependencies") {
            if let Some(dep) = own_crate(&dep).filter(|dep| !allowed.contains(dep)) {
                breaches.add(&path, None, format!("`{name}` may not use `{dep}`"));
            }
        }
        for dep in manifest_keys(&text, "dev-dependencies") {
            if ["nagi-kv-lmdb", "nagi-kv-rocks", "nagi-kv-tikv", "nagi-rocksdb-sys"]
                .contains(&dep.as_str())
                && name != "host"
            {
                breaches.add(&path, None, "only `host` names an engine; test on the memory engine");
            }
        }
        for feature in manifest_keys(&text, "features") {
            let is_of_tests = [TEST_FEATURE, FUZZ_FEATURE].contains(&feature.as_str());
            if !WITH_FEATURES.contains(&name) && !is_of_tests {
                breaches.add(&path, None, format!("only {WITH_FEATURES:?} have cargo features"));
            }
        }
        if !text.contains("[lints]\nworkspace = true") {
            breaches.add(&path, None, "does not take the workspace's lints");
        }
    }
    breaches.finish("dependency direction");
}

/// The fuzz targets are a workspace of their own. A dependency that is missing in its lock file stops their builds,
/// which are too rare to notice it.
#[test]
fn the_lock_file_of_the_fuzz_targets_is_current() {
    let mut breaches = Breaches::default();
    let lock = read("fuzz/Cargo.lock").expect("a lock file");
    let blocks: Vec<_> = lock.split("[[package]]").collect();
    for (path, text) in manifests() {
        let package = format!("\nname = \"nagi-{}\"\n", crate_of(&path));
        let Some(block) = blocks.iter().find(|block| block.contains(&package)) else { continue };
        let optional = |dep: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{dep} = ")));
            line.is_some_and(|line| line.contains("optional = true"))
        };
        for dep in manifest_keys(&text, "dependencies").iter().filter(|dep| !optional(dep)) {
            if ![format!("\"{dep}\""), format!("\"{dep} ")].iter().any(|name| block.contains(name))
            {
                let text = format!(
                    "`{dep}` is missing in fuzz/Cargo.lock: cd fuzz && cargo update --workspace"
                );
                breaches.add(&path, None, text);
            }
        }
    }
    breaches.finish("fuzz/Cargo.lock");
}

#[test]
fn rows_are_sorted() {
    assert!(ALLOWED.is_sorted_by(|a, b| a.0 < b.0));
    assert!(ALLOWED.iter().all(|(_, deps)| deps.is_sorted()));
}

#[test]
fn every_dependency_has_its_three_lines() {
    let documented = read("docs/dependencies.md").unwrap_or_default();
    let mut breaches = Breaches::default();
    for (path, text) in manifests() {
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for dep in manifest_keys(&text, table) {
                let allowed = EXCEPTIONS.contains(&(crate_of(&path), dep.as_str()));
                if BANNED.contains(&dep.as_str()) && !allowed {
                    breaches.add(&path, None, format!("`{dep}` is not used in this workspace"));
                } else if own_crate(&dep).is_none()
                    && !documented.contains(&format!("\n## {dep}\n"))
                {
                    breaches.add(&path, None, format!("`{dep}` is not in docs/dependencies.md"));
                }
            }
        }
    }
    breaches.finish("dependencies");
}
