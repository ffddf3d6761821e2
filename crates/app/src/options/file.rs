//! The configuration file: YAML with nested or dotted keys, or `name=value` lines as before MongoDB 2.6.

use std::fs::File;
use std::io::Read;

use yaml_rust2::{Yaml, YamlLoader};

use super::Settings;
use super::line;
use super::lines;
use super::nearest;
use super::notes;
use super::remarks;
use super::table::{Row, TABLE};

/// The size limit; real configurations have a few kilobytes.
const BYTES_MAX: u64 = 16 << 20;
/// The limit of all values in memory, with those that aliases repeat.
const EXPANDED_BYTES_MAX: u64 = 32 << 20;

/// Reads the file at `path`.
pub(super) fn read(path: &str, settings: &mut Settings) -> Result<(), String> {
    // A pipe is accepted (`-f <(...)`); an endless device runs into the size limit.
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| format!("Error opening config file {path}: {error}"))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!(
            "Error reading config file {path}: it has more than {BYTES_MAX} bytes"
        ));
    }
    parse(&text, settings)
}

/// Parses the text of a file.
pub(super) fn parse(text: &str, settings: &mut Settings) -> Result<(), String> {
    // Editors of other systems may add a byte order mark.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    // For the parser of YAML, a NUL byte is the end of the text: what follows would be ignored.
    if let Some(at) = text.find('\0') {
        let line = text[..at].matches('\n').count() + 1;
        return Err(with_line("Error reading config file: it contains a NUL byte", Some(line)));
    }
    if is_old_format(text) {
        return parse_old(text, settings);
    }
    let before = settings.clone();
    let Err(error) = parse_yaml(text, settings) else { return Ok(()) };
    // As mongod reads it, a remark that begins with `//` is a part of the value before it. Only a file that is refused
    // for that is read without its remarks, so a file that mongod accepts has the same meaning here.
    let Some((without, lines)) = remarks::removed(text) else { return Err(error) };
    *settings = before;
    parse_yaml(&without, settings)?;
    settings.remark_lines = lines;
    Ok(())
}

fn parse_yaml(text: &str, settings: &mut Settings) -> Result<(), String> {
    let lines = lines::of(text);
    if let Some(line) = lines.too_deep {
        let most = lines::DEPTH_MAX;
        let text = format!("Error parsing YAML config file: it is nested deeper than {most}");
        return Err(with_line(&text, Some(line)));
    }
    if lines.expanded_bytes > EXPANDED_BYTES_MAX {
        let most = EXPANDED_BYTES_MAX >> 20;
        return Err(format!(
            "Error parsing YAML config file: its values, with those that its aliases repeat, need more than {most} MB"
        ));
    }
    let documents = YamlLoader::load_from_str(text).map_err(|error| match &lines.duplicate {
        // The library's text has the key in a debug format, and another line.
        Some((key, line)) => {
            let text = format!("Error parsing YAML config file: duplicate key '{key}'");
            with_line(&text, Some(*line))
        }
        None => format!("Error parsing YAML config file: {error}"),
    })?;
    if documents.iter().skip(1).any(|document| *document != Yaml::Null) {
        let text = "Error parsing YAML config file: a second document begins behind '---'; \
                    write all settings into one";
        return Err(with_line(text, lines.second_document));
    }
    match documents.first() {
        None | Some(Yaml::Null) => Ok(()),
        Some(root @ Yaml::Hash(_)) => {
            let read = walk(root, "", settings);
            let read = read.map_err(|bad| with_line(&bad.text, lines.keys.get(&bad.key).copied()));
            settings.lines = lines.keys;
            read
        }
        Some(_) => Err("Error parsing YAML config file: the top level is not a map".into()),
    }
}

/// An error at a key.
struct Bad {
    key: String,
    text: String,
}

/// Inserts the line number after the first sentence of an error.
pub(super) fn with_line(text: &str, line: Option<usize>) -> String {
    let Some(line) = line else { return text.to_owned() };
    let end = text.find([';', '\n']).unwrap_or(text.len());
    format!("{} (line {line} of the configuration file){}", &text[..end], &text[end..])
}

fn walk(node: &Yaml, prefix: &str, settings: &mut Settings) -> Result<(), Bad> {
    let Yaml::Hash(map) = node else { return Ok(()) };
    for (name, value) in map {
        let Some(name) = scalar(name) else {
            let text = "Error parsing YAML config file: a key is not a string".into();
            return Err(Bad { key: prefix.to_owned(), text });
        };
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        if is_section(&key) && matches!(value, Yaml::Hash(_)) {
            walk(value, &key, settings)?;
            continue;
        }
        take(&key, value, settings).map_err(|text| Bad { key, text })?;
    }
    Ok(())
}

