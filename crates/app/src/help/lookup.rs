//! `nagi help NAME`: explains one option, key of the configuration file, or server parameter.

use super::commands::{self, COMMANDS};
use super::layout::Block;
use super::{TOPICS, parameters, sections, sentence};
use crate::engine;
use crate::flag::Flag;
use crate::options::{Honoured, Kind, Row, TABLE, about, more, nearest_option, refusal};

/// The explanation of an option of any command, of a key, of a section of keys, or of a server parameter.
///
/// # Errors
/// With a text for the user, if there is nothing of this name.
pub(super) fn blocks(name: &str) -> Result<Vec<Block>, String> {
    let bare = name.trim_start_matches('-');
    let mut found: Vec<Block> = rows(name, bare).into_iter().flat_map(of_row).collect();
    let is_of_server = !found.is_empty();
    for command in COMMANDS {
        for flag in (command.flags)().iter().filter(|flag| is_named(flag, name, bare)) {
            found.extend(of_flag(command, flag));
        }
    }
    if !name.starts_with('-') {
        let of_others = !found.is_empty() && !is_of_server;
        found.extend(parameters::of(bare));
        // A word such as tls, which is also the name of an option of `nagi ping`.
        if of_others {
            found.extend(search(name));
        }
    }
    if found.is_empty() {
        found = section(name);
    }
    if found.is_empty() && similar(name, bare).is_none() {
        found = search(name);
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(unknown(name, bare)),
    }
}

/// The explanation of an option of one command.
pub(super) fn of_command(command: &str, flag: &str) -> Result<Vec<Block>, String> {
    let Some(row) = commands::find(command) else {
        let meant = commands::meant_command(command);
        return Err(format!("unknown command '{command}'{meant}; nagi help lists the commands"));
    };
    if row.name == "serve" {
        return blocks(flag);
    }
    let flags = (row.flags)();
    let bare = flag.trim_start_matches('-');
    match flags.iter().find(|known| is_named(known, flag, bare)) {
        Some(found) => Ok(of_flag(row, found)),
        None => {
            let names: Vec<&str> = flags.iter().map(|flag| flag.name).collect();
            let meant = crate::options::meant_option(flag, &names);
            Err(format!("nagi {command} has no option '{flag}'{meant}; try 'nagi help {command}'"))
        }
    }
}

fn is_named(flag: &Flag, name: &str, bare: &str) -> bool {
    flag.short == name || flag.name.trim_start_matches('-') == bare
}

/// The rows of the table for a flag or a key. A name in other case is found if no name is equal.
fn rows(name: &str, bare: &str) -> Vec<&'static Row> {
    let short = crate::options::SHORT.iter().find(|(_, short)| *short == name);
    let bare = short.map_or(bare, |(flag, _)| flag);
    let by = |is_it: fn(&str, &str) -> bool| {
        TABLE.iter().filter(|row| is_it(row.flag, bare) || is_it(row.key, bare)).collect::<Vec<_>>()
    };
    if bare.is_empty() {
        return Vec::new();
    }
    let exact = by(|known, name| known == name);
    match exact.is_empty() {
        true => by(|known, name| known.eq_ignore_ascii_case(name)),
        false => exact,
    }
}

fn of_flag(command: &commands::Command, flag: &Flag) -> Vec<Block> {
    let Block::Entry(term, text) = commands::entry(flag) else { return Vec::new() };
    let usages = command.usages.iter().filter(|usage| usage.contains(flag.name));
    let usages = usages.map(|usage| Block::code(*usage));
    [Block::title(format!("Option of nagi {}", command.name)), Block::Entry(term, text)]
        .into_iter()
        .chain(usages)
        .collect()
}

