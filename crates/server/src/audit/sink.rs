//! The destinations of audit messages.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use super::options::AuditDestination;
use crate::logging::{Syslog, check_log_path, open_append, set_aside};

/// The severity "notice" of syslog.
const NOTICE: u8 = 5;

pub(super) enum Sink {
    Console,
    Syslog(Syslog),
    File { file: File, path: PathBuf, reopen: bool },
}

impl Sink {
    pub(super) fn open(destination: &AuditDestination) -> io::Result<Sink> {
        Ok(match destination {
            AuditDestination::Console => Sink::Console,
            AuditDestination::Syslog { socket, facility } => {
                Sink::Syslog(Syslog::open(socket, *facility)?)
            }
            AuditDestination::File { path, reopen } => {
                check_log_path(path).map_err(io::Error::other)?;
                Sink::File { file: open_append(path)?, path: path.clone(), reopen: *reopen }
            }
        })
    }

    /// True if each message is written by a call of its own.
    pub(super) fn takes_messages_apart(&self) -> bool {
        matches!(self, Sink::Syslog(_))
    }

    /// Writes a beginning of `bytes`, at least one byte, and returns its length.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Sink::Console => io::stdout().lock().write_all(bytes).map(|()| bytes.len()),
            Sink::File { file, .. } => file.write(bytes),
            Sink::Syslog(syslog) => {
                let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                syslog.try_send(line, NOTICE).map(|()| bytes.len())
            }
        };
        match written {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => self.write(bytes),
            other => other,
        }
    }

    /// Begins a new file and returns the name of the old one; other destinations have nothing to rotate.
    pub(super) fn rotate(&mut self) -> io::Result<Option<String>> {
        let Sink::File { file, path, reopen } = self else { return Ok(None) };
        check_log_path(path).map_err(io::Error::other)?;
        let aside = match !*reopen && path.exists() {
            true => Some(set_aside(path)?.display().to_string()),
            false => None,
        };
        // The old file may be on a disk that fails; its descriptor is closed in any case.
        let _ = file.sync_data();
        *file = open_append(path)?;
        Ok(aside)
    }

    /// Brings what was written to the disk, as far as possible.
    pub(super) fn flush(&mut self) {
        let _ = match self {
            Sink::Console => io::stdout().lock().flush(),
            Sink::File { file, .. } => file.sync_data(),
            Sink::Syslog(_) => Ok(()),
        };
    }
}