/// Stores one value.
fn take(key: &str, value: &Yaml, settings: &mut Settings) -> Result<(), String> {
    if let Some(parameter) = key.strip_prefix("setParameter.") {
        let accepted =
            || nagi_server::parameter_values(parameter).unwrap_or_else(|| "text".to_owned());
        let value = scalar(value).ok_or_else(|| bad_kind(key, value, accepted()))?;
        return settings.set_parameter(parameter, &value);
    }
    if let Some(row) = TABLE.iter().find(|row| row.key == key && row.in_file()) {
        let text = scalar(value).or_else(|| list_of_networks(key, value));
        let value = text.ok_or_else(|| bad_kind(key, value, row.kind.accepted()))?;
        return settings.set(row, &value);
    }
    if is_section(key) {
        return match value {
            Yaml::Null => Ok(()),
            _ => Err(no_section(key)),
        };
    }
    // A name that is nearly one of this section is a mistake, not one of the options that the section's reason is for.
    let near = nearest::key_of_section(key);
    if let Some(why) = notes::refusal(key).filter(|_| near.is_none()) {
        return Err(format!(
            "Error: option '{key}' is not honoured by Nagi; {}",
            notes::advice(why)
        ));
    }
    let last = key.rsplit_once('.').map_or(key, |(_, last)| last);
    let below = |name: &str| format!("write it below setParameter:, as '{name}: VALUE'");
    if let Some(instead) = nearest::parameter_as_option(last, below) {
        return Err(format!("Unrecognized option: {key}{instead}"));
    }
    let meant = match (value, nearest::section(key, &sections())) {
        (Yaml::Hash(_) | Yaml::Null, section) if !section.is_empty() => section,
        (_, section) => Some(nearest::key(key)).filter(|key| !key.is_empty()).unwrap_or(section),
    };
    Err(format!("Unrecognized option: {key}{meant}\ntry 'nagi help serve' for more information"))
}

fn no_section(key: &str) -> String {
    let holds = match key {
        "setParameter" => "parameters, each as a line 'name: value'".to_owned(),
        _ => {
            let below = |row: &'static Row| row.key.strip_prefix(key)?.strip_prefix('.');
            let mut names: Vec<&str> = TABLE.iter().filter_map(below).collect();
            names.iter_mut().for_each(|name| *name = name.split('.').next().unwrap_or(name));
            names.dedup();
            names.join(", ")
        }
    };
    format!(
        "Error parsing YAML config file: '{key}' is a section, not a value; it holds {holds}, indented \
         below it"
    )
}

/// Options that are lists, written as one text.
const LISTS: [&str; 2] = ["net.bindIp", "net.compression.compressors"];

/// Options that are lists in YAML, as in mongod, and one text with commas on the command line.
const NETWORKS: [&str; 3] =
    ["net.ipAllowlist", "security.clusterIpSourceAllowlist", "security.clusterIpSourceWhitelist"];

fn list_of_networks(key: &str, value: &Yaml) -> Option<String> {
    let Yaml::Array(values) = value else { return None };
    let items: Option<Vec<String>> = values.iter().map(scalar).collect();
    items.filter(|_| NETWORKS.contains(&key)).map(|items| items.join(","))
}

fn bad_kind(key: &str, value: &Yaml, accepted: String) -> String {
    let (what, accepted) = match value {
        Yaml::Array(values) if LISTS.contains(&key) => {
            let values = values.iter().filter_map(scalar).collect::<Vec<_>>().join(",");
            let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
            ("a list", format!("one text with commas: {name}: {values}"))
        }
        Yaml::Array(_) => ("a list", accepted),
        Yaml::Hash(_) => ("a section", accepted),
        Yaml::Null => ("empty", accepted),
        _ => ("not a plain value", accepted),
    };
    format!("Error parsing YAML config file: the value of {key} is {what}; accepted is {accepted}")
}

/// The names of all sections, the outer ones first.
fn sections() -> Vec<&'static str> {
    let keys = TABLE.iter().filter(|row| row.in_file()).map(|row| row.key);
    let above = keys.flat_map(|key| key.match_indices('.').map(|(end, _)| &key[..end]));
    let mut sections: Vec<&str> = above.chain(["setParameter"]).collect();
    sections.sort_by_key(|name| (name.matches('.').count(), *name));
    sections.dedup();
    sections
}

