//! The options of the server, by section.

use super::layout::Block;
use super::sentence;
use crate::engine;
use crate::options::{About, Honoured, Kind, Row, SHORT, TABLE, about, refusal};

/// The sections: heading, and the first part of the keys in a file. The first has the options without a section.
const SECTIONS: &[(&str, &str)] = &[
    ("General", ""),
    ("Network", "net"),
    ("Storage", "storage"),
    ("Log", "systemLog"),
    ("Alerts", "alerts"),
    ("Audit log", "auditLog"),
    ("Security", "security"),
    ("Replication", "replication"),
    ("Profiler", "operationProfiling"),
    ("Process", "processManagement"),
    ("Cloud", "cloud"),
];

/// The longest list of values that is shown in the place of a placeholder.
const LIST_MAX: usize = 32;

/// Rows whose values have no effect, or only some of them: why.
pub(crate) const PARTLY: &[(&str, &str)] = &[
    (
        "processManagement.timeZoneInfo",
        "no effect, except that the directory must exist: the time zones are built in",
    ),
    ("storage.mmapv1.nsSize", "no effect: there are no namespace files"),
    (
        "storage.wiredTiger.engineConfig.journalCompressor",
        "snappy and zlib have no effect: they leave the journal uncompressed",
    ),
];

/// All options, the refused ones last.
pub(crate) fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for (heading, section) in SECTIONS {
        blocks.push(Block::title(format!("{heading} options")));
        blocks.extend(accepted().filter(|row| group(row) == *section).map(entry));
    }
    blocks.push(Block::title("Refused options"));
    blocks.push(Block::text(
        "These options of MongoDB are known. The server does not start with them, for the reason above each list.",
    ));
    for (reason, rows) in refused() {
        blocks.push(Block::text(format!("{}:", sentence(reason))));
        blocks.extend(rows.into_iter().map(entry));
    }
    blocks
}

/// The accepted options.
pub(crate) fn accepted() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(|row| row.honoured != Honoured::No)
}

/// The refused options by reason.
fn refused() -> Vec<(&'static str, Vec<&'static Row>)> {
    let mut found: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in TABLE.iter().filter(|row| row.honoured == Honoured::No) {
        let reason = refusal(row.key).unwrap_or("not supported");
        match found.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, rows)) => rows.push(row),
            None => found.push((reason, vec![row])),
        }
    }
    found
}

/// The first part of an option's key; empty for options without a section.
fn group(row: &Row) -> &'static str {
    row.key.split_once('.').map_or("", |(section, _)| section)
}

/// A line of the short help: flag, meaning and default.
pub(crate) fn short(flag: &str) -> Option<Block> {
    let row = TABLE.iter().find(|row| row.flag == flag)?;
    let about = about(row);
    let default = match (row.implied, about.default) {
        (Some(_), _) | (None, "none") => String::new(),
        (None, default) => format!(" ({})", default.split([';', ',']).next().unwrap_or(default)),
    };
    Some(Block::row(term(row), format!("{}{default}", about.meaning)))
}

/// An option with its description.
pub(crate) fn entry(row: &Row) -> Block {
    let about = about(row);
    let mut text = format!("{}.", sentence(about.meaning));
    if row.honoured != Honoured::No {
        for part in [values(row, about), status(row)].into_iter().flatten() {
            text.push_str(&format!(" {}.", sentence(part.trim_end_matches('.'))));
        }
        text.push_str(&format!(" Default: {}.", about.default));
    }
    text.push_str(&format!(" {}.", key(row)));
    if let Some(engines) = engine::users_of(row.key) {
        text.push_str(&format!(" Engine: {engines}."));
    }
    Block::entry(term(row), text)
}

/// Where the option is in a file.
fn key(row: &Row) -> String {
    match (row.flag.is_empty(), row.in_file()) {
        (true, _) => "Only in a configuration file".to_owned(),
        (false, false) if row.key == "setParameter" => {
            "Key: setParameter, with the parameters below it".to_owned()
        }
        (false, false) => "Only on the command line".to_owned(),
        (false, true) => match row.implied {
            None | Some("true") => format!("Key: {}", row.key),
            Some(value) => format!("Key: {}, which the flag sets to {value}", row.key),
        },
    }
}

