//! Options: mongod's flags and mongod's configuration file, with one table for both.
//!
//! ```text
//!   command line --\
//!                   > settings by YAML key --> checked against the table --> `Options`
//!   -f FILE -------/
//! ```
//!
//! An option of MongoDB that Nagi does not honour is refused, unless its value is what Nagi does anyway. The command
//! line takes precedence over the file.

mod about;
mod alerts;
mod audit;
mod cache;
mod cluster;
mod compression;
mod encryption;
mod expansion;
mod file;
mod ldap;
mod line;
mod lines;
mod nearest;
mod notes;
mod open_telemetry;
mod remarks;
mod table;
mod tls;
mod typed;

pub(crate) use about::{About, SHORT, about, more};
pub(crate) use cluster::missing as missing_cluster;
pub(crate) use compression::Compression;
pub(crate) use encryption::{EncryptionOptions, KeyPlace, KeySource, KmipOptions, not_with};
pub(crate) use notes::refusal;
pub(crate) use open_telemetry::OtlpSettings;
pub(crate) use table::{Honoured, Kind, Row, TABLE};
pub(crate) use tls::{HIDDEN, PASSWORD_FLAGS};
pub(crate) use typed::{
    COMPRESSORS_KEY, ConsoleOptions, MESSAGE_COMPRESSORS, MappedOptions, Options,
};

use std::collections::BTreeMap;

use zeroize::Zeroize;

/// Values by YAML key, as text, and parameters by name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, String>,
    parameters: BTreeMap<String, String>,
    /// The lines of dotted keys in the configuration file, for messages.
    lines: BTreeMap<String, usize>,
    /// The lines of the configuration file whose `//` remarks were skipped.
    remark_lines: Vec<usize>,
    /// The flag that set a key: `--auth` and `--noauth` set the same key.
    flags: BTreeMap<&'static str, &'static str>,
}

impl Drop for Settings {
    fn drop(&mut self) {
        // The typed options have copies that are zeroed, too.
        self.values
            .iter_mut()
            .filter(|(key, _)| tls::is_secret(key))
            .for_each(|(_, v)| v.zeroize());
    }
}

/// The request of the command line.
#[derive(Debug)]
pub(crate) enum Request {
    Serve(Box<Options>),
    /// `--shutdown`: stop the server of this data directory.
    Shutdown(Box<Options>),
    Help,
    Version,
}

/// "; did you mean '--quick'?" for an unknown option of a command other than `serve`.
pub(crate) fn meant_option(name: &str, known: &[&str]) -> String {
    nearest::option(name, known)
}

/// The flag of `serve` that is most similar to a name without dashes, or to a key.
pub(crate) fn nearest_option(name: &str) -> Option<String> {
    nearest::flag_of(name)
}

/// Checks the values of server parameters. The error is a text for the user.
pub(crate) fn check_parameters(options: &Options) -> Result<(), String> {
    for parameter in &options.parameters {
        nagi_server::check_parameters(std::slice::from_ref(parameter)).map_err(|error| {
            let name = parameter.0.as_str();
            let is_known = nagi_server::parameter_names().any(|known| known == name);
            let meant = if is_known { String::new() } else { nearest::parameter(name) };
            options.at_parameter(name, &format!("{}{meant}", error.message()))
        })?;
    }
    Ok(())
}

impl Options {
    /// Adds to an error about a server parameter where the configuration file has it, unless a flag set it.
    pub(crate) fn at_parameter(&self, name: &str, text: &str) -> String {
        let Some(line) = self.parameter_lines.get(name) else { return text.to_owned() };
        // MongoDB's texts name the flag.
        let text = match text.strip_prefix("Unknown --setParameter ") {
            Some(rest) => format!("Unknown parameter in setParameter: {rest}"),
            None => text.replace("--setParameter", "setParameter"),
        };
        file::with_line(&text, Some(*line))
    }
}