/// The explanation of an option of the server.
fn of_row(row: &'static Row) -> Vec<Block> {
    let about = about(row);
    let mut blocks = vec![
        Block::title(sections::term(row)),
        Block::text(format!("{}.", sentence(about.meaning))),
    ];
    let accepted = match (row.kind, about.unit()) {
        (Kind::Text, _) if about.value.is_empty() => "text".to_owned(),
        (Kind::Text, _) => format!("<{}>", about.value),
        (kind, Some(unit)) => format!("{}, in {unit}", kind.accepted()),
        (kind, None) => kind.accepted(),
    };
    blocks.push(Block::row("Values", accepted));
    blocks.push(Block::row("Default", about.default));
    let key = match row.in_file() || row.key == "setParameter" {
        true => row.key,
        false => "none: only on the command line",
    };
    blocks.push(Block::row("Key", key));
    blocks.push(Block::row("Status", sections::status(row).unwrap_or_else(|| "honoured".into())));
    if let Some(engines) = engine::users_of(row.key) {
        blocks.push(Block::row("Engines", format!("only {engines}")));
    }
    let same = TABLE.iter().filter(|other| other.key == row.key && other.flag != row.flag);
    for other in same {
        blocks.push(Block::row("See also", format!("--{}", other.flag)));
    }
    for paragraph in more(about).into_iter().flat_map(|text| text.split("\n\n")) {
        blocks.push(Block::text(paragraph));
    }
    if row.honoured == Honoured::No {
        let advice = refusal(row.key).map(sentence).unwrap_or_default();
        blocks.push(Block::text(format!("The server does not start with it. {advice}.")));
    } else {
        blocks.extend(examples(row));
    }
    blocks
}

/// How the option is written on the command line and in a file.
fn examples(row: &Row) -> Vec<Block> {
    let about = about(row);
    let value = match (row.implied, row.kind, row.honoured) {
        (Some(implied), ..) => implied.to_owned(),
        (None, _, Honoured::Only(values)) => values[0].to_owned(),
        (None, Kind::OneOf(names), _) => names.last().copied().unwrap_or_default().to_owned(),
        (None, kind, _) if kind != Kind::Text && kind.check(about.default).is_ok() => {
            about.default.to_owned()
        }
        (None, kind, _) if kind.check("1").is_ok() && kind != Kind::Text => "1".to_owned(),
        _ => format!("<{}>", about.value),
    };
    let mut blocks = Vec::new();
    if !row.flag.is_empty() {
        blocks.push(Block::text("On the command line:"));
        let value = if row.implied.is_some() { String::new() } else { format!(" {value}") };
        blocks.push(Block::code(format!("nagi serve --{}{value}", row.flag)));
    }
    if row.in_file() {
        blocks.push(Block::text("In a configuration file:"));
        let parts: Vec<&str> = row.key.split('.').collect();
        for (depth, part) in parts.iter().enumerate() {
            let value = if depth + 1 == parts.len() { format!(" {value}") } else { String::new() };
            blocks.push(Block::code(format!("{:width$}{part}:{value}", "", width = depth * 2)));
        }
    }
    blocks
}

/// The options below a section of the configuration file, such as `storage`.
fn section(name: &str) -> Vec<Block> {
    let is_below =
        |row: &&Row| row.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let entries: Vec<Block> = TABLE.iter().filter(is_below).map(sections::entry).collect();
    match entries.is_empty() {
        true => entries,
        false => {
            [Block::title(format!("Options below {name}"))].into_iter().chain(entries).collect()
        }
    }
}

/// Commands, options and server parameters whose names contain a word, or whose descriptions have a word that begins
/// with it.
fn search(wanted: &str) -> Vec<Block> {
    let word = wanted.to_lowercase();
    if word.len() < SEARCHED_MIN || word.starts_with('-') {
        return Vec::new();
    }
    let has = |names: &[&str], meaning: &str| {
        let meaning = meaning.to_lowercase();
        let mut words = meaning.split(|c: char| !c.is_alphanumeric());
        names.iter().any(|name| name.to_lowercase().contains(&word))
            || words.any(|other| other.starts_with(&word))
    };
    let commands = COMMANDS.iter().filter(|command| has(&[command.name], command.meaning));
    let options = TABLE.iter().filter(|row| has(&[row.flag, row.key], about(row).meaning));
    let found = commands
        .map(|command| Block::entry(format!("nagi {}", command.name), command.meaning))
        .chain(options.map(sections::entry))
        .chain(flags_with(&has))
        .chain(parameters::entries(&|about| has(&[about.name], about.meaning)));
    let found: Vec<Block> = found.collect();
    match found.is_empty() {
        true => found,
        false => {
            let title =
                Block::title(format!("Nothing is called '{wanted}'; these have to do with it"));
            std::iter::once(title).chain(found).collect()
        }
    }
}

