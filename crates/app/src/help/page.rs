//! Generates `docs/configuration.md`, with every option and server parameter, and `docs/exit-codes.md`.
//!
//! `UPDATE_DOCS=1 cargo test -p nagi-app configuration_page` writes `docs/configuration.md`, `exit_codes_page` the
//! other;
//! the tests fail if a page is out of date.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use nagi_server::about_parameters;

use super::{parameters, sections, sentence};
use crate::failure::exit::{BY_SIGNAL, STATUSES};
use crate::options::{Honoured, Kind, Row, SHORT, TABLE, about, refusal};

const HEAD: &str = "\
# Configuration

Generated from the table of options, `crates/app/src/options/`; do not edit. An option has its name in a
configuration file (`nagi serve -f FILE`, YAML as mongod reads it) and a flag; the command line wins over the file.
Unknown options are refused. So are those listed under \"Refused\", with the reason. Options marked
\"accepted, no effect\" change nothing: the server starts, and logs a warning if the value is not the usual one.
`nagi help OPTION` explains one of them at length, `man nagi` has all of them.
";

const PARAMETERS: &str = "
## Server parameters

A server parameter is set in one of three ways, and `db.adminCommand({getParameter: \"*\"})` lists all of them:

- with the flag `--setParameter NAME=VALUE`, which may be repeated;
- in the configuration file, as a line of the section `setParameter`:

  ```yaml file=parameters.conf
  setParameter:
    cursorTimeoutMillis: 300000
    ttlMonitorEnabled: false
  ```

- at run time, with `db.adminCommand({setParameter: 1, NAME: VALUE})`, unless it can be set at the start only.

| parameter | meaning | values | default | set | what holds |
|---|---|---|---|---|---|
";

/// Formats a text for a cell: one line, bars and characters of markup escaped.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "\\<")
}

fn codes(names: &[&str]) -> String {
    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

fn values(row: &Row) -> String {
    let about = about(row);
    match (row.kind, about.unit()) {
        (Kind::Text, _) if about.value.is_empty() => "text".to_owned(),
        (Kind::Text, _) => cell(about.value),
        (Kind::OneOf(names), _) => codes(names),
        (kind, Some(unit)) => format!("{}, in {unit}", kind.accepted()),
        (kind, None) => kind.accepted(),
    }
}

fn status(row: &Row) -> String {
    match row.honoured {
        Honoured::Only(values) => {
            let why = refusal(row.key).map(|why| format!(": {}", cell(why))).unwrap_or_default();
            let verb = if values.len() == 1 { "is" } else { "are" };
            format!("only {} {verb} accepted, as the server does so{why}", codes(values))
        }
        _ => sections::status(row).map_or("honoured".to_owned(), |status| cell(&status)),
    }
}

/// The flag, and the value that it sets if it takes none.
fn flag(row: &Row) -> String {
    let short = SHORT.iter().find(|(flag, _)| *flag == row.flag);
    let short = short.map(|(_, short)| format!("`{short}`, ")).unwrap_or_default();
    match (row.flag, row.implied) {
        ("", _) => String::new(),
        (flag, Some(implied)) => format!("{short}`--{flag}` ({implied})"),
        (flag, None) => format!("{short}`--{flag}`"),
    }
}

fn table(out: &mut String, title: &str, in_file: bool, rows: &[&Row]) {
    let (head, rule) = if in_file { ("key | flag", "---|---") } else { ("flag", "---") };
    let _ = writeln!(
        out,
        "\n## {title}\n\n| {head} | meaning | values | default | what holds |\n|{rule}|---|---|---|---|"
    );
    for row in rows {
        let about = about(row);
        let name = if in_file { format!("`{}` | {}", row.key, flag(row)) } else { flag(row) };
        let (meaning, default) = (cell(about.meaning), cell(about.default));
        let _ =
            writeln!(out, "| {name} | {meaning} | {} | {default} | {} |", values(row), status(row));
    }
}

fn configuration() -> String {
    let mut out = HEAD.to_owned();
    let is_taken = |row: &Row| row.honoured != Honoured::No;
    for (title, taken) in [("Options", true), ("Refused", false)] {
        let rows: Vec<&Row> =
            TABLE.iter().filter(|r| r.in_file() && is_taken(r) == taken).collect();
        table(&mut out, title, true, &rows);
    }
    let rows: Vec<&Row> = TABLE.iter().filter(|r| !r.in_file()).collect();
    table(&mut out, "Of the command line only", false, &rows);
    out.push_str(PARAMETERS);
    for about in about_parameters() {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            about.name,
            cell(about.meaning),
            cell(&parameters::values(&about)),
            cell(&about.default),
            cell(about.set_at),
            about.no_effect.map_or("honoured".to_owned(), cell)
        );
    }
    out
}

fn exit_codes() -> String {
    let mut out = String::from(
        "# Exit statuses\n\nGenerated from the table of statuses, `crates/app/src/failure.rs`; do not edit. `nagi \
         help exit-codes` prints it.\n\n| status | commands | meaning | what to do |\n|---|---|---|---|\n",
    );
    for status in STATUSES {
        let (meaning, advice) = (cell(&sentence(status.meaning)), cell(status.advice));
        let _ = writeln!(out, "| {} | {} | {meaning} | {advice} |", status.code, status.commands);
    }
    let _ = writeln!(out, "\n{BY_SIGNAL}");
    out
}

/// Compares a page of docs/, or writes it.
#[track_caller]
fn check(name: &str, page: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, page).expect("the page can be written");
        return;
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/{name} is stale: UPDATE_DOCS=1 cargo test -p nagi-app {test}");
}

#[test]
fn configuration_page_is_current() {
    check("configuration.md", &configuration(), "configuration_page");
}

#[test]
fn exit_codes_page_is_current() {
    check("exit-codes.md", &exit_codes(), "exit_codes_page");
}

/// No line of the help is longer than the terminal, at each width that is promised.
#[test]
fn help_is_as_wide_as_promised() {
    use super::layout::{Block, Style, WIDTHS, render};
    let mut pages: Vec<Vec<Block>> =
        vec![super::overview::blocks(), super::parameters::blocks(), super::exit_codes::blocks()];
    pages.extend(
        super::commands::COMMANDS.iter().map(|command| super::commands::blocks(command.name)),
    );
    let names = TABLE.iter().map(|row| row.key).chain(nagi_server::parameter_names());
    pages.extend(names.map(|name| super::lookup::blocks(name).unwrap()));
    for width in [*WIDTHS.start(), 80, 100, *WIDTHS.end()] {
        for page in &pages {
            // Commands are not wrapped, because they must be copied as they are; they fit into 80 columns.
            let is_kept = |block: &&Block| width >= 80 || !matches!(block, Block::Code(_));
            let page: Vec<Block> = page.iter().filter(is_kept).cloned().collect();
            for line in render(&page, Style { width, bold: false }).lines() {
                assert!(line.len() <= width, "{width}: {line}");
            }
        }
    }
}