/// Reads the command line and the configuration file. The error is a text for standard error.
pub(crate) fn read(args: &[String]) -> Result<Request, String> {
    let mut settings = Settings::default();
    line::read(args, &mut settings)?;
    for (key, request) in [("help", Request::Help), ("version", Request::Version)] {
        if settings.is_on(key) {
            return Ok(request);
        }
    }
    if let Some(path) = settings.get("config").map(str::to_owned) {
        let mut from_file = Settings::default();
        file::read(&path, &mut from_file)?;
        settings.add_missing(from_file);
    }
    settings.refuse_unhonoured()?;
    let options = typed::from_settings(&settings).map_err(|text| settings.at_named_key(&text))?;
    let options = Box::new(options);
    Ok(match settings.is_on("shutdown") {
        true => Request::Shutdown(options),
        false => Request::Serve(options),
    })
}

impl Settings {
    fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    /// Checks and stores a value.
    fn set(&mut self, row: &'static Row, value: &str) -> Result<(), String> {
        let value = row.kind.check(value).map_err(|expected| {
            format!("Error: option {} has the bad value '{value}': {expected}", row.names())
        })?;
        if let Some((flag, before)) = self.values.get(row.key).map(|value| (self.flag(row), value))
            && *before != value
        {
            return Err(match flag == row.flag {
                true => format!(
                    "Error: option {} has two values: '{before}' and '{value}'",
                    row.names()
                ),
                false => {
                    format!("Error: options '--{flag}' and '--{}' contradict each other", row.flag)
                }
            });
        }
        self.values.insert(row.key, value);
        self.flags.insert(row.key, row.flag);
        Ok(())
    }