/// The flag with its short form and value, or the key of an option without a flag.
pub(crate) fn term(row: &Row) -> String {
    if row.flag.is_empty() {
        return row.key.to_owned();
    }
    let short = SHORT.iter().find(|(flag, _)| *flag == row.flag);
    let short = short.map(|(_, short)| format!("{short}, ")).unwrap_or_default();
    let value = match row.implied {
        Some(_) => String::new(),
        None => format!(" {}", placeholder(row)),
    };
    format!("{short}--{}{value}", row.flag)
}

fn placeholder(row: &Row) -> String {
    let value = about(row).value;
    match row.kind {
        _ if !value.is_empty() => format!("<{value}>"),
        Kind::Bool => "<true|false>".to_owned(),
        Kind::OneOf(names) if lists(names) => format!("<{}>", names.join("|")),
        Kind::OneOf(_) => "<name>".to_owned(),
        Kind::Int(..) | Kind::Float(..) => "<number>".to_owned(),
        Kind::Text => "<text>".to_owned(),
    }
}

fn lists(names: &[&str]) -> bool {
    names.join("|").len() <= LIST_MAX
}

/// The accepted values, unless the placeholder has them.
pub(crate) fn values(row: &Row, about: &About) -> Option<String> {
    let unit = about.unit().unwrap_or_default();
    match row.kind {
        Kind::Int(least, most) => Some(format!("{least} to {most} {unit}")),
        Kind::Float(least, most) => Some(format!("{least} to {most} {unit}")),
        Kind::OneOf(names) if !about.value.is_empty() || !lists(names) => {
            Some(format!("one of {}", names.join(", ")))
        }
        Kind::OneOf(names) if row.implied.is_some() || row.flag.is_empty() => {
            Some(format!("one of {}", names.join(", ")))
        }
        Kind::Bool | Kind::OneOf(_) | Kind::Text => None,
    }
    .map(|text| text.trim_end().to_owned())
}

/// What holds of an option that is not simply honoured.
pub(crate) fn status(row: &Row) -> Option<String> {
    match row.honoured {
        Honoured::Yes => {
            PARTLY.iter().find(|(key, _)| *key == row.key).map(|(_, why)| (*why).to_owned())
        }
        Honoured::Only(values) => {
            let why = refusal(row.key).map(|why| format!(": {why}")).unwrap_or_default();
            let verb = if values.len() == 1 { "is" } else { "are" };
            Some(format!("only {} {verb} accepted{why}", values.join(" and ")))
        }
        Honoured::Instead { note, .. } => {
            let note = note.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(format!("accepted, no effect. {note}"))
        }
        Honoured::No => refusal(row.key).map(|why| format!("refused: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_listed_once_with_default_and_key() {
        let blocks = blocks();
        for row in TABLE {
            let found: Vec<&String> = blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Entry(name, text) if *name == term(row) => Some(text),
                    _ => None,
                })
                .collect();
            let [text] = found[..] else { panic!("{}: {} entries", term(row), found.len()) };
            let has_key = !row.in_file()
                || row.flag.is_empty()
                || text.contains(&format!("Key: {}.", row.key))
                || text.contains(&format!("Key: {},", row.key));
            assert!(has_key, "{text}");
            let is_taken = row.honoured != Honoured::No;
            assert_eq!(text.contains("Default: "), is_taken, "{}", term(row));
        }
        assert!(SECTIONS.iter().all(|(_, section)| accepted().any(|row| group(row) == *section)));
        for (key, _) in PARTLY {
            assert!(TABLE.iter().any(|row| row.key == *key), "{key}");
        }
    }

    #[test]
    fn an_entry_has_unit_default_and_status() {
        let text = |flag: &str| {
            let row = TABLE.iter().find(|row| row.flag == flag).unwrap();
            let Block::Entry(_, text) = entry(row) else { panic!("{flag}") };
            text
        };
        assert_eq!(
            text("journalCommitInterval"),
            "Time between syncs of the journal to the disk. 1 to 500 milliseconds. Default: 100. Key: \
             storage.journal.commitIntervalMs. Engine: wiredTiger, mmapv1."
        );
        assert!(text("tlsFIPSMode").contains(" Only false is accepted: the cryptographic library"));
        assert!(text("nojournal").contains(" Accepted, no effect. Writes are always journaled"));
        assert!(text("port").contains(" 0 to 65535. Default: 27017. Key: net.port."));
    }
}
