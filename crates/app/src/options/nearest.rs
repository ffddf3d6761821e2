//! Suggests the known name that is most similar to an unknown one.

use nagi_error::nearest;

use super::table::{Honoured, Row, TABLE};

/// Names of other programs and short forms, whose spelling is not near that of the option that they mean: flags without
/// dashes, and keys of a file.
const MEANT: &[(&str, &str)] = &[
    ("authorization", "--auth"),
    ("certfile", "--tlsCertificateKeyFile"),
    ("keyfilepath", "--keyFile"),
    ("security.auth", "security.authorization"),
    ("ssl", "--tlsMode"),
    ("sslcertfile", "--tlsCertificateKeyFile"),
    ("tls", "--tlsMode"),
    ("tlscertfile", "--tlsCertificateKeyFile"),
    ("tlscertificatefile", "--tlsCertificateKeyFile"),
    ("tlscertkeyfile", "--tlsCertificateKeyFile"),
    ("tlskeyfile", "--tlsCertificateKeyFile"),
    ("tlspemkeyfile", "--tlsCertificateKeyFile"),
];

fn meant(name: &str) -> Option<&'static str> {
    let found = MEANT.iter().find(|(written, _)| written.eq_ignore_ascii_case(name));
    found.map(|(_, option)| *option)
}

/// "; did you mean '--port'?" for a flag without dashes; empty if no name is similar.
pub(super) fn flag(name: &str) -> String {
    question(flag_of(name))
}

/// The most similar flag, with its dashes.
pub(super) fn flag_of(name: &str) -> Option<String> {
    if let Some(option) = meant(name).filter(|option| option.starts_with("--")) {
        return Some(option.to_owned());
    }
    let known = TABLE.iter().filter(|row| is_taken(row) && !row.flag.is_empty());
    let names = known.flat_map(|row| [(row.flag, row), (row.key, row)]);
    nearest(name, names).map(|row| format!("--{}", row.flag))
}

/// "; did you mean 'net.port'?" for a key of a file; empty if no name is similar.
pub(super) fn key(name: &str) -> String {
    if let Some(option) = meant(name).filter(|option| !option.starts_with("--")) {
        return question(Some(option.to_owned()));
    }
    // The names of `net.ssl` are the older ones.
    let known = || {
        let rows = || TABLE.iter().filter(|row| is_taken(row) && row.in_file());
        let is_old = |row: &&Row| row.key.starts_with("net.ssl.");
        rows().filter(move |row| !is_old(row)).chain(rows().filter(is_old))
    };
    if let Some(longer) = begins_within(name, known()) {
        return question(Some(longer.to_owned()));
    }
    let whole = nearest(name, known().flat_map(|row| [(row.key, row), (row.flag, row)]));
    // The right name in a wrong section.
    let last = || nearest(last_part(name), known().map(|row| (last_part(row.key), row)));
    question(whole.or_else(last).map(|row| row.key.to_owned()))
}

/// The key of the same section that is most similar to a name.
pub(super) fn key_of_section(name: &str) -> Option<&'static str> {
    let (section, _) = name.rsplit_once('.')?;
    let within = |row: &&Row| row.key.rsplit_once('.').is_some_and(|(own, _)| own == section);
    let known = || TABLE.iter().filter(|row| is_taken(row) && row.in_file()).filter(within);
    let near = || nearest(name, known().map(|row| (row.key, row))).map(|row| row.key);
    begins_within(name, known()).or_else(near)
}

/// The key of the same section whose last part begins as the name's, or the other way round.
fn begins_within(name: &str, known: impl Iterator<Item = &'static Row>) -> Option<&'static str> {
    let (section, last) = name.rsplit_once('.')?;
    let begins = |row: &&'static Row| {
        let other = last_part(row.key);
        let shorter = last.len().min(other.len());
        shorter >= 4
            && row.key.len() - other.len() == section.len() + 1
            && row.key.starts_with(section)
            && last.as_bytes()[..shorter].eq_ignore_ascii_case(&other.as_bytes()[..shorter])
    };
    known.filter(begins).map(|row| row.key).min_by_key(|key| key.len())
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
        ("tlsCertFile", "--tlsCertificateKeyFile"),
        ("tls", "--tlsMode"),
        ("authorization", "--auth"),
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
        ("net.mode", "net.tls.mode"),
        ("security.kmip.server", "security.kmip.serverName"),
        ("security.auth", "security.authorization"),
        ("auditLog.destinations", "auditLog.destination"),
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