    /// The flag that set the key of a row.
    fn flag(&self, row: &Row) -> &'static str {
        self.flags.get(row.key).copied().unwrap_or(row.flag)
    }

    /// Stores a parameter.
    fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some((other, before)) = self.other_name(name).filter(|(_, before)| *before != value)
        {
            return Err(format!(
                "Error: setParameter has two values for {name}, whose other name is {other}: '{before}' \
                 and '{value}'"
            ));
        }
        match self.parameters.insert(name.to_owned(), value.to_owned()) {
            Some(before) if before != value => Err(format!(
                "Error: setParameter has two values for {name}: '{before}' and '{value}'"
            )),
            _ => Ok(()),
        }
    }

    /// The value that is set for the other name of a renamed parameter, with that name.
    fn other_name(&self, name: &str) -> Option<(&'static str, &str)> {
        let other = nagi_server::other_parameter_name(name)?;
        Some((other, self.parameters.get(other)?))
    }

    /// Adds the settings of the configuration file that the command line does not have.
    fn add_missing(&mut self, mut other: Settings) {
        self.lines = std::mem::take(&mut other.lines);
        self.remark_lines = std::mem::take(&mut other.remark_lines);
        for (key, value) in std::mem::take(&mut other.values) {
            if let Some(set) = self.values.get(key) {
                // The message must not blame the file for a value of the command line.
                if *set != value {
                    self.lines.remove(key);
                }
                continue;
            }
            self.values.insert(key, value);
        }
        for (name, value) in std::mem::take(&mut other.parameters) {
            if self.parameters.get(&name).is_some_and(|set| *set != value) {
                self.lines.remove(&format!("setParameter.{name}"));
            }
            if self.other_name(&name).is_none() {
                self.parameters.entry(name).or_insert(value);
            }
        }
    }

    /// Adds the line of the configuration file that sets a key, if it does.
    fn at_key(&self, key: &str, text: &str) -> String {
        file::with_line(text, self.lines.get(key).copied())
    }

    /// Adds the line of the longest key that an error names.
    fn at_named_key(&self, text: &str) -> String {
        let named = self.values.keys().filter(|key| text.contains(**key));
        named.max_by_key(|key| key.len()).map_or(text.to_owned(), |key| self.at_key(key, text))
    }

    fn refuse_unhonoured(&self) -> Result<(), String> {
        for row in TABLE {
            let Some(value) = self.get(row.key) else { continue };
            let why = notes::refusal(row.key);
            match row.honoured {
                Honoured::Yes | Honoured::Instead { .. } => {}
                Honoured::Only(accepted) if accepted.contains(&value) => {}
                Honoured::Only(accepted) => {
                    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                    let text = format!(
                        "Error: option {} is known but Nagi does not support the value '{value}' \
                         (supported: {}){why}",
                        row.names(),
                        accepted.join(", ")
                    );
                    return Err(self.at_key(row.key, &text));
                }
                Honoured::No => {
                    let advice = why.map_or("remove it to start".to_owned(), notes::advice);
                    let text = format!(
                        "Error: option {} is known but not honoured by Nagi; {advice}",
                        row.names()
                    );
                    return Err(self.at_key(row.key, &text));
                }
            }
        }
        Ok(())
    }

    /// Notes about configured values that have no effect, by option.
    fn notes(&self) -> Vec<(String, &'static str)> {
        let mut notes: Vec<(String, &'static str)> = Vec::new();
        for row in TABLE {
            if let (Some(value), Honoured::Instead { usual, note }) =
                (self.get(row.key), row.honoured)
                && !usual.contains(&value)
            {
                notes.push((row.names(), note));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use nagi_host::EngineKind;
    use nagi_server::LogDestination;

    use super::*;

    fn options(args: &[&str]) -> Result<Box<Options>, String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        match read(&args)? {
            Request::Serve(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_in_all_spellings() {
        let all = options(&[
            "--dbpath",
            "/d",
            "--port=27018",
            "--bind_ip",
            "localhost,::1",
            "-vv",
            "--ipv6",
            "--maxConns",
            "10",
            "--setParameter",
            "a=1",
            "--setParameter",
            "b=x=y",
            "--storageEngine",
            "inMemory",
            "--wiredTigerCacheSizeGB",
            "0.5",
            "--nounixsocket",
            "--noauth",
            "--slowms",
            "5",
        ])
        .unwrap();
        assert_eq!((all.db_path.as_str(), all.net.port), ("/d", 27018));
        assert_eq!(all.net.bind_ip, ["localhost", "::1"]);
        let parameters = [("logLevel", "2"), ("a", "1"), ("b", "x=y")];
        assert_eq!(all.parameters, parameters.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(all.cache_bytes, Some(1 << 29));
        assert_eq!((all.connection_count_max, all.slow_ms), (10, Some(5)));
        assert!(all.net.unix_socket_dir.is_none() && all.engine == EngineKind::Memory);
        assert!(all.direct_io && !options(&["--directIO", "false"]).unwrap().direct_io);
        assert!(!all.authorization && options(&["--auth"]).unwrap().authorization);
        assert!(options(&["--keyFile", "x"]).unwrap().authorization);
    }

    /// The file of an article of 2015, as it is printed there.
    #[test]
    fn a_file_with_remarks_of_javascript() {
        let text = "storage:\n   dbPath: data      //directory\n   engine: wiredTiger   //engine\n   \
                    journal:\n      enabled: false   //write-ahead log\n   wiredTiger:\n      \
                    engineConfig:\n         cacheSizeGB: 1   //limit\n";
        let mut settings = Settings::default();
        file::parse(text, &mut settings).unwrap();
        assert_eq!(settings.remark_lines, [2, 3, 5, 8]);
        assert_eq!(settings.get("storage.dbPath"), Some("data"));
        assert_eq!(settings.get("storage.wiredTiger.engineConfig.cacheSizeGB"), Some("1"));
        // mongod accepts this one, so it means the same here.
        let mut settings = Settings::default();
        file::parse("storage:\n  dbPath: /data //x\n", &mut settings).unwrap();
        assert_eq!(settings.get("storage.dbPath"), Some("/data //x"));
        assert!(settings.remark_lines.is_empty());
        let error = file::parse("storage: //x\n  engine: rock //y\n", &mut Settings::default())
            .unwrap_err();
        assert!(error.contains("bad value 'rock'") && error.contains("(line 2 of"), "{error}");
    }

    #[test]
    fn the_memory_has_two_names_and_a_share() {
        let bytes = |args: &[&str]| options(args).map(|all| all.cache_bytes);
        assert_eq!(bytes(&["--cacheSizeGB", "1.5"]), Ok(Some(3 << 29)));
        let both = ["--cacheSizeGB", "1", "--wiredTigerCacheSizeGB", "1"];
        assert_eq!(bytes(&both), Ok(Some(1 << 30)));
        assert!(bytes(&["--wiredTigerCacheSizePct", "50"]).unwrap() >= Some(256 << 20));
        for (args, text) in [
            (&["--cacheSizeGB", "1", "--wiredTigerCacheSizeGB", "2"][..], "have two values"),
            (&["--cacheSizeGB", "1", "--wiredTigerCacheSizePct", "5"], "cannot both be specified"),
            (&["--wiredTigerCacheSizePct", "81"], "bad value '81'"),
            (&["--cacheSizeGB", "0.24"], "from 0.25 to 10000"),
            (&["--wiredTigerCacheSizeGB", "10001"], "from 0.25 to 10000"),
            (&["--cacheSizeGB", "much"], "bad value 'much'"),
        ] {
            let error = bytes(args).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn engines_and_what_each_takes() {
        let by_name = |name: &str| options(&["--storageEngine", name]).unwrap().engine;
        assert_eq!(by_name("wiredTiger"), EngineKind::Embedded);
        assert_eq!(by_name("rocks"), EngineKind::Embedded);
        assert_eq!(by_name("mmapv1"), EngineKind::Mapped);
        assert_eq!(by_name("lmdb"), EngineKind::Mapped);
        let usual = options(&[]).unwrap();
        assert!(usual.engine == EngineKind::Embedded && !usual.engine_chosen);
        assert!(usual.mapped.prealloc && !usual.mapped.small_files);
        assert_eq!(usual.mapped.sync_period_secs, 60);
        let args = ["--noprealloc", "--smallfiles", "--nssize", "32", "--syncdelay", "5"];
        let mapped = options(&args).unwrap().mapped;
        assert!(!mapped.prealloc && mapped.small_files);
        assert_eq!((mapped.ns_size_mb, mapped.sync_period_secs), (Some(32), 5));
        let memory = options(&["--storageEngine", "inMemory", "--inMemorySizeGB", "0.5"]).unwrap();
        assert_eq!(memory.in_memory_bytes, Some(1 << 29));
    }

    #[test]
    fn what_is_not_honoured_is_refused() {
        for (args, text) in [
            (&["--foo"][..], "unrecognised option '--foo'"),
            (&["--dbPath", "x"], "unrecognised option '--dbPath'; did you mean '--dbpath'?"),
            (&["--port"], "required argument for option '--port' is missing"),
            (&["--port", "x"], "bad value 'x'"),
            (&["--port", "70000"], "bad value '70000'"),
            (&["--transitionToAuth"], "'security.transitionToAuth' (--transitionToAuth)"),
            (&["--replSet", "rs/other:27017"], "bad value 'rs/other:27017'"),
            (&["--replSet", "a/b"], "expected 1 to 128 bytes without '/'"),
            (&["--filePermissions", "abc"], "expected octal digits from 0 to 0777"),
            (&["--storageEngine", "mmapv2"], "bad value 'mmapv2'"),
            (&["--inMemorySizeGB", "0"], "bad value '0'"),
            (&["--nssize", "4096"], "bad value '4096'"),
            (&["--quota"], "does not support the value 'true'"),
            (&["--keyFile", "x", "--noauth"], "cannot disable authorization"),
            (&["--cacheCompressor", "snappy"], "bad value 'snappy'"),
            (&["--directIO", "maybe"], "bad value 'maybe'"),
            (&["stray"], "too many positional options"),
            (&["--wiredTigerCollectionBlockCompressor", "lzo"], "bad value 'lzo'"),
            (
                &["--wiredTigerCollectionConfigString", "foo=bar"],
                "unknown configuration key: 'foo'",
            ),
            (
                &["--wiredTigerIndexConfigString", "block_compressor=lzo"],
                "unknown compressor 'lzo'",
            ),
            (
                &["--wiredTigerEngineConfigString", "eviction=(threads_max=4)"],
                "is not supported by",
            ),
            (&["--auth", "--noauth"], "options '--auth' and '--noauth' contradict each other"),
            (&["--noauth", "--auth"], "options '--noauth' and '--auth' contradict each other"),
            (&["--syslog", "--logpath", "x"], "Can only set systemLog.path"),
            (&["--journal", "--nojournal"], "Can't specify both --journal and --nojournal"),
            (&["--port", "1", "--port", "2"], "(--port) has two values: '1' and '2'"),
            (&["--setParameter", "a=1", "--setParameter", "a=2"], "two values for a: '1' and '2'"),
            (
                &[
                    "--setParameter",
                    "wiredTigerConcurrentReadTransactions=10",
                    "--setParameter",
                    "storageEngineConcurrentReadTransactions=20",
                ],
                "whose other name is wiredTigerConcurrentReadTransactions: '10' and '20'",
            ),
            (&["--setParameter", "quiet = true"], "there is a blank before '=' after 'quiet'"),
            (
                &["--storageEngineConcurrentReadTransactions=4"],
                "; storageEngineConcurrentReadTransactions is a server parameter: use --setParameter \
                 storageEngineConcurrentReadTransactions=VALUE",
            ),
            (&["--networkMessageCompressors", "lz4"], "'lz4' (there are: snappy, zstd, zlib"),
            (&["--networkMessageCompressors", "snappy,disabled"], "'disabled' (there are"),
            (&["--timeZoneInfo", "/no/such"], "timeZoneInfo: /no/such: No such file"),
            (&["--syslog", "--syslogFacility", "loud"], "not 'loud': auth, authpriv, cron"),
            (&["--timeStampFormat", "ctime"], "expected one of iso8601-local, iso8601-utc"),
            (&["--profile", "3"], "expected one of 0, 1, 2, all, off, slowOp"),
            (&["--shardsvr"], "remove it to start: this server is not part of a sharded cluster"),
            (&["--wiredTigerJournalCompressor", "lz4"], "bad value 'lz4'"),
            (&["--zstdDefaultCompressionLevel", "23"], "bad value '23'"),
            (&["--fork"], "--fork has to be used with --logpath"),
        ] {
            let error = options(args).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn options_of_tls_belong_together() {
        for (args, text) in [
            (&["--tlsMode", "requireTLS"][..], "need tlsCertificateKeyFile"),
            (&["--tlsCAFile", "a.pem"], "need to enable TLS via the sslMode/tlsMode flag"),
            (&["--tlsFIPSMode", "true"], "(supported: false): the cryptographic library is not"),
            (&["--sslMode", "allowSSL", "--tlsMode", "requireTLS"], "have different values"),
            (&["--sslMode", "allowSSL", "--sslOnNormalPorts"], "both sslMode and sslOnNormalPorts"),
        ] {
            let error = options(args).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let old = options(&[
            "--sslOnNormalPorts",
            "--sslPEMKeyFile",
            "a.pem",
            "--sslPEMKeyPassword",
            "x",
        ]);
        let old = old.unwrap();
        let shown =
            |key: &str| old.parsed.iter().find(|(known, _)| known == key).unwrap().1.clone();
        assert_eq!(shown("net.ssl.PEMKeyPassword"), HIDDEN);
        assert_eq!(old.tls.unwrap().mode, nagi_server::TlsMode::Require);
        assert!(options(&["--tlsMode", "disabled"]).unwrap().tls.is_none());
    }

    /// Common options that change nothing here: the server starts and logs a warning.
    #[test]
    fn what_holds_instead_is_noted() {
        for (args, beginning) in [
            (&["--wiredTigerIndexPrefixCompression", "false"][..], "Index keys are always"),
            (&["--wiredTigerDirectoryForIndexes"], "Indexes lie in table files"),
            (&["--directoryperdb"], "All databases share the files"),
            (&["--nojournal"], "Writes are always journaled"),
        ] {
            let notes = options(args).unwrap().notes;
            assert_eq!(notes.len(), 1, "{args:?}");
            assert!(notes[0].1.starts_with(beginning) && notes[0].0.contains(args[0]), "{notes:?}");
        }
        for args in [&["--journal"][..], &["--wiredTigerIndexPrefixCompression", "true"]] {
            assert!(options(args).unwrap().notes.is_empty(), "{args:?}");
        }
        let all = options(&["--notablescan", "--profile", "2", "--networkMessageCompressors=zlib"]);
        let all = all.unwrap();
        assert_eq!((all.profile_level, &all.compressors[..]), (2, &["zlib".to_owned()][..]));
        assert_eq!(all.parameters, [("notablescan".to_owned(), "true".to_owned())]);
        let off = options(&["--networkMessageCompressors", "disabled"]).unwrap();
        assert!(off.compressors.is_empty() && !off.stamps_in_utc);
        assert_eq!(options(&[]).unwrap().compressors.len(), 3);
        assert!(options(&["--timeStampFormat", "iso8601-utc"]).unwrap().stamps_in_utc);
        let syslog = options(&["--syslog", "--syslogFacility", "local3", "--fork"]).unwrap();
        assert!(matches!(syslog.log, LogDestination::Syslog { facility: 19, .. }), "{syslog:?}");
    }

    /// Every packaged configuration is accepted as a whole; only paths of the machine are replaced.
    #[test]
    fn packaged_configurations_are_honoured() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configurations");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace("/usr/share/zoneinfo", folder);
            let mut settings = Settings::default();
            let read = file::parse(&text, &mut settings)
                .and_then(|()| settings.refuse_unhonoured())
                .and_then(|()| typed::from_settings(&settings));
            let options = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(options.db_path.starts_with("/var/lib/mongo"), "{}", path.display());
            assert!(matches!(options.log, LogDestination::File { append: true, .. }));
            count += 1;
        }
        assert_eq!(count, 8);
    }

    /// A key of another product's configuration is refused with the reason, even if the table has no row for it.
    #[test]
    fn refusals_say_why() {
        for (key, why) in [
            ("security.sasl.hostName", "not by saslauthd"),
            ("security.kmip.keyStatePollingSeconds", "at the start only"),
            ("net.tls.certificateSelector", "certificates are in files"),
            ("net.http.enabled", "removed its HTTP interface"),
            ("sharding.clusterRole", "not part of a sharded cluster"),
            ("auditLog.compressionMode", "encrypted volume"),
            ("replication.replSet", "replication.replSetName"),
        ] {
            let mut settings = Settings::default();
            let read = file::parse(&format!("{key}: x\n"), &mut settings)
                .and_then(|()| settings.refuse_unhonoured());
            let error = read.unwrap_err();
            assert!(error.contains(why) && error.contains(key), "{error}");
        }
        for row in TABLE.iter().filter(|row| row.honoured == Honoured::No) {
            assert!(notes::refusal(row.key).is_some(), "{}", row.key);
        }
    }

    #[test]
    fn compressors_from_options_and_configuration_strings() {
        use nagi_kv::Compressor::{Lz4, Snappy, Zlib, Zstd};
        let chosen = |args: &[&str]| options(args).unwrap().compression;
        assert_eq!(chosen(&[]), Compression::default());
        let all = chosen(&[
            "--wiredTigerCollectionBlockCompressor=lz4",
            "--wiredTigerIndexConfigString=block_compressor=zlib",
            "--wiredTigerJournalCompressor=snappy",
            "--zstdDefaultCompressionLevel=-7",
        ]);
        assert_eq!(
            (all.documents, all.indexes, all.journal),
            (Some(Lz4), Some(Zlib), Some(Snappy))
        );
        assert_eq!(all.zstd_level, Some(-7));
        let strings = options(&[
            "--wiredTigerCollectionBlockCompressor=lz4",
            "--wiredTigerCollectionConfigString=block_compressor=zstd",
            "--wiredTigerEngineConfigString=cache_size=300MB,log=(compressor=zstd)",
            "--wiredTigerCacheSizeGB=1",
        ]);
        let strings = strings.unwrap();
        assert_eq!(strings.compression.documents, Some(Zstd));
        assert_eq!(strings.compression.journal, Some(Zstd));
        assert_eq!(strings.cache_bytes, Some(300 << 20));
    }

    #[test]
    fn files_in_both_formats() {
        let file = |text: &str| {
            let mut settings = Settings::default();
            file::parse(text, &mut settings).map(|()| settings)
        };
        let yaml = "storage:\n  dbPath: /x\n  journal: {commitIntervalMs: 50}\nnet:\n  port: 1\n\
                    \x20 unixDomainSocket.enabled: false\nsetParameter:\n  ttlMonitorSleepSecs: 1\n\
                    security:\n  authorization: disabled\nsystemLog:\n  logAppend: true\n";
        let settings = file(yaml).unwrap();
        assert_eq!(settings.get("storage.journal.commitIntervalMs"), Some("50"));
        assert_eq!(settings.get("net.unixDomainSocket.enabled"), Some("false"));
        assert_eq!(settings.parameters["ttlMonitorSleepSecs"], "1");
        settings.refuse_unhonoured().unwrap();
        assert_eq!(
            file("dbpath=/y\n# x\nfork = true\n").unwrap().get("storage.dbPath"),
            Some("/y")
        );
        for (text, reason) in [
            (
                "net:\n  prot: 1\n",
                "Unrecognized option: net.prot (line 2 of the configuration file); did you mean 'net.port'?\n",
            ),
            ("net: 27017\n", "'net' is a section, not a value"),
            ("# x\n\nsecurity: enabled\n", "authorization, clusterAuthMode"),
            ("# x\n\nsecurity: [a]\n", "(line 3 of the configuration file)"),
            ("setParameter: foo=1\n", "; it holds parameters, each as a line 'name: value'"),
            ("net:\n  ipv6: true\n  port: 99999\n", "(line 3 of the configuration file)"),
            (
                "port=1\n\nprot=2\n",
                "'prot' (line 3 of the configuration file); did you mean '--port'?",
            ),
            (
                "net: {bindIp: [localhost, \"::1\"]}\n",
                "one text with commas: bindIp: localhost,::1",
            ),
            (
                "net:\n  port: [1]\n",
                "is a list (line 2 of the configuration file); accepted is an integer from 0 to 65535",
            ),
            ("net:\n  port:\n", "the value of net.port is empty (line 2"),
            (
                "systemLog:\n  path: {a: 1}\n",
                "the value of systemLog.path is a section (line 2 of the configuration file); accepted is text",
            ),
            ("setParameter:\n  a: [1]\n", "the value of setParameter.a is a list"),
            (
                "setParameter:\n  wiredTigerConcurrentReadTransactions:\n",
                "is empty (line 2 of the configuration file); accepted is an integer from 5 to 100000",
            ),
            (
                "storage:\n  ttlMonitorSleepSecs: 5\n",
                "(line 2 of the configuration file); ttlMonitorSleepSecs is a server parameter: write it below \
                 setParameter:, as 'ttlMonitorSleepSecs: VALUE'",
            ),
            ("ttlMonitorSleepSecs: 5\n", "server parameter: write it below setParameter:"),
            (
                "port=1\nttlMonitorSleepSecs=5\n",
                "; ttlMonitorSleepSecs is a server parameter: write setParameter = ttlMonitorSleepSecs=VALUE",
            ),
            ("net: {port: x}\n", "bad value 'x'"),
            ("a: [\n", "Error parsing YAML config file"),
        ] {
            let error = file(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_flag_takes_precedence_over_the_other_name_in_the_file() {
        let one = |name: &str, value: &str| {
            let mut settings = Settings::default();
            settings.set_parameter(name, value).map(|()| settings).unwrap()
        };
        let mut settings = one("wiredTigerConcurrentReadTransactions", "10");
        settings.add_missing(one("storageEngineConcurrentReadTransactions", "20"));
        let values: Vec<_> = settings.parameters.values().collect();
        assert_eq!(values, ["10"]);
    }

    #[test]
    fn the_table_is_sorted_and_unambiguous() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].key <= pair[1].key, "{}", pair[1].key);
        }
        for row in TABLE.iter().filter(|row| !row.flag.is_empty()) {
            assert_eq!(TABLE.iter().filter(|r| r.flag == row.flag).count(), 1, "{}", row.flag);
        }
        for row in TABLE.iter() {
            if let Honoured::Only(values) = row.honoured {
                assert!(values.iter().all(|v| row.kind.check(v).is_ok()), "{}", row.key);
            }
        }
    }
}
