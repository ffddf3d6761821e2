//! `nagi backup` and `nagi restore`: consistent, verified copies of the data files.
//!
//! ```text
//!   nagi backup --out DIR [--uri URI | --dbpath DIR] [--base OLD] [--rateMBps N]
//!   nagi backup --verify DIR
//!   nagi backup --archive URL [--uri URI] [--newBase | --once] [--segmentSeconds N]
//!   nagi backup --prune URL [--keepHours N] [--keepBases N]
//!   nagi restore --from DIR --dbpath DIR [--rateMBps N]
//!   nagi restore --from URL --to TIME --dbpath DIR
//!   nagi diagnostics --dbpath DIR --out DIR
//!   nagi advise [--uri URI] [--json]
//! ```
//!
//! | module        | purpose                                                                            |
//! |---------------|------------------------------------------------------------------------------------|
//! | `source.rs`   | the source of the bytes: a running server, or the directory of a stopped one       |
//! | `flags.rs`    | the flags of all these commands                                                    |
//! | `manifest.rs` | `nagi.backup`: the list of files with checksums; written last                      |
//! | `copy.rs`     | copies bytes from a source to a directory with checksums and a rate limit          |
//! | `restore.rs`  | restores into an empty directory, which becomes a data directory only at the end   |
//! | `archive/`    | base copies and the log of a running server, in a folder or an S3-compatible store |
//! | `point/`      | restores a moment from an archive                                                  |
//! | `moment.rs`   | times of the log as text                                                           |
//! | `diagnostics.rs` | `nagi diagnostics`: copies the files of diagnostic data, decrypted                 |
//! | `advise.rs`   | `nagi advise`: prints the advice of a running server                               |
//! | `ping.rs`     | `nagi ping`: checks that a server answers, with the same client                    |
//!
//! The formats are described in docs/format.md ("Backup"), the usage in docs/backup.md.

mod advise;
mod archive;
mod copy;
mod diagnostics;
mod flags;
mod manifest;
mod moment;
mod ping;
mod point;
mod restore;
mod source;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::failure::exit;
use crate::{encryption, print, say};
pub(crate) use advise::run as run_advise;
use copy::Pace;
use flags::Flags;
pub(crate) use flags::{
    ADVISE as ADVISE_FLAGS, BACKUP as FLAGS, DIAGNOSTICS as DIAGNOSTICS_FLAGS, PING as PING_FLAGS,
    RESTORE as RESTORE_FLAGS,
};
use manifest::Manifest;
pub(crate) use ping::run as run_ping;
use source::Source;

/// The directory of the files within a backup.
const DATA: &str = "data";
/// The file that marks a data directory.
const MARKER: &str = "nagi.storage";
/// The server of a command without `--uri` and `--dbpath`.
const URI: &str = "mongodb://127.0.0.1:27017";

fn finish(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(text) => {
            say(&text);
            ExitCode::from(exit::FAILURE)
        }
    }
}

/// A wrong usage of a command.
fn refuse(command: &str, text: &str) -> ExitCode {
    say(&format!("nagi {command}: {text}\ntry 'nagi help {command}' for more information"));
    ExitCode::from(exit::BAD_OPTIONS)
}

/// Runs `nagi backup ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let refuse = |text: &str| refuse("backup", text);
    let mut flags = match Flags::parse(args, FLAGS) {
        Ok(flags) => flags,
        Err(text) => return refuse(&text),
    };
    if flags.plain && flags.archive.is_none() {
        return refuse(
            "--plain needs --archive: other copies have the files as they are, encrypted or not",
        );
    }
    if flags.key_files.is_some() && flags.archive.is_none() && flags.folder.is_none() {
        return refuse("--encryptionKeyFile needs --dbpath or --archive");
    }
    if flags.key_files.is_some() && flags.plain {
        return refuse("--plain and --encryptionKeyFile exclude each other");
    }
    if let Err(text) = read_keys(&mut flags) {
        return finish(Err(text));
    }
    if flags.uri.is_some() && flags.folder.is_some() {
        return refuse("--uri and --dbpath exclude each other");
    }
    let without_server = flags.folder.is_some() || flags.verify.is_some() || flags.prune.is_some();
    if without_server && !flags.connection.is_empty() {
        return refuse("the options of TLS need a running server (--uri)");
    }
    if flags.new_base && flags.once {
        return refuse("--newBase and --once exclude each other");
    }
    if let Some(url) = &flags.prune {
        return prune(url, &flags);
    }
    if flags.keep_hours.is_some() || flags.keep_bases.is_some() || flags.dry_run {
        return refuse("--keepHours, --keepBases and --dryRun need --prune");
    }
    let of_archives =
        flags.new_base || flags.once || flags.segment_seconds.is_some() || flags.endpoint.is_some();
    match (&flags.verify, &flags.out, &flags.archive) {
        (_, _, None) if of_archives => {
            refuse("--newBase, --once, --segmentSeconds and --endpoint need --archive")
        }
        (Some(folder), None, None) => finish(verify(folder, flags.rate_bytes)),
        (None, Some(out), None) => finish(back_up(&flags, out)),
        (None, None, Some(_)) if flags.folder.is_some() || flags.base.is_some() => {
            refuse("--archive copies a running server (--uri), and takes no --dbpath and no --base")
        }
        (None, None, Some(url)) => finish(archive::run(url, &flags)),
        _ => refuse("one of --out, --archive, --prune and --verify is needed"),
    }
}

