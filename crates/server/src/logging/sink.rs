//! Destinations of the log: standard output, a file that can be rotated, the system's log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::syslog::Syslog;
use crate::clock;

/// The destination of the log.
#[derive(Debug, Clone)]
pub enum LogDestination {
    /// Standard output.
    Stdout,
    /// None (tests); lines are still kept for `getLog`.
    Nowhere,
    /// The logger that the application has installed in crate `log`. Such a log must not be installed itself.
    Application,
    /// The system's log: its socket and the number of the facility.
    Syslog { socket: PathBuf, facility: u8 },
    /// A file. Without `append` an existing file is renamed first, as `mongod` does.
    File { path: PathBuf, append: bool, rotate: LogRotate },
}

/// The action of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogRotate {
    /// Renames the file, with the time appended to its name, and begins a new one.
    #[default]
    Rename,
    /// Closes and reopens the path; another program has renamed the file.
    Reopen,
}

pub(super) struct Sink {
    destination: LogDestination,
    file: Option<File>,
    syslog: Option<Syslog>,
}

impl Sink {
    pub(super) fn open(destination: LogDestination) -> io::Result<Sink> {
        let file = match &destination {
            LogDestination::File { path, append, .. } => {
                check_log_path(path).map_err(io::Error::other)?;
                if !append && path.exists() {
                    set_aside(path)?;
                }
                Some(open_append(path)?)
            }
            _ => None,
        };
        let syslog = match &destination {
            LogDestination::Syslog { socket, facility } => Some(Syslog::open(socket, *facility)?),
            _ => None,
        };
        Ok(Sink { destination, file, syslog })
    }

    pub(super) fn is_application(&self) -> bool {
        matches!(self.destination, LogDestination::Application)
    }

    /// Writes whole lines. Errors are ignored, because they could only be logged.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if let Some(syslog) = &mut self.syslog {
            return syslog.write(bytes);
        }
        let _ = match (&mut self.file, &self.destination) {
            (Some(file), _) => file.write_all(bytes),
            (None, LogDestination::Nowhere | LogDestination::Application) => Ok(()),
            (None, _) => io::stdout().lock().write_all(bytes),
        };
    }

    pub(super) fn flush(&mut self) {
        let _ = match (&mut self.file, &self.destination) {
            (Some(file), _) => file.sync_data(),
            (None, LogDestination::Application) => Ok(()),
            (None, _) if self.syslog.is_some() => Ok(()),
            (None, _) => io::stdout().lock().flush(),
        };
    }

    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let LogDestination::File { path, rotate, .. } = &self.destination else { return Ok(()) };
        check_log_path(path).map_err(io::Error::other)?;
        if *rotate == LogRotate::Rename && path.exists() {
            set_aside(path)?;
        }
        self.file = Some(open_append(path)?);
        Ok(())
    }
}

/// Checks that a log may be written at `path`: it must be a regular file or not exist. Changes nothing.
///
/// # Errors
/// MongoDB's text.
pub fn check_log_path(path: &Path) -> Result<(), String> {
    let kind = match fs::metadata(path) {
        Ok(found) => found.file_type(),
        // If there is another problem, opening the file reports it.
        Err(_) => return Ok(()),
    };
    let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => {
            Err(format!("logpath \"{}\" should name a file, not a directory.", shown.display()))
        }
        _ => Err(format!("logpath \"{}\" should name a regular file.", shown.display())),
    }
}

pub(crate) fn open_append(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("Failed to open {}: {error}", path.display()))
    };
    OpenOptions::new().create(true).append(true).open(path).map_err(named)
}

/// Renames `nagi.log` to `nagi.log.2026-11-21T21-50-39`, and returns the new name; never overwrites an existing file.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let suffix = clock::file_suffix(clock::wall_ms());
    let aside = |text: &str| PathBuf::from(format!("{}.{text}", path.display()));
    let mut target = aside(&suffix);
    for count in 1.. {
        if !target.exists() {
            break;
        }
        target = aside(&format!("{suffix}-{count}"));
    }
    fs::rename(path, &target).map_err(|error| {
        let (from, to) = (path.display(), target.display());
        io::Error::new(error.kind(), format!("Failed to rename {from} to {to}: {error}"))
    })?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates_by_renaming() {
        let dir = std::env::temp_dir().join(format!("nagi-log-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("n.log");
        let to =
            LogDestination::File { path: path.clone(), append: true, rotate: LogRotate::Rename };
        let mut sink = Sink::open(to).unwrap();
        sink.write(b"one\n");
        sink.rotate().unwrap();
        sink.write(b"two\n");
        sink.rotate().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
        fs::remove_dir_all(&dir).unwrap();
    }
}
