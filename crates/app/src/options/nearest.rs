//! Suggests the known name that is most similar to an unknown one.

use super::table::{Honoured, Row, TABLE};

/// No option has a longer name: this bounds the cost of a comparison.
const NAME_BYTES_MAX: usize = 80;

/// "; did you mean '--port'?" for a flag without dashes; empty if no name is similar.
pub(super) fn flag(name: &str) -> String {
    let known = TABLE.iter().filter(|row| is_taken(row) && !row.flag.is_empty());
    let names = known.flat_map(|row| [(row.flag, row), (row.key, row)]);
    question(nearest(name, names).map(|row| format!("--{}", row.flag)))
}

/// "; did you mean 'net.port'?" for a key of a file; empty if no name is similar.
pub(super) fn key(name: &str) -> String {
    let known = || TABLE.iter().filter(|row| is_taken(row) && row.in_file());
    let whole = nearest(name, known().flat_map(|row| [(row.key, row), (row.flag, row)]));
    // The right name in a wrong section.
    let last = || nearest(last_part(name), known().map(|row| (last_part(row.key), row)));
    question(whole.or_else(last).map(|row| row.key.to_owned()))
}

/// The section of a file that a name may stand for: a similar name, or one of which the other is the beginning.
pub(super) fn section(name: &str, known: &[&'static str]) -> String {
    let lower = name.to_lowercase();
    let (above, last) = lower.rsplit_once('.').map_or(("", lower.as_str()), |(a, b)| (a, b));
    let begins = |section: &&&str| {
        let section = section.to_lowercase();
        let (beside, other) =
            section.rsplit_once('.').map_or(("", section.as_str()), |(a, b)| (a, b));
        let shorter = last.len().min(other.len());
        beside == above && shorter >= 3 && (last.starts_with(other) || other.starts_with(last))
    };
    let similar = nearest(name, known.iter().map(|section| (*section, *section)));
    question(similar.or_else(|| known.iter().find(begins).copied()).map(str::to_owned))
}

/// What another program calls a command, and what it is here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("repair", "nagi serve --repair --dbpath DIR repairs a data directory"),
    ("shutdown", "nagi serve --shutdown --dbpath DIR stops a server"),
    ("stop", "nagi serve --shutdown --dbpath DIR stops a server"),
    ("start", "nagi serve --dbpath DIR starts a server"),
    ("verify", "nagi backup --verify DIR verifies a backup"),
];

/// "; did you mean 'serve'?" for a command, or what to call instead.
pub(super) fn command(name: &str) -> String {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == name) {
        return format!("; {instead}");
    }
    let commands = super::help::command_names().map(|name| (name, name));
    question(nearest(name, commands).map(str::to_owned))
}

/// "; did you mean '--quick'?" for an option of another command than `serve`.
pub(super) fn option(name: &str, known: &[&str]) -> String {
    question(nearest(name, known.iter().map(|name| (*name, *name))).map(str::to_owned))
}

/// "; did you mean 'ttlMonitorEnabled'?" for a server parameter.
pub(super) fn parameter(name: &str) -> String {
    let names = nagi_server::parameter_names().map(|name| (name, name));
    question(nearest(name, names).map(str::to_owned))
}

fn question(name: Option<String>) -> String {
    name.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

fn is_taken(row: &Row) -> bool {
    row.honoured != Honoured::No
}

fn last_part(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, last)| last)
}

fn nearest<'a, T>(name: &str, known: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let most = (last_part(&name).len() / 3).clamp(1, 3);
    let scored = known
        .filter(|(known, _)| !known.is_empty())
        .map(|(known, meant)| (distance(name.as_bytes(), known.to_lowercase().as_bytes()), meant));
    scored.filter(|(far, _)| *far <= most).min_by_key(|(far, _)| *far).map(|(_, meant)| meant)
}

/// The edit distance: insertions, deletions, replacements and swaps of adjacent characters.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[test]
fn nearest_names() {
    for (name, known) in [
        ("prot", "--port"),
        ("dbPath", "--dbpath"),
        ("bindip", "--bind_ip"),
        ("net.port", "--port"),
        ("wiredTigerCacheSizeGb", "--wiredTigerCacheSizeGB"),
    ] {
        assert_eq!(flag(name), format!("; did you mean '{known}'?"), "{name}");
    }
    for (name, known) in [
        ("net.prot", "net.port"),
        ("net.bindip", "net.bindIp"),
        ("dbPath", "storage.dbPath"),
        ("bind_ip", "net.bindIp"),
        ("storge.dbPath", "storage.dbPath"),
        ("net.replSetName", "replication.replSetName"),
    ] {
        assert_eq!(key(name), format!("; did you mean '{known}'?"), "{name}");
    }
    let sections = ["net", "storage", "systemLog", "storage.wiredTiger"];
    for (name, known) in [
        ("systemlog", "systemLog"),
        ("Storage", "storage"),
        ("network", "net"),
        ("system", "systemLog"),
        ("storage.WiredTigr", "storage.wiredTiger"),
    ] {
        assert_eq!(section(name, &sections), format!("; did you mean '{known}'?"), "{name}");
    }
    assert_eq!(section("users", &sections), "");
    assert_eq!(command("serv"), "; did you mean 'serve'?");
    assert_eq!(command("dance"), "");
    assert_eq!(option("--quik", &["--json", "--quick"]), "; did you mean '--quick'?");
    let repair = "; nagi serve --repair --dbpath DIR repairs a data directory";
    assert_eq!(command("repair"), repair);
    assert_eq!(parameter("ttlMonitorEnable"), "; did you mean 'ttlMonitorEnabled'?");
    for name in ["entirely", "x", &"y".repeat(1000)] {
        assert_eq!((flag(name), key(name)), (String::new(), String::new()), "{name}");
    }
}
