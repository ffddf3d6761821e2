//! Paths that options name, looked at before anything is opened, renamed or written.
//!
//! A path that names something else than its option expects is refused with MongoDB's text and exit code, and
//! what it names stays as it is. The data folder is looked at when it is locked, a Unix socket's place when it
//! is bound, the key file when it is read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nagi_server::LogDestination;

use crate::options::Options;

/// Why the server does not start: its exit code and the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: u8,
    pub(crate) text: String,
}

const FAILURE: u8 = 1;
const BAD_OPTIONS: u8 = 2;

/// Looks at the log, the file of the process id, the configuration and the key file.
pub(crate) fn check(options: &Options) -> Result<(), Refused> {
    let log = match &options.log {
        LogDestination::File { path, .. } => Some(path.as_path()),
        _ => None,
    };
    if let Some(path) = log {
        nagi_server::check_log_path(path).map_err(|error| Refused {
            code: FAILURE,
            text: format!("Error during global initialization: FileNotOpen: {error}"),
        })?;
    }
    if let Some(path) = &options.pid_file {
        let refused = |why: &str| Refused {
            code: FAILURE,
            text: format!("Cannot write pid file to {}: {why}", path.display()),
        };
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(refused("it is not a regular file")),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                if !parent.is_none_or(Path::is_dir) {
                    return Err(refused("No such file or directory"));
                }
            }
            Err(error) => return Err(refused(&error.to_string())),
        }
    }
    let config = options.parsed.iter().find(|(key, _)| key == "config").map(|(_, path)| path);
    different(&[
        ("systemLog.path", log),
        ("processManagement.pidFilePath", options.pid_file.as_deref()),
        ("security.keyFile", options.key_file.as_deref()),
        ("config", config.map(Path::new)),
    ])
}

/// Two options may not name one file: the log and the process id are written over what is there.
fn different(named: &[(&str, Option<&Path>)]) -> Result<(), Refused> {
    let same = |a: &Path, b: &Path| {
        let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        std::path::absolute(a).ok() == std::path::absolute(b).ok()
            || id(a).is_some() && id(a) == id(b)
    };
    for (index, (name, path)) in named.iter().enumerate() {
        for (other, place) in &named[..index] {
            if let (Some(path), Some(place)) = (path, place)
                && same(path, place)
            {
                let text =
                    format!("BadValue: {other} and {name} name the same file: {}", path.display());
                return Err(Refused { code: BAD_OPTIONS, text });
            }
        }
    }
    Ok(())
}
