//! Rules over log lines: an id identifies one message, so that an operator who searches for it, or a filter
//! that counts it, finds only that message.
//!
//! MongoDB's own messages keep MongoDB's ids. Nagi's messages have ids of seven digits in ranges that MongoDB
//! has not assigned. An id may occur in several places only if they have the same message.
use nagi_testkit::tidy::{Breaches, rust_sources};
use std::collections::BTreeMap;

/// A log line in the source: its position, its id and its message.
struct Logged {
    path: String,
    line: usize,
    id: u64,
    message: String,
}

#[test]
fn one_id_is_one_message() {
    let mut first_with: BTreeMap<u64, Logged> = BTreeMap::new();
    let mut breaches = Breaches::default();
    for source in rust_sources() {
        for logged in logged_in(&source.path, &source.text) {
            match first_with.get(&logged.id) {
                Some(other) if other.message != logged.message => breaches.add(
                    &logged.path,
                    Some(logged.line),
                    format!(
                        "log id {} is that of {:?} ({}:{})",
                        logged.id, other.message, other.path, other.line
                    ),
                ),
                Some(_) => {}
                None => drop(first_with.insert(logged.id, logged)),
            }
        }
    }
    assert!(
        first_with.len() > 50,
        "found {} log lines only: is the search right?",
        first_with.len()
    );
    breaches.finish("log ids");
}

/// Every call of a `log` macro that has a literal id and a literal message.
fn logged_in(path: &str, text: &str) -> Vec<Logged> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("log::") {
        let call = &text[at..];
        let Some(name_end) = call.find("!(") else { continue };
        if !matches!(&call[5..name_end], "error" | "warn" | "info" | "debug" | "trace") {
            continue;
        }
        let Some((id, message)) = id_and_message(&call[name_end + 2..]) else { continue };
        let line = text[..at].lines().count() + 1;
        found.push(Logged { path: path.to_owned(), line, id, message });
    }
    found
}

/// Parses `target: "X", id = 1_2, key = value; "words"`, beginning after the parenthesis.
fn id_and_message(arguments: &str) -> Option<(u64, String)> {
    let keys = &arguments[..end_of_keys(arguments)?];
    let id_at = keys.find("id = ").filter(|&at| keys[..at].ends_with([' ', '(', '\n']))?;
    let digits = keys[id_at + 5..]
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '_')
        .filter(char::is_ascii_digit)
        .collect::<String>();
    let words = arguments[keys.len() + 1..].trim_start().strip_prefix('"')?;
    // A message that is only `{}` comes from another place, and its id is not a literal either.
    let message = words[..words.find('"')?].split_whitespace().collect::<Vec<_>>().join(" ");
    Some((digits.parse().ok()?, message))
}

/// The position of the `;` between the keys and the message: the first one outside a string literal.
fn end_of_keys(arguments: &str) -> Option<usize> {
    let mut in_string = false;
    let mut escaped = false;
    for (at, c) in arguments.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ';' if !in_string => return Some(at),
            _ => {}
        }
    }
    None
}

#[test]
fn reads_a_log_line() {
    let text = concat!(
        "log::",
        "warn!(target: \"A;\", id = 7_702, key:% = value;\n    \"Some words \\\n     more\");"
    );
    let logged = logged_in("x.rs", text);
    assert_eq!(logged.len(), 1);
    assert_eq!((logged[0].line, logged[0].id), (1, 7702));
    assert_eq!(logged[0].message, "Some words \\ more");
}
