//! The text of `nagi --help`: the commands, then every accepted option of the table.

use super::table::{Honoured, Kind, Row, TABLE};

/// The commands and their descriptions.
const COMMANDS: &[(&str, &str)] = &[
    ("serve [options]", "runs a server; also what nagi does without a command"),
    ("doctor [options]", "checks the machine and the data directory; doctor --help"),
    ("backup [options]", "copies a running server's data; backup --help"),
    ("restore [options]", "makes a data directory of a backup; restore --help"),
    ("ping [options]", "checks that a server answers; ping --help"),
    ("version", "prints the version"),
    ("help [COMMAND]", "prints this text, or the help of a command"),
];

/// The options that most servers need, in the order of the text.
const COMMON: &[&str] = &[
    "dbpath",
    "port",
    "bind_ip",
    "config",
    "auth",
    "replSet",
    "initiate",
    "cacheSizeGB",
    "storageEngine",
    "logpath",
    "fork",
];

/// The other options by group: heading, and the first part of their keys in a file. The first group has the options
/// without a section.
const GROUPS: &[(&str, &str)] = &[
    ("General", ""),
    ("Network", "net"),
    ("Storage", "storage"),
    ("Log", "systemLog"),
    ("Security", "security"),
    ("Replication", "replication"),
    ("Profiler", "operationProfiling"),
    ("Process", "processManagement"),
    ("Cloud", "cloud"),
];

/// Short forms of flags.
pub(super) const SHORT: &[(&str, &str)] = &[("config", "-f"), ("help", "-h"), ("verbose", "-v")];

