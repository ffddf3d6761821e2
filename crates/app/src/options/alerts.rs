//! The options `alerts`, and the file of rules.

use std::os::unix::fs::MetadataExt;

use nagi_bson::json::{self, JsonWriter};
use nagi_console::Alerts;
use yaml_rust2::{Yaml, YamlLoader};

use super::Settings;
use super::lines;

/// A hundred rules have a few kilobytes.
const BYTES_MAX: u64 = 1 << 20;
const DEPTH_MAX: usize = 20;

/// Alerts as they are configured.
#[derive(Debug, Default, Clone)]
pub(crate) struct AlertOptions {
    enabled: bool,
    rules_file: Option<String>,
    loaded: Option<Alerts>,
}

impl AlertOptions {
    pub(super) fn from_settings(settings: &Settings) -> Result<AlertOptions, String> {
        let enabled = settings.get("alerts.enabled") != Some("false");
        let rules_file = settings.get("alerts.rulesFile").map(str::to_owned);
        if !enabled && rules_file.is_some() {
            return Err(
                "BadValue: alerts.rulesFile (--alertRules) needs alerts, which are off by \
                        alerts.enabled: false (--noalerts)"
                    .to_owned(),
            );
        }
        Ok(AlertOptions { enabled, rules_file, loaded: None })
    }

    /// Reads the rules.
    ///
    /// # Errors
    /// What is wrong with the file, with its name.
    pub(crate) fn load(&mut self) -> Result<(), String> {
        if !self.enabled {
            return Ok(());
        }
        let alerts = match &self.rules_file {
            None => Alerts::default(),
            Some(path) => read(path).map_err(|why| {
                format!("BadValue: alerts.rulesFile (--alertRules): {path}: {why}")
            })?,
        };
        self.loaded = Some(alerts);
        Ok(())
    }

    /// The rules that were read; `None` if alerts are off.
    pub(crate) fn loaded(&self) -> Option<Alerts> {
        self.loaded.clone()
    }
}

fn read(path: &str) -> Result<Alerts, String> {
    let bytes = nagi_http::small_file(path, BYTES_MAX).map_err(|why| {
        // The path is said already.
        why.strip_prefix(&format!("{path}: ")).map_or(why.clone(), str::to_owned)
    })?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let alerts = parse(&text)?;
    if alerts.runs_commands() {
        let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
        let user = rustix::process::geteuid().as_raw();
        may_name_programs(path, about.uid(), about.mode(), user)?;
    }
    Ok(alerts)
}

/// Refuses a file that others than the server's user and root may write: they would run programs as the server's user.
fn may_name_programs(path: &str, owner: u32, mode: u32, user: u32) -> Result<(), String> {
    if owner != user && owner != 0 {
        return Err(format!(
            "it names programs that the server runs, so the server's user or root must own it, but its owner is user \
             {owner}: chown {user} {path}"
        ));
    }
    if mode & 0o022 != 0 {
        return Err(format!(
            "it names programs that the server runs, so only its owner may write it, but it has mode {:o}: \
             chmod go-w {path}",
            mode & 0o7777
        ));
    }
    Ok(())
}

fn parse(text: &str) -> Result<Alerts, String> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if text.contains('\0') {
        return Err("it contains a NUL byte".to_owned());
    }
    let lines = lines::of(text);
    if let Some(line) = lines.too_deep {
        return Err(format!("line {line}: it is nested deeper than {DEPTH_MAX}"));
    }
    if lines.expanded_bytes > BYTES_MAX * 2 {
        return Err("its values, with those that its aliases repeat, are too large".to_owned());
    }
    if let Some((key, line)) = lines.duplicate {
        return Err(format!("line {line}: duplicate key '{key}'"));
    }
    if let Some(line) = lines.second_document {
        return Err(format!("line {line}: a second document begins"));
    }
    let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
    let root = match documents.first() {
        None | Some(Yaml::Null) => &Yaml::Hash(Default::default()),
        Some(root @ Yaml::Hash(_)) => root,
        Some(_) => return Err("the top level is not a map".to_owned()),
    };
    check(root, 0)?;
    let body = JsonWriter::file(|out| write(root, out));
    let body = json::parse(&body).map_err(|error| error.to_string())?;
    Alerts::parse(body.as_doc())
}

