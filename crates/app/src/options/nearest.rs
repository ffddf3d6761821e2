//! Suggests the known name that is most similar to an unknown one.

use nagi_error::nearest;

use super::table::{Honoured, Row, TABLE};

/// "; did you mean '--port'?" for a flag without dashes; empty if no name is similar.
pub(super) fn flag(name: &str) -> String {
    question(flag_of(name))
}

/// The most similar flag, with its dashes.
pub(super) fn flag_of(name: &str) -> Option<String> {
    let known = TABLE.iter().filter(|row| is_taken(row) && !row.flag.is_empty());
    let names = known.flat_map(|row| [(row.flag, row), (row.key, row)]);
    nearest(name, names).map(|row| format!("--{}", row.flag))
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

/// "; did you mean '--quick'?" for an option of another command than `serve`.
pub(super) fn option(name: &str, known: &[&str]) -> String {
    question(nearest(name, known.iter().map(|name| (*name, *name))).map(str::to_owned))
}

/// "; did you mean 'ttlMonitorEnabled'?" for a server parameter.
pub(super) fn parameter(name: &str) -> String {
    question(nagi_server::similar_parameter(name).map(str::to_owned))
}

/// What to write instead of a server parameter that is given as an option, in the form that `write` returns; `None` if
/// there is no such parameter.
pub(super) fn parameter_as_option(name: &str, write: fn(&str) -> String) -> Option<String> {
    let known = nagi_server::parameter_names().find(|known| known.eq_ignore_ascii_case(name))?;
    Some(format!("; {known} is a server parameter: {}", write(known)))
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
    assert_eq!(option("--quik", &["--json", "--quick"]), "; did you mean '--quick'?");
    assert_eq!(parameter("ttlMonitorEnable"), "; did you mean 'ttlMonitorEnabled'?");
    for name in ["entirely", "x", &"y".repeat(1000)] {
        assert_eq!((flag(name), key(name)), (String::new(), String::new()), "{name}");
    }
}
