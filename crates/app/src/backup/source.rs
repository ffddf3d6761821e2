//! The source of a backup: a running server, or the data directory of a stopped one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nagi_bson::{Doc, DocBuf, Value, number};
use nagi_encryption::{FILE_NAME, MasterKey};
use nagi_host::Lock;

use super::manifest::check_name;
use super::{MARKER, failed, is_folder};
use crate::options::{self, Request};
use crate::remote::address::Address;
use crate::remote::client::Client;
use crate::{encryption, engine, say};

/// The maximum number of bytes per request.
pub(super) const PIECE_BYTES: usize = 4 << 20;
const CHECKPOINT: &str = "nagi.backup";
const PASSWORD_SHOWN: &str = "\
     warning: --uri has a password: other users of this machine see it in the list of processes, and the \
     shell keeps it in its history; leave it out, and use --passwordFile FILE, NAGI_PASSWORD in the \
     environment or the prompt";
/// A backup needs almost no cache.
const CACHE_BYTES: u64 = 64 << 20;

/// A consistent copy of the files, which must be closed after reading ([`Source::end`]).
pub(super) struct Source {
    pub(super) engine: String,
    pub(super) nagi_version: String,
    /// Names and sizes.
    pub(super) files: Vec<(String, u64)>,
    bytes: Bytes,
}

enum Bytes {
    Server { client: Client, id: String },
    Folder { checkpoint: PathBuf, lock: Lock },
}

/// So long a backup may take to begin before the user is told why.
const BEGIN_WAIT: Duration = Duration::from_secs(3);

/// Begins a backup. The server makes it wait while it is locked by `fsync`, and for writes under way.
fn telling<T: Send>(begin: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let (begun, waits) = mpsc::channel::<()>();
        threads.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = waits.recv_timeout(BEGIN_WAIT) {
                say("waiting for the server, which is locked (`db.fsyncUnlock()`) or stands still");
            }
        });
        let done = begin();
        drop(begun);
        done
    })
}

impl Source {
    /// Begins a backup on a running server.
    pub(super) fn server(
        address: &Address,
        password_file: Option<&Path>,
    ) -> Result<Source, String> {
        warn_of_password(address);
        Source::of(Client::connect(address, password_file)?)
    }

    /// The same with a connection.
    pub(super) fn of(mut client: Client) -> Result<Source, String> {
        let begin = DocBuf::build(|w| {
            w.put("nagiBackup", "begin");
            w.put("$db", "admin");
        });
        let reply = telling(|| client.run(begin.as_doc()))?;
        let text = |name: &str| reply.get(name).as_str().unwrap_or("").to_owned();
        let mut files = Vec::new();
        if let Value::Array(list) = reply.get("files") {
            for file in list.iter().filter_map(|item| item.as_doc()) {
                let name = file.get("name").as_str().unwrap_or("").to_owned();
                check_name(&name)?;
                let bytes = number::truncate_to_i64(file.get("bytes")).unwrap_or(0);
                files.push((name, u64::try_from(bytes).unwrap_or(0)));
            }
        }
        Ok(Source {
            engine: text("engine"),
            nagi_version: text("nagiVersion"),
            files,
            bytes: Bytes::Server { client, id: text("backupId") },
        })
    }

    /// Opens the data of a stopped server, with recovery as at a start, and makes a checkpoint.
    pub(super) fn closed_folder(folder: &Path, masters: &[MasterKey]) -> Result<Source, String> {
        is_folder(folder)?;
        if !folder.join(MARKER).is_file() {
            return Err(format!("{} is not a data directory of Nagi", folder.display()));
        }
        let lock = Lock::take(folder).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!(
                    "{} is used by a running server; back up that server with --uri",
                    folder.display()
                )
            }
            _ => failed(folder, &error),
        })?;
        let args = ["--dbpath".to_owned(), folder.display().to_string()];
        let Request::Serve(options) = options::read(&args)? else {
            return Err("--dbpath is needed".to_owned());
        };
        // The engine of the directory.
        let mut options = engine::settle(&options).map_err(|error| failed(folder, &error))?;
        options.keys = encryption::of_folder(folder, masters)?;
        let engine = engine::open(&options, CACHE_BYTES).map_err(|error| failed(folder, &error))?;
        let checkpoint = folder.join(CHECKPOINT);
        remove(&checkpoint)?;
        let name = engine.name().to_owned();
        engine.checkpoint(&checkpoint).map_err(|error| failed(&checkpoint, &error))?;
        drop(engine);
        if options.keys.is_some() {
            let (from, to) = (folder.join(FILE_NAME), checkpoint.join(FILE_NAME));
            fs::copy(&from, &to).map_err(|error| failed(&from, &error))?;
        }
        let mut files = Vec::new();
        list(&checkpoint, "", &mut files).map_err(|error| failed(&checkpoint, &error))?;
        files.sort();
        let bytes = Bytes::Folder { checkpoint, lock };
        Ok(Source { engine: name, nagi_version: crate::build::VERSION.to_owned(), files, bytes })
    }

    /// Reads bytes of a file from `offset` on: [`PIECE_BYTES`], or fewer at the end.
    pub(super) fn read(&mut self, name: &str, offset: u64, left: u64) -> Result<Vec<u8>, String> {
        let length = left.min(PIECE_BYTES as u64);
        let bytes = match &mut self.bytes {
            Bytes::Folder { checkpoint, .. } => {
                let path = checkpoint.join(name);
                let mut bytes = vec![0; length as usize];
                let read =
                    File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, offset));
                read.map_err(|error| failed(&path, &error))?;
                bytes
            }
            Bytes::Server { client, id } => {
                let ask = DocBuf::build(|w| {
                    w.put("nagiBackup", "read");
                    w.put("backupId", id.as_str());
                    w.put("file", name);
                    w.put("offset", offset as i64);
                    w.put("length", length as i64);
                    w.put("$db", "admin");
                });
                let reply = client.run(ask.as_doc())?;
                data(reply.as_doc()).to_vec()
            }
        };
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(format!("{name}: received {} bytes instead of {length}", bytes.len())),
        }
    }

    /// Releases the copy.
    pub(super) fn end(self) -> Result<(), String> {
        match self.bytes {
            Bytes::Folder { checkpoint, lock } => {
                remove(&checkpoint)?;
                lock.release().map_err(|error| format!("mongod.lock: {error}"))
            }
            Bytes::Server { mut client, id } => {
                let end = DocBuf::build(|w| {
                    w.put("nagiBackup", "end");
                    w.put("backupId", id.as_str());
                    w.put("$db", "admin");
                });
                client.run(end.as_doc()).map(drop)
            }
        }
    }
}

/// Warns if the address on the command line has a password.
pub(super) fn warn_of_password(address: &Address) {
    let has_key_password = address.files.certificate_key_password.is_some();
    if has_key_password || matches!(address.login, Some((_, Some(_)))) {
        crate::say(PASSWORD_SHOWN);
    }
}

fn data<'d>(reply: Doc<'d>) -> &'d [u8] {
    match reply.get("data") {
        Value::Binary(binary) => binary.bytes,
        _ => &[],
    }
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(folder, &error)),
        _ => Ok(()),
    }
}

fn list(folder: &Path, prefix: &str, files: &mut Vec<(String, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata()?;
        match metadata.is_dir() {
            true => list(&entry.path(), &format!("{name}/"), files)?,
            false => files.push((name, metadata.len())),
        }
    }
    Ok(())
}
