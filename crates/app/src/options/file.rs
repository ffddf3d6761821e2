//! The configuration file: YAML with nested or dotted keys, or `name=value` lines as before 2.6.

use std::fs::File;
use std::io::Read;

use yaml_rust2::{Yaml, YamlLoader};

use super::Settings;
use super::line;
use super::notes;
use super::table::TABLE;

/// A configuration has some kilobytes.
const BYTES_MAX: u64 = 16 << 20;

/// Reads the file at `path`.
pub(super) fn read(path: &str, settings: &mut Settings) -> Result<(), String> {
    // A pipe is fine (`-f <(...)`), a device that never ends is not.
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

/// Reads the text of a file.
pub(super) fn parse(text: &str, settings: &mut Settings) -> Result<(), String> {
    // Editors of other systems put a byte order mark at the front.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if is_old_format(text) {
        return parse_old(text, settings);
    }
    let documents = YamlLoader::load_from_str(text)
        .map_err(|error| format!("Error parsing YAML config file: {error}"))?;
    match documents.first() {
        None | Some(Yaml::Null) => Ok(()),
        Some(root @ Yaml::Hash(_)) => walk(root, "", settings),
        Some(_) => Err("Error parsing YAML config file: the top level is no map".into()),
    }
}

fn walk(node: &Yaml, prefix: &str, settings: &mut Settings) -> Result<(), String> {
    let Yaml::Hash(map) = node else { return Ok(()) };
    for (name, value) in map {
        let Some(name) = scalar(name) else {
            return Err("Error parsing YAML config file: a key is no text".into());
        };
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        if let Some(parameter) = key.strip_prefix("setParameter.") {
            let value = scalar(value).ok_or_else(|| bad_kind(&key))?;
            settings.set_parameter(parameter, &value)?;
            continue;
        }
        match (TABLE.iter().find(|row| row.key == key && row.in_file()), value) {
            (_, Yaml::Hash(_)) if is_section(&key) => walk(value, &key, settings)?,
            (_, Yaml::Null) if is_section(&key) => {}
            (Some(row), value) => {
                let value = scalar(value).ok_or_else(|| bad_kind(&key))?;
                settings.set(row, &value)?;
            }
            (None, _) if let Some(why) = notes::refusal(&key) => {
                return Err(format!(
                    "Error: option '{key}' is not honoured by Nagi; remove it to start: {why}"
                ));
            }
            (None, _) => {
                return Err(format!(
                    "Unrecognized option: {key}\ntry 'nagi --help' for more information"
                ));
            }
        }
    }
    Ok(())
}

fn bad_kind(key: &str) -> String {
    format!("Error parsing YAML config file: the value of {key} is no scalar")
}

/// Whether other keys lie below this one.
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
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, "true"));
        let (name, value) = (name.trim(), value.trim());
        let Some(row) = line::by_flag(name) else {
            return Err(format!("Error parsing INI config file: unrecognised option '{name}'"));
        };
        match (row.implied, value) {
            (Some(implied), "true") => settings.set(row, implied)?,
            (Some(_), "false") => {}
            _ => line::take(row, value, settings)?,
        }
    }
    Ok(())
}
