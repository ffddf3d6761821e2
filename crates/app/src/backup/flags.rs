//! The flags of `nagi backup`, `nagi restore`, `nagi diagnostics`, `nagi ping` and `nagi advise`.

use std::path::PathBuf;
use std::time::Duration;

use nagi_encryption::MasterKey;

use super::URI;
use super::archive::check_address;
use super::moment::Moment;
use crate::flag::{self, Flag, switch, takes};
use crate::remote::address::{self, Address};

// Rows of several commands.
const OUT: Flag = takes("--out", "directory", "none", "new or empty directory for the copy");
const RATE: Flag =
    takes("--rateMBps", "MB/s", "no limit", "largest amount of data that is read in a second");
const ENDPOINT: Flag =
    takes("--endpoint", "url", "that of AWS", "address of an S3-compatible store");
const RUNNING_SERVER: Flag = takes(
    "--uri",
    "uri",
    URI,
    "running server: mongodb://[user[:password]@]host[:port][/?authSource=db]",
);
const PASSWORD_FILE: Flag = takes(
    "--passwordFile",
    "file",
    "NAGI_PASSWORD, or a prompt",
    "file whose first line is the password of the user of --uri; only its owner may read it",
);
const TLS: Flag = switch("--tls", "connect with TLS");
const TLS_CA_FILE: Flag = takes(
    "--tlsCAFile",
    "file",
    "the system's",
    "certificates of the authorities that sign the server's certificate",
);
const TLS_CERTIFICATE_KEY_FILE: Flag = takes(
    "--tlsCertificateKeyFile",
    "file",
    "none",
    "certificate and key to show to the server, in one PEM file",
);
const TLS_ALLOW_INVALID_HOSTNAMES: Flag =
    switch("--tlsAllowInvalidHostnames", "accept the certificate of another host");
const TLS_ALLOW_INVALID_CERTIFICATES: Flag =
    switch("--tlsAllowInvalidCertificates", "accept every certificate of the server");

/// The flags of `nagi backup`.
#[rustfmt::skip]
pub(crate) static BACKUP: &[Flag] = &[
    OUT,
    RUNNING_SERVER,
    PASSWORD_FILE,
    TLS,
    TLS_CA_FILE,
    TLS_CERTIFICATE_KEY_FILE,
    TLS_ALLOW_INVALID_HOSTNAMES,
    TLS_ALLOW_INVALID_CERTIFICATES,
    takes("--dbpath", "directory", "none", "data directory of a server that is not running, instead of --uri"),
    takes("--encryptionKeyFile", "file", "NAGI_ENCRYPTION_KEY",
        "file with the master key of an encrypted --dbpath, or of the server whose log is archived"),
    switch("--plain", "with --archive: archive the log of an encrypted server without encryption"),
    takes("--base", "directory", "none", "earlier copy, from which unchanged files are linked or copied"),
    RATE,
    takes("--verify", "directory", "none", "copy that is read and compared with its checksums"),
    takes("--archive", "url", "none",
        "archive to which the log is written until a signal stops the command; the first run begins with a base copy"),
    switch("--newBase",
        "only make another base copy and archive the log meanwhile; may run beside the command that archives the log"),
    switch("--once", "stop when all is archived that the log has now"),
    takes("--segmentSeconds", "seconds", "10", "a file of the log is written at least so often while the log grows"),
    ENDPOINT,
    takes("--prune", "url", "none",
        "archive from which base copies and parts of the log are removed; may run beside the command that archives"),
    takes("--keepHours", "hours", "not limited by time", "moments of the last hours that can still be restored"),
    takes("--keepBases", "copies", "not limited by number",
        "newest base copies that are kept, with the log after them; with --keepHours what either keeps"),
    switch("--dryRun", "only tell what --prune would remove"),
];

/// The flags of `nagi restore`.
#[rustfmt::skip]
pub(crate) static RESTORE: &[Flag] = &[
    takes("--from", "url", "none",
        "directory of a copy, or an archive: a directory, file:///directory or s3://bucket/prefix"),
    takes("--dbpath", "directory", "none", "new or empty directory that becomes a data directory"),
    takes("--to", "time", "none, if --from is a copy", "moment to restore: 2026-11-26T09:30:00Z (the end of that \
        second), a time of the log (seconds,number), or latest"),
    takes("--encryptionKeyFile", "file", "NAGI_ENCRYPTION_KEY",
        "with --to: file with the master key of an encrypted archive; several with commas, if it was rotated"),
    RATE,
    ENDPOINT,
];