/// The descriptions of options: flag, placeholder of a free-text value, description.
#[rustfmt::skip]
const MEANINGS: &[(&str, &str, &str)] = &[
    ("auth", "", "clients must log in"),
    ("bind_ip", "<address,...>", "addresses to listen at; the default is localhost"),
    ("bind_ip_all", "", "listen at all addresses"),
    ("cacheCompressor", "", "compressor of blocks that leave the cache; the default is lz4"),
    ("cacheSizeGB", "", "memory of the whole server in GiB"),
    ("cacheWarmUp", "", "fill the cache after the start; the default is true"),
    ("clusterAuthMode", "", "how members of a cluster log in"),
    ("config", "<file>", "configuration file: YAML, or lines name=value"),
    ("configExpand", "", "expansion of values in the configuration file"),
    ("dbpath", "<directory>", "data directory; the default is /data/db"),
    ("directIO", "", "read data files past the page cache; the default is true"),
    ("directoryperdb", "", "no effect: all databases share one engine's files"),
    ("enableEncryption", "", "encryption of data files"),
    ("enableFreeMonitoring", "", "MongoDB's free monitoring, which has ended"),
    ("enableMajorityReadConcern", "", "read concern \"majority\""),
    ("filePermissions", "<mode>", "mode of the Unix socket in octal, such as 0700"),
    ("fork", "", "run in the background; needs --logpath or --syslog"),
    ("help", "", "print this text"),
    ("initiate", "", "initiate the replica set with this server as its only member, at the first start"),
    ("inMemorySizeGB", "", "most data of --storageEngine inMemory in GiB"),
    ("ipv6", "", "also listen at IPv6 addresses"),
    ("journal", "", "no effect: writes are always journaled"),
    ("journalCommitInterval", "", "milliseconds between writes of the journal to disk"),
    ("journalOptions", "", "MMAPv1's flags for debugging the journal"),
    ("keyFile", "<file>", "key file of the replica set; turns --auth on"),
    ("listenBacklog", "", "connections that may wait to be accepted"),
    ("logappend", "", "append to an existing log file"),
    ("logpath", "<file>", "log file; the default is standard output"),
    ("logRotate", "", "what logRotate does: rename the file, or reopen it"),
    ("maxConns", "", "most connections at a time"),
    ("networkMessageCompressors", "<name,...>", "snappy, zstd, zlib in order of preference, or disabled"),
    ("noauth", "", "clients need not log in (the default)"),
    ("nojournal", "", "no effect: writes are always journaled"),
    ("noprealloc", "", "mmapv1: data files do not grow ahead of need"),
    ("noscripting", "", "refuse JavaScript"),
    ("notablescan", "", "refuse queries that scan a whole collection"),
    ("nounixsocket", "", "do not listen at a Unix socket"),
    ("nssize", "", "no effect: there are no namespace files"),
    ("objcheck", "", "check the documents of clients"),
    ("oplogMinRetentionHours", "", "how long entries of the oplog are kept at least"),
    ("oplogSize", "", "size of a new oplog; the default is 5 % of the free space, 990 to 51200"),
    ("pidfilepath", "<file>", "file for the process id"),
    ("port", "", "TCP port; the default is 27017"),
    ("profile", "", "profiler: 0 off, 1 slow operations, 2 all operations"),
    ("quiet", "", "log less of connections, logins and drops"),
    ("quota", "", "limit of the files of a database"),
    ("redactClientLogData", "", "leave clients' data out of the log"),
    ("repair", "", "save what can be read of a damaged data directory, then exit"),
    ("replSet", "<name>", "name of the replica set, whose only member the server is"),
    ("serviceExecutor", "", "how threads serve connections"),
    ("setParameter", "<name=value>", "set a server parameter; may be repeated"),
    ("shutdown", "", "stop the server of --dbpath"),
    ("slowms", "", "milliseconds from which an operation is logged as slow"),
    ("slowOpSampleRate", "", "share of the slow operations that is logged"),
    ("smallfiles", "", "mmapv1: data files grow in smaller steps"),
    ("sslMode", "", "TLS; older name of --tlsMode"),
    ("storageEngine", "", "engine of a new data directory; the default is wiredTiger"),
    ("syncdelay", "", "mmapv1: seconds between writes of the data file"),
    ("syslog", "", "log to the system's log"),
    ("syslogFacility", "<name>", "facility of messages to the system's log; the default is user"),
    ("timeStampFormat", "", "times in the log: local or UTC"),
    ("timeZoneInfo", "<directory>", "accepted; the time zones are built in"),
    ("tlsFIPSMode", "", "FIPS mode of TLS"),
    ("tlsMode", "", "TLS"),
    ("traceExceptions", "", "log every exception's stack"),
    ("transitionToAuth", "", "serve clients with and without login"),
    ("transportLayer", "", "implementation of the network layer"),
    ("unixSocketPrefix", "<directory>", "directory of the Unix socket; the default is /tmp"),
    ("verbose", "", "verbosity of the log; -vv is 2"),
    ("version", "", "print the version"),
    ("wiredTigerCacheSizeGB", "", "as --cacheSizeGB"),
    ("wiredTigerCacheSizePct", "", "memory of the whole server in percent of the machine's"),
    ("wiredTigerCollectionBlockCompressor", "", "compressor of documents"),
    ("wiredTigerCollectionConfigString", "<k=v,...>", "block_compressor of documents"),
    ("wiredTigerDirectoryForIndexes", "", "no effect: indexes are stored in the engine's files"),
    ("wiredTigerEngineConfigString", "<k=v,...>", "cache_size, log=(compressor=...)"),
    ("wiredTigerIndexConfigString", "<k=v,...>", "block_compressor of indexes"),
    ("wiredTigerIndexPrefixCompression", "", "no effect: index keys are always prefix-compressed"),
    ("wiredTigerJournalCompressor", "", "compressor of the journal; only zstd has an effect"),
    ("wiredTigerMaxCacheOverflowFileSizeGB", "", "limit of a cache overflow file"),
    ("wiredTigerStatisticsLogDelaySecs", "", "seconds between statistics in a file"),
    ("zstdDefaultCompressionLevel", "", "level of zstd"),
];

/// The width of the column with flag and value.
const INDENT: usize = 44;

