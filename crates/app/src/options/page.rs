//! Generates `docs/configuration.md`: every option of the table with its values and its effect.
//!
//! `UPDATE_DOCS=1 cargo test -p nagi-app configuration_page` writes the page; the test fails if it is out of date.

use std::fmt::Write as _;
use std::{env, fs};

use super::notes;
use super::table::{Honoured, Kind, Row, TABLE};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

const HEAD: &str = "\
# Configuration

Generated from the table of options, `crates/app/src/options/table.rs`; do not edit. An option has its name in a
configuration file (`nagi serve -f FILE`, YAML as mongod reads it) and a flag; the command line wins over the file.
Unknown options are refused. So are those listed under \"Refused\", with the reason. Options marked
\"accepted, no effect\" change nothing: the server starts, and logs a warning if the value is not the usual one.

A server parameter is set in one of three ways, and `db.adminCommand({getParameter: \"*\"})` lists all of them:

- with the flag `--setParameter NAME=VALUE`, which may be repeated;
- in the configuration file, as a line of the section `setParameter`:

  ```yaml file=parameters.conf
  setParameter:
    cursorTimeoutMillis: 300000
    ttlMonitorEnabled: false
  ```

- at run time, with `db.adminCommand({setParameter: 1, NAME: VALUE})`, unless it can be set at the start only.
";

/// Options of which only some values have an effect.
const PARTLY: &[(&str, &str)] = &[
    (
        "storage.mmapv1.nsSize",
        "accepted, no effect: there are no namespace files. The mapped engine logs this at the start",
    ),
    (
        "storage.wiredTiger.engineConfig.journalCompressor",
        "`none` and `zstd` are honoured; `snappy` and `zlib` leave the journal uncompressed, and a line of the \
         log says so at the start",
    ),
];

/// Formats a text for a cell: one line, bars escaped.
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
        Honoured::Yes => PARTLY
            .iter()
            .find(|(key, _)| *key == row.key)
            .map_or("honoured", |(_, what)| what)
            .to_owned(),
        Honoured::Only(values) => {
            format!("accepted if it is {}, as the server does so; refused otherwise", codes(values))
        }
        Honoured::Instead { note, .. } => format!("accepted, no effect. {}", cell(note)),
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

fn table(out: &mut String, title: &str, in_file: bool, rows: &[&Row]) {
    let (head, rule) = if in_file { ("option | flag", "---|---") } else { ("flag", "---") };
    let _ = writeln!(out, "\n## {title}\n\n| {head} | values | what holds |\n|{rule}|---|---|");
    for row in rows {
        let name = if in_file { format!("`{}` | {}", row.key, flag(row)) } else { flag(row) };
        let _ = writeln!(out, "| {name} | {} | {} |", values(row.kind), made_of_it(row));
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let is_taken = |row: &Row| row.honoured != Honoured::No;
    for (title, taken) in [("Options", true), ("Refused", false)] {
        let rows: Vec<&Row> =
            TABLE.iter().filter(|r| r.in_file() && is_taken(r) == taken).collect();
        table(&mut out, title, true, &rows);
    }
    let rows: Vec<&Row> = TABLE.iter().filter(|r| !r.in_file()).collect();
    table(&mut out, "Of the command line only", false, &rows);
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
        "docs/configuration.md is stale: UPDATE_DOCS=1 cargo test -p nagi-app configuration_page"
    );
}

#[test]
fn every_refused_option_has_a_reason() {
    for row in TABLE.iter().filter(|row| row.honoured == Honoured::No) {
        assert!(notes::refusal(row.key).is_some(), "{}", row.key);
    }
}
