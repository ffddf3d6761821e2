//! Rules over Rust sources: sizes, headers, words, unsafe, and files that are not compiled.
use nagi_testkit::tidy::{Breaches, Source, rust_sources};

const FILE_LINES_MAX: usize = 800;
const LIB_LINES_MAX: usize = 80;
/// The target is 100, which rustfmt enforces for code; beyond this limit a comment becomes unreadable.
const LINE_COLUMNS_MAX: usize = 120;

/// Tables that may be longer than a file of code. Only tables may be added here.
const LONG_TABLES: &[&str] = &["crates/error/src/codes.rs"];

/// Words that must not be committed. They are built from halves so that this file does not contain them.
const BANNED: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[ig", "nore"),
    concat!("/wo", "rk/"),
];

/// Words of comments that a reader from another database would have to guess: docs/glossary.md has the terms to use.
/// Built from halves so that this file does not contain them.
const DIALECT: &[&str] = &[
    concat!("nob", "ody"),
    concat!("no ", "one "),
    concat!(" who", "m "),
    concat!(" men", "ded"),
    concat!("men", "ds "),
    concat!("in va", "in"),
    concat!("taken ba", "ck"),
    concat!("is ask", "ed"),
    concat!("are ask", "ed"),
    concat!("makes ro", "om"),
    concat!("goes o", "n "),
];

#[test]
fn comments_use_the_terms_of_the_field() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        for (index, line) in text.lines().enumerate() {
            let Some(at) = line.find("//") else { continue };
            let comment = line[at..].to_lowercase();
            for word in DIALECT.iter().filter(|word| comment.contains(*word)) {
                breaches.add(&path, Some(index + 1), format!("{word:?}: see docs/glossary.md"));
            }
        }
    }
    breaches.finish("words of comments");
}

#[test]
fn sizes() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        let line_count = text.lines().count();
        if line_count > FILE_LINES_MAX && !LONG_TABLES.contains(&path.as_str()) {
            breaches.add(&path, None, format!("{line_count} lines, {FILE_LINES_MAX} allowed"));
        }
        let code_count = text.lines().filter(|line| !line.starts_with("//!")).count();
        if path.ends_with("/src/lib.rs") && code_count > LIB_LINES_MAX {
            breaches.add(
                &path,
                None,
                format!("{code_count} lines: lib.rs is a header and exports"),
            );
        }
        for (index, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_COLUMNS_MAX {
                breaches.add(
                    &path,
                    Some(index + 1),
                    format!("longer than {LINE_COLUMNS_MAX} columns"),
                );
            }
        }
    }
    breaches.finish("sizes");
}

#[test]
fn headers_and_ascii() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        if !text.starts_with("//!") {
            breaches.add(
                &path,
                Some(1),
                "no module header (`//!`): purpose, why, what it leaves out",
            );
        }
        for (index, line) in text.lines().enumerate() {
            if !line.is_ascii() {
                breaches.add(&path, Some(index + 1), "not ASCII: write \\u{...} in strings");
            }
        }
    }
    breaches.finish("headers");
}

#[test]
fn banned_words() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        for (index, line) in text.lines().enumerate() {
            for word in BANNED.iter().filter(|word| line.contains(**word)) {
                breaches.add(&path, Some(index + 1), format!("holds `{word}`"));
            }
            if path.contains("/tests/") && line.contains(concat!("thread::sl", "eep")) {
                breaches.add(&path, Some(index + 1), "tests wait for an event, they do not sleep");
            }
        }
    }
    breaches.finish("banned words");
}

/// The truth of a value of any type is not a type: commands read booleans through the types of `args`, each of
/// which defines the values that it rejects.
#[test]
fn commands_read_booleans_by_type() {
    let mut breaches = Breaches::default();
    let read_commands =
        rust_sources().into_iter().filter(|s| s.path.starts_with("crates/server/src/commands/"));
    for Source { path, text } in read_commands {
        for (index, line) in text.lines().enumerate() {
            if line.contains("is_truthy(") {
                breaches.add(
                    &path,
                    Some(index + 1),
                    "read it as bool, StrictBool, Switch or Truthy",
                );
            }
        }
    }
    breaches.finish("booleans");
}

