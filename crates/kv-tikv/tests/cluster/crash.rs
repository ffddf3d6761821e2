//! A process that is killed while it commits: what it has acknowledged is there, whole.

use std::path::Path;

use nagi_kv::conformance::crash;

use crate::cluster::{new_prefix, node};

/// The last part of the path is the prefix.
fn prefix(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a prefix")
}

#[test]
fn child() {
    crash::child(&|path| node(prefix(path)));
}

#[test]
fn acknowledged_commits_survive_a_killed_process() {
    crash::rounds(Path::new(&new_prefix()), 3, &|path| node(prefix(path)));
}
