//! What an application gets with the crate: no runtime, no TLS, no HTTP; and examples that run.

use std::path::{Path, PathBuf};
use std::process::Command;

use nagi_testkit::Scratch;

/// Crates of the server program that an application must not have to build.
const ABSENT: [&str; 6] =
    ["tokio", "reqwest", "rustls", "object_store", "hyper", "tikv-jemalloc-sys"];

#[test]
fn the_dependencies_are_those_of_a_database() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--offline", "-p", "nagi", "--all-features"]);
    tree.args(["-e", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let output = tree.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"nagi-kv-rocks") && names.contains(&"bson"), "{text}");
    for absent in ABSENT {
        assert!(!names.contains(&absent), "nagi depends on {absent}");
    }
}

/// The folder of the compiled examples, beside that of this test.
fn examples() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("examples")
}

fn run(name: &str, folder: &Path) -> String {
    let output = Command::new(examples().join(name)).arg(folder).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_examples_run() {
    let folder = Scratch::new();
    for _ in 0..2 {
        let said = run("quick_start", folder.path());
        assert!(
            said.contains(r#"{"_id":"tea","pieces":7}"#) && said.ends_with("3 orders\n"),
            "{said}"
        );
    }
    assert_eq!(run("transactions", folder.path()), "sum: 1000\n");
    let said = run("change_stream", folder.path());
    assert!(said.contains(r#""operationType":"insert""#) && said.lines().count() == 2, "{said}");
    let said = run("hello", folder.path());
    assert!(said.contains("1 documents"), "{said}");
    #[cfg(feature = "bson")]
    assert!(run("typed", folder.path()).contains("Ada"));
}