/// The flags of `nagi diagnostics`.
#[rustfmt::skip]
pub(crate) static DIAGNOSTICS: &[Flag] = &[
    takes("--dbpath", "directory", "none", "data directory of a server, which may run"),
    OUT,
    takes("--from", "directory", "diagnostic.data in the data directory",
        "directory of the files, if the parameter diagnosticDataCollectionDirectoryPath sets another one"),
    takes("--encryptionKeyFile", "file", "NAGI_ENCRYPTION_KEY",
        "file with the master key of an encrypted data directory"),
];

/// The flags of `nagi ping`.
#[rustfmt::skip]
pub(crate) static PING: &[Flag] = &[
    takes("--uri", "uri", URI,
        "server: mongodb://[user[:password]@]host[:port][/?authSource=db]; no user is needed"),
    PASSWORD_FILE,
    TLS,
    TLS_CA_FILE,
    TLS_CERTIFICATE_KEY_FILE,
    TLS_ALLOW_INVALID_HOSTNAMES,
    TLS_ALLOW_INVALID_CERTIFICATES,
    takes("--timeoutSeconds", "seconds", "5", "longest time until the last reply, with connecting"),
];

/// The flags of `nagi advise`.
#[rustfmt::skip]
pub(crate) static ADVISE: &[Flag] = &[
    RUNNING_SERVER,
    PASSWORD_FILE,
    TLS,
    TLS_CA_FILE,
    TLS_CERTIFICATE_KEY_FILE,
    TLS_ALLOW_INVALID_HOSTNAMES,
    TLS_ALLOW_INVALID_CERTIFICATES,
    takes("--database", "name", "all", "only advice on this database"),
    takes("--unusedHours", "hours", "24", "an index that no query has used for so long is called unused"),
    switch("--noMeasure", "do not try indexes and compression on samples of the documents"),
    switch("--json", "print the server's reply as one line of extended JSON"),
];

/// `--segmentSeconds`, unless specified.
const SEGMENT_SECONDS: u64 = 10;

/// The flags of the commands.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub(super) out: Option<PathBuf>,
    pub(super) uri: Option<String>,
    /// Options of the connection by flags, with the names that they have in an address.
    pub(super) connection: Vec<(String, String)>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) folder: Option<PathBuf>,
    /// The files of the master keys.
    pub(super) key_files: Option<String>,
    /// The keys themselves, once they are read.
    pub(super) masters: Vec<MasterKey>,
    /// The log of an encrypted server may be archived.
    pub(super) plain: bool,
    pub(super) base: Option<PathBuf>,
    pub(super) verify: Option<PathBuf>,
    /// A folder, or the address of an archive.
    pub(super) from: Option<String>,
    pub(super) rate_bytes: Option<u64>,
    pub(super) archive: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) to: Option<Moment>,
    pub(super) segment_seconds: Option<u64>,
    pub(super) new_base: bool,
    pub(super) once: bool,
    pub(super) prune: Option<String>,
    pub(super) keep_hours: Option<u64>,
    pub(super) keep_bases: Option<usize>,
    pub(super) dry_run: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) database: Option<String>,
    pub(super) unused_hours: Option<u64>,
    pub(super) no_measure: bool,
    pub(super) json: bool,
}

impl Flags {
    pub(super) fn segment_time(&self) -> Duration {
        Duration::from_secs(self.segment_seconds.unwrap_or(SEGMENT_SECONDS))
    }

    /// Parses the arguments of a command that knows the flags `known`.
    pub(super) fn parse(args: &[String], known: &[Flag]) -> Result<Flags, String> {
        let mut flags = Flags::default();
        flag::parse(args, known, |name, value| match value {
            None => {
                flags.turn_on(name);
                Ok(())
            }
            Some(value) => flags.take(name, value),
        })?;
        // A wrong address is a wrong usage, whatever else happens.
        if flags.uri.is_some() || !flags.connection.is_empty() {
            flags.address()?;
        }
        Ok(flags)
    }

    /// The server of `--uri`, with the flags of the connection.
    pub(super) fn address(&self) -> Result<Address, String> {
        address::parse(self.uri.as_deref().unwrap_or(URI), &self.connection)
    }

