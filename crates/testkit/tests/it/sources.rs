//! Rules over Rust sources: sizes, headers, words, unsafe, and files that are not compiled.
use nagi_testkit::tidy::{Breaches, Source, rust_sources};

const FILE_LINES_MAX: usize = 800;
const LIB_LINES_MAX: usize = 85;
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

/// Words that no text for users may have. MongoDB's own messages contain none of them. Each stands between spaces, so
/// that "recommended" is not a breach.
const DIALECT_OF_TEXTS: &[&str] = &[
    concat!(" nob", "ody "),
    concat!(" no ", "one "),
    concat!(" who", "m "),
    concat!(" who", "ever "),
    concat!(" me", "nd "),
    concat!(" men", "ds "),
    concat!(" men", "ded "),
    concat!(" men", "ding "),
    concat!(" in va", "in "),
    concat!(" taken ba", "ck "),
    concat!(" taken aw", "ay "),
    concat!(" given ba", "ck "),
    concat!(" is ask", "ed "),
    concat!(" are ask", "ed "),
    concat!(" makes ro", "om "),
    concat!(" have ro", "om "),
    concat!(" goes o", "n "),
    concat!(" go o", "n "),
    concat!(" going o", "n "),
    concat!(" looked a", "t "),
    concat!(" looks a", "t "),
    concat!(" hands ou", "t "),
    concat!(" lines u", "p "),
    concat!(" jud", "ges "),
    concat!(" data fol", "der"),
    concat!(" ring_", "buffer "),
];

/// Lists of words that text indexes ignore.
const STOP_WORDS: &str = "crates/lang/src/text/stop_words.rs";

/// The words in string literals: log messages, errors, help. Literals of tests and benches are not read.
#[test]
fn texts_use_the_terms_of_the_field() {
    let mut breaches = Breaches::default();
    for Source { path, text } in rust_sources() {
        let is_test = ["/tests/", "/benches/", "/tests.rs"].iter().any(|part| path.contains(part));
        if is_test || path == STOP_WORDS {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for (line, literal) in literals(code) {
            let words = literal.split_whitespace();
            let words = words.map(|word| word.trim_matches(|c: char| ",.;:!?()".contains(c)));
            let words = words.collect::<Vec<_>>();
            let words = format!(" {} ", words.join(" ").to_lowercase());
            for word in DIALECT_OF_TEXTS.iter().filter(|word| words.contains(*word)) {
                breaches.add(&path, Some(line), format!("{word:?}: see docs/glossary.md"));
            }
        }
    }
    breaches.finish("words of texts");
}

/// The string literals of a file with their first lines; a backslash at the end of a line joins two lines.
fn literals(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let line = code[..code.len() - rest.len() + at].matches('\n').count() + 1;
        let before = rest[..at].trim_end_matches('#');
        let hashes = at - before.len();
        rest = &rest[at..];
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(inside) = rest.strip_prefix('"') {
            let is_raw = before.ends_with('r');
            let end = match is_raw {
                true => inside.find(&format!("\"{}", "#".repeat(hashes))),
                false => end_of_literal(inside),
            };
            let end = end.unwrap_or(inside.len());
            let joined = inside[..end].split("\\\n").map(str::trim_start).collect::<String>();
            // In a literal with several lines `\n` separates words as a space does.
            found.push((line, if is_raw { joined } else { joined.replace("\\n", " ") }));
            rest = inside.get(end + 1..).unwrap_or("");
        } else if rest.starts_with("'\\") {
            rest = rest.get(3..).and_then(|r| r.split_once('\'')).map_or("", |(_, after)| after);
        } else if rest.starts_with("'\"'") {
            rest = &rest[3..];
        } else {
            rest = &rest[1..];
        }
    }
    found
}

/// The position of the closing quotation mark.
fn end_of_literal(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    inside.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })
}

#[test]
fn literals_are_told_from_code_and_comments() {
    let code = "a(\"one\"); // \"not this\"\nb('\"', '\\'', \"t\\\"wo \\\n   three\");\nr#\"fo\"ur\"#; c / \"five\"";
    let found = literals(code);
    let texts = found.iter().map(|(line, text)| (*line, text.as_str())).collect::<Vec<_>>();
    assert_eq!(texts, [(1, "one"), (2, "t\\\"wo three"), (4, "fo\"ur"), (4, "five")]);
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