/// Returns true if other keys are below this one.
fn is_section(key: &str) -> bool {
    key == "setParameter"
        || TABLE.iter().any(|row| row.key.strip_prefix(key).is_some_and(|r| r.starts_with('.')))
}

fn scalar(node: &Yaml) -> Option<String> {
    Some(match node {
        Yaml::String(text) | Yaml::Real(text) => text.clone(),
        Yaml::Integer(n) => n.to_string(),
        Yaml::Boolean(b) => b.to_string(),
        _ => return None,
    })
}

fn is_old_format(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.next().is_some_and(|line| match (line.find('='), line.find(':')) {
        (Some(equals), Some(colon)) => equals < colon,
        (equals, _) => equals.is_some(),
    })
}

fn parse_old(text: &str, settings: &mut Settings) -> Result<(), String> {
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            let key = take_old(line, settings);
            let key = key.map_err(|text| with_line(&text, Some(number + 1)))?;
            settings.lines.entry(key).or_insert(number + 1);
        }
    }
    Ok(())
}

/// Reads a line `name = value`, and returns the dotted key.
fn take_old(line: &str, settings: &mut Settings) -> Result<String, String> {
    let (name, value) = line.split_once('=').unwrap_or((line, "true"));
    let (name, value) = (name.trim(), value.trim());
    let Some(row) = line::by_flag(name) else {
        let as_line = |name: &str| format!("write setParameter = {name}=VALUE");
        let meant =
            nearest::parameter_as_option(name, as_line).unwrap_or_else(|| nearest::flag(name));
        return Err(format!("Error parsing INI config file: unrecognised option '{name}'{meant}"));
    };
    match (row.implied, value) {
        (Some(implied), "true") => settings.set(row, implied)?,
        (Some(_), "false") => {}
        _ => line::take(row, value, settings)?,
    }
    // Of `setParameter = name=value` the name is a part of the key.
    let parameter = value.split_once('=').filter(|_| row.key == "setParameter");
    Ok(match parameter {
        Some((name, _)) => format!("{}.{}", row.key, name),
        None => row.key.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn error(text: &str) -> String {
        parse(text, &mut Settings::default()).unwrap_err()
    }

    /// Nine aliases in each of ten lists: 3.5 billion values.
    #[test]
    fn aliases_that_repeat_aliases_are_not_expanded() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let again = vec![format!("*a{}", level - 1); 9].join(", ");
            writeln!(bomb, "a{level}: &a{level} [{again}]").unwrap();
        }
        let maps = bomb.replace('[', "{a: 1, b: [").replace(']', "]}");
        let mut texts = format!("a: &a '{}'\nb: [", "x".repeat(1 << 20));
        texts.push_str(&"*a, ".repeat(1 << 10));
        texts.push_str("]\n");
        // The parser copies a value with a name once more, at each level.
        let nested = (0..90).fold(format!("'{}'", "x".repeat(1 << 19)), |inner, level| {
            format!("&n{level} [{inner}]")
        });
        let later = format!("net: {{port: 1}}\n---\n{bomb}");
        for text in [&bomb, &maps, &texts, &format!("a: {nested}\n"), &later] {
            let error = error(text);
            assert!(error.contains("need more than 32 MB"), "{error}");
        }
        let deep = format!("net: {}{}\n", "[".repeat(120), "]".repeat(120));
        for deep in [deep, "- ".repeat(200_000)] {
            let error = error(&deep);
            assert!(error.contains("nested deeper than 100"), "{error}");
        }
        let mut settings = Settings::default();
        let shared =
            "net: &n {port: 1, ipv6: true}\nstorage: {dbPath: &d /x}\nsystemLog: {path: *d}\n";
        parse(shared, &mut settings).unwrap();
        assert_eq!(
            (settings.get("systemLog.path"), settings.get("net.port")),
            (Some("/x"), Some("1"))
        );
    }

    /// What the parser would skip without a word.
    #[test]
    fn settings_behind_the_end_of_the_document_are_refused() {
        for (text, line) in [
            ("net:\n  port: 1\n\0security:\n  authorization: enabled\n", 3),
            ("port=1\n\0auth=true\n", 2),
            ("net:\n  port: 1\n---\nsecurity:\n  authorization: enabled\n", 3),
            ("net:\n  port: 1\n...\n---\nsecurity: {authorization: enabled}\n", 4),
        ] {
            let error = error(text);
            assert!(error.contains(&format!("(line {line} of")), "{error}");
        }
        for text in ["---\nnet:\n  port: 1\n...\n", "net: {port: 1}\n---\n", "# x\n---\n"] {
            parse(text, &mut Settings::default()).unwrap();
        }
    }
}