    /// Stores a flag without a value.
    fn turn_on(&mut self, name: &str) {
        match name {
            _ if name.starts_with("--tls") => self.connect_with(name, "true".to_owned()),
            "--newBase" => self.new_base = true,
            "--once" => self.once = true,
            "--plain" => self.plain = true,
            "--noMeasure" => self.no_measure = true,
            "--json" => self.json = true,
            _ => self.dry_run = true,
        }
    }

    fn connect_with(&mut self, flag: &str, value: String) {
        self.connection.push((flag.trim_start_matches('-').to_owned(), value));
    }

    /// Stores the value of a flag.
    fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        let number = |text: &str| {
            let number = text.parse::<u64>().ok().filter(|n| (1..=1_000_000).contains(n));
            number.ok_or_else(|| {
                format!("{name} has the bad value '{text}': expected an integer from 1 to 1000000")
            })
        };
        match name {
            "--out" => self.out = Some(value.into()),
            "--tlsCAFile" | "--tlsCertificateKeyFile" => self.connect_with(name, value),
            "--uri" => self.uri = Some(value),
            "--passwordFile" => self.password_file = Some(value.into()),
            "--encryptionKeyFile" => self.key_files = Some(value),
            "--dbpath" => self.folder = Some(value.into()),
            "--base" => self.base = Some(value.into()),
            "--database" => self.database = Some(value),
            "--unusedHours" => self.unused_hours = Some(number(&value)?),
            "--verify" => self.verify = Some(value.into()),
            "--from" => self.from = Some(value),
            "--archive" => {
                check_address(&value)?;
                self.archive = Some(value);
            }
            "--endpoint" => self.endpoint = Some(value),
            "--to" => self.to = Some(Moment::parse(&value)?),
            "--prune" => {
                check_address(&value)?;
                self.prune = Some(value);
            }
            "--keepHours" => self.keep_hours = Some(number(&value)?),
            "--keepBases" => {
                self.keep_bases = Some(usize::try_from(number(&value)?).unwrap_or(usize::MAX));
            }
            "--timeoutSeconds" => self.timeout = Some(Duration::from_secs(number(&value)?)),
            "--segmentSeconds" => self.segment_seconds = Some(number(&value)?),
            _ => self.rate_bytes = Some(number(&value)? << 20),
        }
        Ok(())
    }
}

#[test]
fn every_flag_is_stored() {
    for flag in BACKUP.iter().chain(RESTORE).chain(DIAGNOSTICS).chain(PING).chain(ADVISE) {
        let value = match flag.name {
            "--uri" => "mongodb://h",
            "--to" => "latest",
            _ => "7",
        };
        let arg = match flag.value {
            "" => flag.name.to_owned(),
            _ => format!("{}={value}", flag.name),
        };
        // The other flags of TLS need it.
        let with_tls = flag.name.starts_with("--tls") && flag.name != "--tls";
        let args = [vec![arg], vec!["--tls".to_owned(); usize::from(with_tls)]].concat();
        let alone = [*flag];
        let parsed = Flags::parse(&args, if with_tls { BACKUP } else { &alone }).unwrap();
        let changed = format!("{parsed:?}") != format!("{:?}", Flags::default());
        assert!(changed, "{}", flag.name);
    }
    let parse = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Flags::parse(&args, BACKUP).err().unwrap_or_default()
    };
    for (args, text) in [
        (&["--verfy", "x"][..], "unrecognised option '--verfy'; did you mean '--verify'?"),
        (&["--out"], "the required argument for option '--out' is missing: --out <directory>"),
        (&["--once=1"], "the option '--once' takes no value"),
        (&["--keepHours", "x"], "--keepHours has the bad value 'x': expected an integer from 1"),
        (&["--uri", "localhost"], "it must begin with mongodb://"),
        (&["--archive", "ftp://h"], "expected a folder, file:///folder or s3://bucket/prefix"),
        (&["stray"], "unrecognised option 'stray'"),
        (&["--tlsCAFile", "/ca.pem"], "--tlsCAFile needs --tls"),
        (&["--tls", "--uri", "mongodb://h/?tls=false"], "'tls' occurs twice"),
    ] {
        assert!(parse(args).contains(text), "{}", parse(args));
    }
}
