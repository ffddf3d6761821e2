//! `nagi backup` and `nagi restore`: consistent, verified copies of the data files.
//!
//! ```text
//!   nagi backup --out DIR [--uri URI | --dbpath DIR] [--base OLD] [--rateMBps N]
//!   nagi backup --verify DIR
//!   nagi restore --from DIR --dbpath DIR [--rateMBps N]
//! ```
//!
//! | module        | purpose                                                                            |
//! |---------------|------------------------------------------------------------------------------------|
//! | `source.rs`   | the source of the bytes: a running server, or the directory of a stopped one       |
//! | `address.rs`  | the syntax of `--uri`                                                              |
//! | `client.rs`   | a connection to a server, with login                                               |
//! | `password.rs` | the password, from a file, the environment or a prompt                             |
//! | `manifest.rs` | `nagi.backup`: the list of files with checksums; written last                      |
//! | `copy.rs`     | copies bytes from a source to a directory with checksums and a rate limit          |
//! | `restore.rs`  | restores into an empty directory, which becomes a data directory only at the end   |
//!
//! The formats are described in docs/format.md ("Backup"), the usage in docs/backup.md.

mod address;
mod client;
mod copy;
mod manifest;
mod password;
mod restore;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{options, print, say};
use copy::Pace;
use manifest::Manifest;
use source::Source;

/// Exists in a data directory that is being restored, until the restore is complete.
pub(crate) const RESTORING: &str = restore::PART;
/// The directory of the files within a backup.
const DATA: &str = "data";
/// The file that marks a data directory.
const MARKER: &str = "nagi.storage";
/// The server of a backup without `--uri` and `--dbpath`.
const URI: &str = "mongodb://127.0.0.1:27017";

const HELP: &str = "\
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
nagi restore --from DIR --dbpath DIR [--rateMBps N]
  --from DIR       the backup
  --dbpath DIR     new or empty directory that becomes a data directory";

/// The flags of both commands.
#[derive(Default)]
struct Flags {
    out: Option<PathBuf>,
    uri: Option<String>,
    password_file: Option<PathBuf>,
    folder: Option<PathBuf>,
    base: Option<PathBuf>,
    verify: Option<PathBuf>,
    from: Option<PathBuf>,
    rate_bytes: Option<u64>,
}

fn parse(args: &[String], known: &[&str]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        if !known.contains(&name) {
            let meant = options::meant_option(name, known);
            return Err(format!("unrecognised option '{arg}'{meant}\n\n{HELP}"));
        }
        let value = value.or_else(|| args.next().cloned());
        let value =
            value.ok_or_else(|| format!("the required argument for option '{name}' is missing"))?;
        match name {
            "--out" => flags.out = Some(value.into()),
            "--uri" => flags.uri = Some(value),
            "--passwordFile" => flags.password_file = Some(value.into()),
            "--dbpath" => flags.folder = Some(value.into()),
            "--base" => flags.base = Some(value.into()),
            "--verify" => flags.verify = Some(value.into()),
            "--from" => flags.from = Some(value.into()),
            _ => {
                let rate = value.parse::<u64>().ok().filter(|rate| (1..=1_000_000).contains(rate));
                let rate =
                    rate.ok_or_else(|| format!("--rateMBps {value}: a number of 1 or more"))?;
                flags.rate_bytes = Some(rate << 20);
            }
        }
    }
    Ok(flags)
}

fn finish(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(text) => {
            say(&text);
            ExitCode::from(1)
        }
    }
}

fn is_help(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "--help" || arg == "-h")
}

/// Runs `nagi backup ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let known =
        ["--out", "--uri", "--passwordFile", "--dbpath", "--base", "--verify", "--rateMBps"];
    let flags = match parse(args, &known) {
        _ if is_help(args) => return finish(Ok(HELP.to_owned())),
        Ok(flags) => flags,
        Err(text) => {
            say(&text);
            return ExitCode::from(2);
        }
    };
    if flags.uri.is_some() && flags.folder.is_some() {
        say("--uri and --dbpath exclude each other");
        return ExitCode::from(2);
    }
    finish(match (&flags.verify, &flags.out) {
        (Some(folder), None) => verify(folder, flags.rate_bytes),
        (None, Some(out)) => back_up(&flags, out),
        _ => {
            say(&format!("one of --out and --verify is needed\n\n{HELP}"));
            return ExitCode::from(2);
        }
    })
}

/// Runs `nagi restore ARGS...`.
pub(crate) fn run_restore(args: &[String]) -> ExitCode {
    let flags = match parse(args, &["--from", "--dbpath", "--rateMBps"]) {
        _ if is_help(args) => return finish(Ok(HELP.to_owned())),
        Ok(flags) => flags,
        Err(text) => {
            say(&text);
            return ExitCode::from(2);
        }
    };
    let (Some(from), Some(folder)) = (&flags.from, &flags.folder) else {
        say(&format!("--from and --dbpath are needed\n\n{HELP}"));
        return ExitCode::from(2);
    };
    finish(restore::restore(from, folder, &mut Pace::new(flags.rate_bytes)))
}

fn back_up(flags: &Flags, out: &Path) -> Result<String, String> {
    let base = match &flags.base {
        Some(base) => Some((base.clone(), Manifest::read(base)?)),
        None => None,
    };
    make_empty(out)?;
    let mut source = match (&flags.uri, &flags.folder) {
        (_, Some(folder)) => Source::closed_folder(folder)?,
        (uri, None) => {
            let uri = uri.as_deref().unwrap_or(URI);
            Source::server(uri, flags.password_file.as_deref())?
        }
    };
    let mut pace = Pace::new(flags.rate_bytes);
    let result = copy::back_up(&mut source, out, base.as_ref(), &mut pace);
    // The source must be closed after a failure too: until then a server keeps removed files on disk.
    let ended = source.end();
    let (manifest, reused) = result?;
    ended?;
    manifest.write(out)?;
    Ok(format!(
        "backup of {} files, {} bytes ({} bytes taken from the base) in {}",
        manifest.files.len(),
        manifest.byte_count(),
        reused,
        out.display()
    ))
}

fn verify(folder: &Path, rate_bytes: Option<u64>) -> Result<String, String> {
    let manifest = Manifest::read(folder)?;
    let mut pace = Pace::new(rate_bytes);
    let mut damaged = Vec::new();
    for file in &manifest.files {
        let path = folder.join(DATA).join(&file.name);
        match copy::digest(&path, &mut pace) {
            Ok((bytes, sum)) if bytes == file.byte_count && sum == file.sha256 => {}
            Ok((bytes, _)) if bytes != file.byte_count => damaged.push(format!(
                "{}: {bytes} bytes instead of {}",
                path.display(),
                file.byte_count
            )),
            Ok(_) => damaged.push(format!("{}: the checksum does not match", path.display())),
            Err(error) => damaged.push(error),
        }
    }
    match damaged.is_empty() {
        true => Ok(format!(
            "{} files, {} bytes agree with their checksums",
            manifest.files.len(),
            manifest.byte_count()
        )),
        false => Err(damaged.join("\n")),
    }
}

/// Refuses a path that does not exist or is no directory.
fn is_folder(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a directory", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("{} does not exist", path.display()))
        }
        Err(error) => Err(failed(path, &error)),
    }
}

/// Creates the directory; refuses one that is not empty.
fn make_empty(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(format!("{} is not empty", folder.display())),
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