/// `unsafe` is allowed in `ffi.rs` and `raw.rs` only, which reviewers read with special care.
#[test]
fn unsafe_only_where_expected() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        let file = path.rsplit('/').next().unwrap_or(&path);
        if matches!(file, "ffi.rs" | "raw.rs") || path == "crates/testkit/tests/it/sources.rs" {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let words =
                ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "allow(unsafe_code)"];
            if words.iter().any(|word| code.contains(word)) {
                breaches.add(&path, Some(index + 1), "unsafe outside ffi.rs and raw.rs");
            }
        }
    }
    breaches.finish("unsafe");
}

/// Clients choose the keys of hash tables, so the hasher of every table has random keys per process. Values
/// that must not be guessable come from the random system call, which needs no file.
#[test]
fn hashers_are_keyed_and_randomness_is_the_systems() {
    const FIXED: &[(&str, &str)] = &[
        ("FixedState", "a hasher with a fixed seed: use RandomState"),
        ("with_seed", "a hasher with a fixed seed: use RandomState"),
        ("DefaultHasher::", "a hasher with a fixed seed: use RandomState"),
        ("BuildHasherDefault", "a hasher with a fixed seed: use RandomState"),
        ("FxHash", "a hasher without a key: use RandomState"),
        ("fnv::", "a hasher without a key: use RandomState"),
        ("/dev/urandom", "a file of random bytes: use getrandom::fill, and fail without them"),
        ("/dev/random", "a file of random bytes: use getrandom::fill, and fail without them"),
    ];
    let mut breaches = Breaches::default();
    // Runs schedules of threads in tests, which must be reproducible.
    const SCHEDULER: &str = "crates/kv/src/sync/scheduled.rs";
    let examined =
        rust_sources().into_iter().filter(|s| s.path.contains("/src/") && s.path != SCHEDULER);
    for Source { path, text } in examined {
        for (index, line) in text.lines().enumerate() {
            for (_, why) in FIXED.iter().filter(|(word, _)| line.contains(word)) {
                breaches.add(&path, Some(index + 1), why);
            }
        }
    }
    breaches.finish("hashers and randomness");
}

/// A file that no `mod` line names is not compiled and becomes outdated.
#[test]
fn every_file_is_in_the_module_tree() {
    let all = rust_sources();
    let mut breaches = Breaches::default();
    for Source { path, .. } in &all {
        let (folder, file) = path.rsplit_once('/').expect("crates/...");
        let roots = ["lib.rs", "main.rs", "build.rs"];
        let target = ["/examples", "/benches", "/src/bin"].iter().any(|f| folder.ends_with(f));
        if roots.contains(&file) || target {
            continue;
        }
        let (parent, name) = if file == "mod.rs" {
            let (up, name) = folder.rsplit_once('/').expect("crates/...");
            (up, name)
        } else {
            (folder, file.trim_end_matches(".rs"))
        };
        let beside = format!("{parent}.rs");
        let declares = |candidate: &str| {
            all.iter().filter(|s| s.path == candidate).any(|s| declares_mod(&s.text, name))
        };
        let parents = ["mod.rs", "lib.rs", "main.rs"].map(|f| format!("{parent}/{f}"));
        if !parents.iter().any(|p| declares(p)) && !declares(&beside) {
            breaches.add(path, None, "no `mod` line names this file");
        }
    }
    breaches.finish("module tree");
}

fn declares_mod(text: &str, name: &str) -> bool {
    let line = format!("mod {name};");
    text.lines().map(str::trim).any(|l| {
        l.strip_suffix(&line).is_some_and(|before| before.is_empty() || before.starts_with("pub"))
    })
}
