//! Any declaration of `src/ffi.rs` that differs from the header is found.

use std::{env, fs, path::Path, process};

#[path = "../../build/declared.rs"]
mod declared;

const RUST: &str = include_str!("../../src/ffi.rs");

fn differences(rust: &str) -> Vec<String> {
    let folder = env::temp_dir().join(format!("nagi-declared-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder can be made");
    let found = declared::differences(rust, Path::new(env!("ROCKSDB_INCLUDE")), &folder);
    fs::remove_dir_all(&folder).expect("a folder can be removed");
    found.expect("the compiler only names declarations")
}

/// The declarations with each one of a kind changed, and their names.
fn changed(kind: &str, end: char, change: impl Fn(&str) -> String) -> (String, Vec<String>) {
    let mut parts = RUST.split(kind);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for part in parts {
        names.extend(part.split(end).next().map(str::to_owned));
        let (declaration, rest) = part.split_once(';').expect("a declaration ends");
        text += &format!("{kind}{};{rest}", change(declaration));
    }
    assert!(names.len() > 5, "there are some: {kind}");
    (text, names)
}

#[test]
fn every_wrong_declaration_is_found() {
    assert_eq!(differences(RUST), [""; 0]);
    let more = |one: &str| one.replacen('(', "(more: libc::c_int, ", 1);
    let other = |one: &str| format!("{}-> uint16_t", one.split("->").next().unwrap_or_default());
    for (wrong, names) in [
        changed("pub fn ", '(', more),
        changed("pub fn ", '(', other),
        changed("pub const ", ':', |one| one.replace("= ", "= 77 + ")),
    ] {
        assert_eq!(differences(&wrong), names);
    }
}