/// Shorter words are in most descriptions.
const SEARCHED_MIN: usize = 3;

/// The options of commands other than `serve` whose names or descriptions are searched for.
fn flags_with(has: &dyn Fn(&[&str], &str) -> bool) -> Vec<Block> {
    let mut found = Vec::new();
    for command in COMMANDS {
        for flag in (command.flags)().iter().filter(|flag| has(&[flag.name], flag.meaning)) {
            if let Block::Entry(term, text) = commands::entry(flag) {
                found.push(Block::Entry(format!("nagi {} {term}", command.name), text));
            }
        }
    }
    found
}

fn unknown(name: &str, bare: &str) -> String {
    let meant =
        similar(name, bare).map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default();
    format!("nothing is known of '{name}'{meant}; nagi help lists the topics")
}

/// The most similar name of a command, topic, option or parameter.
fn similar(name: &str, bare: &str) -> Option<String> {
    let commands = COMMANDS.iter().map(|command| command.name);
    let topics = TOPICS.iter().map(|(topic, _)| *topic);
    let known = commands.chain(topics).map(|name| (name, name.to_owned()));
    let word = nagi_error::nearest(name, known).filter(|_| !name.starts_with('-'));
    word.or_else(|| nearest_option(bare))
        .or_else(|| nagi_server::similar_parameter(bare).map(str::to_owned))
        .or_else(|| nearest_flag(bare))
}

/// The most similar flag of a command other than `serve`.
fn nearest_flag(bare: &str) -> Option<String> {
    let flags: Vec<Flag> = COMMANDS.iter().flat_map(|command| (command.flags)()).collect();
    let names = flags.iter().map(|flag| (flag.name.trim_start_matches('-'), flag.name));
    nagi_error::nearest(bare, names).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Style, render};
    use super::*;

    fn text(name: &str) -> String {
        render(&blocks(name).unwrap(), Style { width: 80, bold: false })
    }

    #[test]
    fn every_option_is_explained_by_flag_and_by_key() {
        for row in TABLE {
            let by_key = text(row.key);
            assert!(by_key.contains(&sections::term(row)), "{}: {by_key}", row.key);
            if !row.flag.is_empty() {
                for name in [row.flag.to_owned(), format!("--{}", row.flag)] {
                    assert!(text(&name).starts_with(&sections::term(row)), "{name}");
                }
            }
        }
    }

    #[test]
    fn words_are_searched_in_names_and_descriptions() {
        for (word, found) in [
            ("tls", "--tlsMode"),
            ("log", "--logpath"),
            ("memory", "--cacheSizeGB"),
            ("MEMORY", "--cacheSizeGB"),
            ("ttl", "ttlMonitorEnabled"),
            ("prune", "nagi backup --prune"),
        ] {
            let shown = text(word);
            assert!(shown.contains(found), "{word}: {shown}");
        }
        for nothing in ["-", "--", "qqq", "it"] {
            let error = blocks(nothing).unwrap_err();
            assert!(error.contains(&format!("nothing is known of '{nothing}'")), "{error}");
        }
    }

    #[test]
    fn other_names_are_found() {
        assert!(text("cachesizegb").starts_with("--cacheSizeGB <GiB>\n"));
        assert!(text("-f").starts_with("-f, --config <file>\n"));
        assert!(text("--archive").contains("Option of nagi backup\n  --archive <url>"));
        assert!(text("ttlMonitorSleepSecs").contains("seconds"));
        assert!(text("storage.journal").contains("--journalCommitInterval"));
        assert!(text("--dbpath").contains("Option of nagi restore"));
        for (name, meant) in [
            ("--dbpaht", "'--dbpath'"),
            ("cacheSizeGb2", "'--cacheSizeGB'"),
            ("ttlMonitorSleepSec", "'ttlMonitorSleepSecs'"),
            ("--keepHour", "'--keepHours'"),
            ("paramters", "'parameters'"),
        ] {
            let error = blocks(name).unwrap_err();
            assert!(error.contains(&format!("did you mean {meant}?")), "{error}");
        }
        assert!(of_command("backup", "--prune").is_ok());
        assert!(of_command("backup", "--prunes").unwrap_err().contains("did you mean '--prune'?"));
        assert!(of_command("backp", "--prune").unwrap_err().contains("did you mean 'backup'?"));
    }
}