/// The whole text.
pub(crate) fn text() -> String {
    let mut text = String::from("nagi COMMAND [options]\n\nCommands:\n");
    for (command, meaning) in COMMANDS {
        push_line(&mut text, command, meaning);
    }
    text.push_str(
        "\nOptions of serve, as mongod's; docs/configuration.md has their names in a file.\n\nCommon:\n",
    );
    for flag in COMMON {
        TABLE.iter().filter(|row| row.flag == *flag).for_each(|row| push_option(&mut text, row));
    }
    for (heading, section) in GROUPS {
        text.push_str(&format!("\n{heading}:\n"));
        let rows = TABLE.iter().filter(|row| is_taken(row) && group(row) == *section);
        rows.filter(|row| !COMMON.contains(&row.flag)).for_each(|row| push_option(&mut text, row));
    }
    text
}

/// The names of the commands.
pub(super) fn command_names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().filter_map(|(usage, _)| usage.split(' ').next())
}

/// The first part of an option's key; empty for options without a section.
fn group(row: &Row) -> &'static str {
    row.key.split_once('.').map_or("", |(section, _)| section)
}

fn push_option(text: &mut String, row: &Row) {
    let (placeholder, meaning) = meaning(row.flag).unwrap_or(("<text>", ""));
    let short = SHORT.iter().find(|(flag, _)| *flag == row.flag);
    let short = short.map(|(_, short)| format!("{short}, ")).unwrap_or_default();
    let value = match row.implied {
        Some(_) => String::new(),
        None => format!(" {}", value(row.kind, placeholder)),
    };
    let meaning = match row.honoured {
        Honoured::Only(values) => {
            format!("{meaning}; the only accepted value is {}", values.join(" or "))
        }
        _ => meaning.to_owned(),
    };
    push_line(text, &format!("{short}--{}{value}", row.flag), &meaning);
}

fn is_taken(row: &Row) -> bool {
    row.honoured != Honoured::No && !row.flag.is_empty()
}

fn meaning(flag: &str) -> Option<(&'static str, &'static str)> {
    let (_, placeholder, meaning) = MEANINGS.iter().find(|(name, ..)| *name == flag)?;
    Some((placeholder, meaning))
}

fn value(kind: Kind, placeholder: &str) -> String {
    match kind {
        Kind::Bool => "<true|false>".into(),
        Kind::Int(least, most) => format!("<{least}..{most}>"),
        Kind::Float(least, most) => format!("<{least}..{most}>"),
        Kind::OneOf(names) => format!("<{}>", names.join("|")),
        Kind::Text => placeholder.into(),
    }
}

/// A description continues the next line if the flag is too long.
fn push_line(text: &mut String, left: &str, meaning: &str) {
    let indent = INDENT;
    match left.len() + 3 <= INDENT {
        true => text.push_str(&format!("  {left:<width$}{meaning}\n", width = indent - 2)),
        false => text.push_str(&format!("  {left}\n{:indent$}{meaning}\n", "")),
    }
}

#[test]
fn every_option_has_a_line_of_help() {
    let help = text();
    for row in TABLE.iter().filter(|row| is_taken(row)) {
        let (placeholder, meaning) = meaning(row.flag).unwrap_or_default();
        assert!(!meaning.is_empty(), "--{} has no meaning in MEANINGS", row.flag);
        let is_free = row.kind == Kind::Text && row.implied.is_none();
        assert_eq!(is_free, !placeholder.is_empty(), "--{}: placeholder", row.flag);
        let options = help.lines().filter(|line| line.trim_start().starts_with('-'));
        let lines = options.filter(|line| {
            let mut words = line.split(' ').filter(|word| !word.is_empty());
            words.find(|word| word.starts_with("--")) == Some(&format!("--{}", row.flag))
        });
        assert_eq!(lines.count(), 1, "--{}", row.flag);
    }
    for (flag, ..) in MEANINGS {
        assert!(
            TABLE.iter().any(|row| row.flag == *flag && is_taken(row)),
            "--{flag} is not an option"
        );
    }
    assert!(MEANINGS.is_sorted_by_key(|(flag, ..)| flag.to_lowercase()));
    for name in [
        "help",
        "-f, --config <file>",
        "-v, --verbose <0..5>",
        "doctor",
        "backup",
        "restore",
        "version",
    ] {
        assert!(help.contains(name), "{name}");
    }
}
