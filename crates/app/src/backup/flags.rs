//! The flags of `nagi backup`, `nagi restore` and `nagi ping`.

use std::path::PathBuf;
use std::time::Duration;

use super::moment::Moment;
use crate::options;

pub(super) const HELP: &str = "\
nagi backup --out DIR [--uri URI [--passwordFile FILE] | --dbpath DIR] [--base OLD] [--rateMBps N]
  --out DIR        new or empty directory for the backup
  --uri URI        a running server: mongodb://[user[:password]@]host[:port][/?authSource=db];
                   without --uri and --dbpath it is mongodb://127.0.0.1:27017
  --passwordFile FILE
                   the first line is the user's password; without it and without a password in the
                   URI it is taken from NAGI_PASSWORD in the environment, or is requested at a prompt
  --dbpath DIR     or the data directory of a server that is not running
  --base OLD       an earlier backup, from which unchanged files are copied
  --rateMBps N     read no more than N megabytes a second
nagi backup --verify DIR
  reads a backup and compares it with its checksums
nagi backup --archive URL [--uri URI [--passwordFile FILE]] [--newBase | --once]
            [--segmentSeconds N] [--rateMBps N] [--endpoint URL]
  archives the log of a member of a replica set until it is stopped by a signal, for restores of moments
  --archive URL    a folder, file:///folder or s3://bucket/prefix; the first run begins with a base copy
  --newBase        only makes another base copy, and archives the log meanwhile; may run beside the command that
                   archives the log
  --once           stops when all is archived that the log has now
  --segmentSeconds N
                   a file of the log is written at least every N seconds while the log grows (10)
  --endpoint URL   address of an S3-compatible store; keys and region come from AWS_ACCESS_KEY_ID,
                   AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment
nagi backup --prune URL [--keepHours N] [--keepBases N] [--dryRun] [--endpoint URL]
  removes base copies and parts of the log from an archive; may run beside the command that archives the log
  --keepHours N    the moments of the last N hours can still be restored
  --keepBases N    the newest N base copies are kept, with the log after them; with both flags what either keeps
  --dryRun         only tells what would be removed
nagi restore --from DIR --dbpath DIR [--rateMBps N]
  --from DIR       the backup
  --dbpath DIR     new or empty directory that becomes a data directory
nagi restore --from URL --to TIME --dbpath DIR [--rateMBps N] [--endpoint URL]
  --from URL       an archive
  --to TIME        the moment: 2026-11-26T09:30:00Z (the end of that second), a time of the log
                   (seconds,number), or latest";

/// `--segmentSeconds`, unless specified.
const SEGMENT_SECONDS: u64 = 10;

/// The flags of the commands.
#[derive(Default)]
pub(super) struct Flags {
    pub(super) out: Option<PathBuf>,
    pub(super) uri: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) folder: Option<PathBuf>,
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
}

impl Flags {
    pub(super) fn segment_time(&self) -> Duration {
        Duration::from_secs(self.segment_seconds.unwrap_or(SEGMENT_SECONDS))
    }

    /// Parses the arguments of a command that knows the flags `known` and has the help `help`.
    pub(super) fn parse(args: &[String], known: &[&str], help: &str) -> Result<Flags, String> {
        let mut flags = Flags::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            if !known.contains(&name) {
                let meant = options::meant_option(name, known);
                return Err(format!("unrecognised option '{arg}'{meant}\n\n{help}"));
            }
            match (name, value) {
                ("--newBase", None) => flags.new_base = true,
                ("--once", None) => flags.once = true,
                ("--dryRun", None) => flags.dry_run = true,
                ("--newBase" | "--once" | "--dryRun", Some(_)) => {
                    return Err(format!("the option '{name}' takes no value"));
                }
                (_, value) => match value.or_else(|| args.next().cloned()) {
                    Some(value) => flags.take(name, value)?,
                    None => {
                        return Err(format!(
                            "the required argument for option '{name}' is missing"
                        ));
                    }
                },
            }
        }
        Ok(flags)
    }

    /// Stores the value of a flag.
    fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        let number = |text: &str| {
            let number = text.parse::<u64>().ok().filter(|n| (1..=1_000_000).contains(n));
            number.ok_or_else(|| format!("{name} {text}: a number of 1 or more"))
        };
        match name {
            "--out" => self.out = Some(value.into()),
            "--uri" => self.uri = Some(value),
            "--passwordFile" => self.password_file = Some(value.into()),
            "--dbpath" => self.folder = Some(value.into()),
            "--base" => self.base = Some(value.into()),
            "--verify" => self.verify = Some(value.into()),
            "--from" => self.from = Some(value),
            "--archive" => self.archive = Some(value),
            "--endpoint" => self.endpoint = Some(value),
            "--to" => self.to = Some(Moment::parse(&value)?),
            "--prune" => self.prune = Some(value),
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