/// Refuses what has no place in rules, so that [`write`] meets none of it.
fn check(node: &Yaml, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("it is nested deeper than {DEPTH_MAX}"));
    }
    match node {
        Yaml::Hash(map) => map.iter().try_for_each(|(name, value)| match name.as_str() {
            Some(name) if name.starts_with('$') => Err(format!("unknown name '{name}'")),
            Some(_) => check(value, depth + 1),
            None => Err("a name is not a text; write it in quotes".to_owned()),
        }),
        Yaml::Array(list) => list.iter().try_for_each(|value| check(value, depth + 1)),
        Yaml::Alias(_) | Yaml::BadValue => Err("it has a value that cannot be read".to_owned()),
        _ => Ok(()),
    }
}

fn write(node: &Yaml, out: &mut JsonWriter<'_>) {
    match node {
        Yaml::Hash(map) => out.object(|out| {
            for (name, value) in map {
                write(value, out.key(name.as_str().unwrap_or_default()));
            }
        }),
        Yaml::Array(list) => out.array(|out| list.iter().for_each(|value| write(value, out))),
        Yaml::String(text) => out.string(text),
        Yaml::Integer(number) => out.literal(number),
        Yaml::Real(text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => out.literal(number),
            _ => out.string(text),
        },
        Yaml::Boolean(flag) => out.literal(flag),
        Yaml::Null | Yaml::Alias(_) | Yaml::BadValue => out.literal("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_everything() {
        let text = "
builtIn:
  stall: {above: 500, for: 5s}
  backup age: false
actions:
  page:
    command: [/bin/true, --urgent]
  chat: {webhook: 'https://chat.example.com/x', headers: {Authorization: 'Bearer abc'}}
defaultActions: [chat]
repeat: 1h
rules:
  - name: many connections
    figure: connections.current
    above: 4000
    for: 1m
    severity: critical
    actions: [page, chat]
";
        let alerts = parse(text).unwrap();
        assert!(alerts.runs_commands());
        assert!(!parse("").unwrap().runs_commands());
        assert!(!parse("# nothing\n").unwrap().runs_commands());
    }

    #[test]
    fn who_may_name_programs() {
        let allowed = |owner, mode| may_name_programs("/r", owner, mode, 105);
        assert_eq!(allowed(105, 0o100_600), Ok(()));
        assert_eq!(allowed(0, 0o100_644), Ok(()));
        assert!(allowed(65_534, 0o100_600).unwrap_err().contains("chown 105 /r"));
        assert!(allowed(105, 0o100_620).unwrap_err().contains("chmod go-w /r"));
        assert!(allowed(0, 0o100_602).unwrap_err().contains("chmod go-w /r"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("rules: [\n", ""),
            ("- a\n", "not a map"),
            ("a: 1\n", "unknown name 'a'"),
            ("rules: []\nrules: []\n", "line 2: duplicate key"),
            ("{}\n---\n{}\n", "second document"),
            ("1: 2\n", "not a text"),
            ("$date: 5\n", "unknown name"),
            ("rules:\n- name: r\n  figure: sessions\n  above: .inf\n", "above: expected a number"),
            ("rules: \0\n", "NUL"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let deep = format!("rules: {}{}\n", "[".repeat(30), "]".repeat(30));
        assert!(parse(&deep).unwrap_err().contains("nested"));
        for deep in ["- ".repeat(10_472), "? ".repeat(9_130)] {
            assert!(parse(&deep).unwrap_err().contains("nested"));
        }
        assert!(parse(&format!("a: {}", "[".repeat(50_000))).is_err());
        let bomb = "a: &a [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x]\n"
            .to_owned()
            + "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
            + "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
            + "d: [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n";
        assert!(parse(&bomb).unwrap_err().contains("too large"));
    }
}