fn prune(url: &str, flags: &Flags) -> ExitCode {
    let refuse = |text: &str| refuse("backup", text);
    let others = flags.out.is_some() || flags.verify.is_some() || flags.archive.is_some();
    if others || flags.uri.is_some() || flags.folder.is_some() || flags.new_base || flags.once {
        return refuse("--prune takes only --keepHours, --keepBases, --dryRun and --endpoint");
    }
    if flags.keep_hours.is_none() && flags.keep_bases.is_none() {
        return refuse("--prune needs --keepHours or --keepBases");
    }
    finish(archive::prune(url, flags))
}

/// Runs `nagi restore ARGS...`.
pub(crate) fn run_restore(args: &[String]) -> ExitCode {
    let refuse = |text: &str| refuse("restore", text);
    let mut flags = match Flags::parse(args, RESTORE_FLAGS) {
        Ok(flags) => flags,
        Err(text) => return refuse(&text),
    };
    if flags.key_files.is_some() && flags.to.is_none() {
        return refuse("--encryptionKeyFile needs --to: without a log to apply no key is needed");
    }
    if let Err(text) = read_keys(&mut flags) {
        return finish(Err(text));
    }
    let (Some(from), Some(folder)) = (&flags.from, &flags.folder) else {
        return refuse("--from and --dbpath are needed");
    };
    if let (Some(_), Err(text)) = (flags.to, archive::check_address(from)) {
        return refuse(&text);
    }
    finish(match flags.to {
        Some(to) => point::run(from, to, folder, &flags),
        None if flags.endpoint.is_some() => return refuse("--endpoint needs --to"),
        None => restore::restore(Path::new(from), folder, &mut Pace::new(flags.rate_bytes)),
    })
}

/// Runs `nagi diagnostics ARGS...`.
pub(crate) fn run_diagnostics(args: &[String]) -> ExitCode {
    let refuse = |text: &str| refuse("diagnostics", text);
    let mut flags = match Flags::parse(args, DIAGNOSTICS_FLAGS) {
        Ok(flags) => flags,
        Err(text) => return refuse(&text),
    };
    if let Err(text) = read_keys(&mut flags) {
        return finish(Err(text));
    }
    let (Some(folder), Some(out)) = (&flags.folder, &flags.out) else {
        return refuse("--dbpath and --out are needed");
    };
    finish(diagnostics::export(folder, out, &flags))
}

/// Reads the master keys, where they may be needed: before the first thread, because the environment is changed.
fn read_keys(flags: &mut Flags) -> Result<(), String> {
    let is_wanted = flags.folder.is_some() || flags.archive.is_some();
    if is_wanted && !flags.plain {
        flags.masters = encryption::for_command(flags.key_files.as_deref())?;
    }
    let is_plain = flags.folder.as_deref().is_some_and(|folder| !encryption::has_keys(folder));
    if flags.key_files.is_some() && flags.to.is_none() && is_plain {
        return Err("the data directory is not encrypted, and its copy is not either: --encryptionKeyFile has no use"
            .to_owned());
    }
    Ok(())
}

fn back_up(flags: &Flags, out: &Path) -> Result<String, String> {
    let base = match &flags.base {
        Some(base) => Some((base.clone(), Manifest::read(base)?)),
        None => None,
    };
    make_empty(out)?;
    let mut source = match &flags.folder {
        Some(folder) => Source::closed_folder(folder, &flags.masters)?,
        None => Source::server(&flags.address()?, flags.password_file.as_deref())?,
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
