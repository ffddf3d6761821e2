//! `docs/configuration.md`: every option of the table, with what it takes and what is made of it.
//!
//! `UPDATE_DOCS=1 cargo test -p nagi configuration_page` writes the page; the test fails when it is stale.

use std::fmt::Write as _;
use std::{env, fs};

use super::notes;
use super::table::{Honoured, Kind, Row, TABLE};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

const HEAD: &str = "\
# Configuration

Generated from the table of options, `crates/app/src/options/table.rs`; do not edit. An option has its name in a
configuration file (`nagi serve -f FILE`, YAML as mongod reads it) and a flag; the command line wins over the file.
An option that is not honoured is refused at the start with its reason, so that nobody relies on what does not hold.
Server parameters are set with `setParameter`, each as `name=value`; `getParameter: \"*\"` lists them.
";

/// A text for a cell: one line, no bar.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn codes(names: &[&str]) -> String {
    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Int(least, most) => format!("an integer from {least} to {most}"),
        Kind::Float(least, most) => format!("a number from {least} to {most}"),
        Kind::OneOf(names) => codes(names),
    }
}

fn made_of_it(row: &Row) -> String {
    match row.honoured {
        Honoured::Yes => "honoured".to_owned(),
        Honoured::Only(values) => format!("only {}: it is what holds", codes(values)),
        Honoured::Instead { note, .. } => format!("accepted. {}", cell(note)),
        Honoured::No => match notes::refusal(row.key) {
            Some(reason) => format!("refused: {}", cell(reason)),
            None => "refused".to_owned(),
        },
    }
}

fn flag(row: &Row) -> String {
    match (row.flag, row.implied) {
        ("", _) => String::new(),
        (flag, Some(implied)) => format!("`--{flag}` ({implied})"),
        (flag, None) => format!("`--{flag}`"),
    }
}

fn table(out: &mut String, title: &str, first: &str, rows: &[&Row]) {
    let _ = writeln!(
        out,
        "\n## {title}\n\n| {first} | flag | values | what holds |\n|---|---|---|---|"
    );
    for row in rows {
        let name = if row.in_file() { format!("`{}`", row.key) } else { flag(row) };
        let cells = [
            name,
            if row.in_file() { flag(row) } else { String::new() },
            values(row.kind),
            made_of_it(row),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let is_taken = |row: &Row| row.honoured != Honoured::No;
    for (title, taken) in [("Options", true), ("Refused", false)] {
        let rows: Vec<&Row> =
            TABLE.iter().filter(|r| r.in_file() && is_taken(r) == taken).collect();
        table(&mut out, title, "option", &rows);
    }
    let rows: Vec<&Row> = TABLE.iter().filter(|r| !r.in_file()).collect();
    table(&mut out, "Of the command line only", "flag", &rows);
    out
}

#[test]
fn configuration_page_is_current() {
    let page = page();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, page).expect("the page can be written");
        return;
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/configuration.md is stale: UPDATE_DOCS=1 cargo test -p nagi configuration_page"
    );
}

#[test]
fn every_refused_option_has_a_reason() {
    for row in TABLE.iter().filter(|row| row.honoured == Honoured::No) {
        assert!(notes::refusal(row.key).is_some(), "{}", row.key);
    }
}
