//! Checks paths in options before anything is opened, renamed or written.
//!
//! A path of the wrong kind (a directory for the log, for example) is refused with MongoDB's text and exit code, and
//! whatever is there stays unchanged. The data directory is checked when it is locked, the path of a Unix socket when
//! it is bound (its directory is created here if it is missing), the key file when it is read.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nagi_host::EngineKind;
use nagi_server::{AuditDestination, LogDestination};
use rustix::fs::Access;

use crate::failure::exit;
use crate::options::Options;

/// The reason why the server does not start: exit code and text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: u8,
    pub(crate) text: String,
}

/// Checks the paths of the log and of the process id file, and that no two options name the same file.
pub(crate) fn check(options: &Options) -> Result<(), Refused> {
    let log = match &options.log {
        LogDestination::File { path, .. } => Some(path.as_path()),
        _ => None,
    };
    if let Some(path) = log {
        nagi_server::check_log_path(path).map_err(|error| Refused {
            code: exit::FAILURE,
            text: format!("Error during global initialization: FileNotOpen: {error}"),
        })?;
    }
    if let Some(path) = &options.pid_file {
        let refused = |why: &str| Refused {
            code: exit::FAILURE,
            text: format!("Cannot write pid file to {}: {why}", path.display()),
        };
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(refused("it is not a regular file")),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
                    return Err(refused(&format!(
                        "No such file or directory: {} is no directory",
                        parent.display()
                    )));
                }
            }
            Err(error) => return Err(refused(&error.to_string())),
        }
    }
    let audit = match options.audit.as_ref().map(|audit| &audit.destination) {
        Some(AuditDestination::File { path, .. }) => Some(path.as_path()),
        _ => None,
    };
    if let Some(path) = audit {
        check_audit_file(path).map_err(|why| Refused {
            code: exit::FAILURE,
            text: format!("Cannot use the audit file (auditLog.path): {why}"),
        })?;
    }
    check_sockets(options)?;
    let config = options.parsed.iter().find(|(key, _)| key == "config").map(|(_, path)| path);
    different(&[
        ("systemLog.path", log),
        ("auditLog.path", audit),
        ("processManagement.pidFilePath", options.pid_file.as_deref()),
        ("security.keyFile", options.key_file.as_deref()),
        ("config", config.map(Path::new)),
    ])
}

/// Checks that the audit file can be written, or made.
fn check_audit_file(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (place, wanted) = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(format!("{shown} is a directory")),
        Ok(found) if !found.is_file() => return Err(format!("{shown} is not a regular file")),
        Ok(_) => (path, Access::WRITE_OK),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match fs::metadata(parent) {
            Ok(found) if found.is_dir() => (parent, Access::WRITE_OK | Access::EXEC_OK),
            Ok(_) => return Err(format!("{shown}: {} is not a directory", parent.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(format!("{shown}: the directory {} does not exist", parent.display()));
            }
            Err(error) => return Err(explained(path, &error)),
        },
        Err(error) => return Err(explained(path, &error)),
    };
    rustix::fs::access(place, wanted).map_err(|error| {
        let error = std::io::Error::from(error);
        match place == path {
            true => explained(path, &error),
            false => format!("{shown}: {error}: {}: {}", place.display(), owner(place)),
        }
    })
}

/// Makes sure that the directories of the Unix sockets exist.
fn check_sockets(options: &Options) -> Result<(), Refused> {
    let named = options.net.bind_ip.iter().filter(|name| name.starts_with('/'));
    let named = named.filter_map(|name| Some(("net.bindIp", Path::new(name).parent()?)));
    let own = options.net.unix_socket_dir.as_deref();
    let own = own.map(|folder| ("net.unixDomainSocket.pathPrefix", folder));
    for (option, folder) in named.chain(own) {
        make_directory(Some(folder)).map_err(|why| Refused {
            code: exit::FAILURE,
            text: format!("Cannot use the directory of a Unix socket ({option}): {why}"),
        })?;
    }
    Ok(())
}

/// Creates a directory for run-time files, such as `/run/nagi`, which the service manager has not created for a server
/// that is started by hand. Its parent must exist. Returns the reason why it cannot be used.
fn make_directory(folder: Option<&Path>) -> Result<(), String> {
    let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(format!("{} is not a directory", folder.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    }
    fs::DirBuilder::new().mode(0o755).create(folder).map_err(|error| {
        format!(
            "the directory {0} does not exist, and cannot be created: {error}. Create it for user {1}: mkdir {0} && \
             chown {1} {0}",
            folder.display(),
            rustix::process::geteuid().as_raw()
        )
    })
}

/// The owner of a file that this process may not use, and the user of this process.
pub(crate) fn owner(path: &Path) -> String {
    let owner = match fs::symlink_metadata(path) {
        Ok(found) => format!("it belongs to user {}", found.uid()),
        Err(error) => error.to_string(),
    };
    format!("{owner}; this process runs as user {}", rustix::process::geteuid().as_raw())
}

/// The error of a file that cannot be opened: with its path, and with the users if permissions are missing.
pub(crate) fn explained(path: &Path, error: &std::io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            // Without permission for a directory the file's owner cannot be seen.
            let seen = path.ancestors().find(|place| fs::symlink_metadata(place).is_ok());
            let seen = seen.unwrap_or(path);
            match seen == path {
                true => format!("{shown}: {error}: {}", owner(path)),
                false => format!("{shown}: {error}: {}: {}", seen.display(), owner(seen)),
            }
        }
        _ => format!("{shown}: {error}"),
    }
}

/// The text for a file with a secret that other users may read.
pub(crate) fn too_open(path: &Path, mode: u32) -> String {
    let shown = path.display();
    format!(
        "permissions on {shown} are too open: it has mode {:o}, only its owner may have permissions: chmod 600 {shown}",
        mode & 0o7777
    )
}

/// The maximum number of entries that are checked in a data directory.
const ENTRIES_MAX: usize = 100_000;

/// Adds the path to an error of the start, unless the text has one: the first entry of the data directory that this
/// process may not read and write, or else the directory itself.
pub(crate) fn named(error: String, options: &Options) -> String {
    let begins = |error: &str| {
        error.strip_prefix(&options.db_path).is_some_and(|rest| rest.starts_with([' ', ':']))
    };
    if matches!(options.engine, EngineKind::Memory | EngineKind::Distributed) {
        return error;
    }
    let folder = Path::new(&options.db_path);
    let has_path = error.contains('/') || begins(&error);
    match denied(folder, &mut 0).filter(|_| !has_path || error.contains("ermission denied")) {
        None if has_path => error,
        None => format!("{}: {error}", folder.display()),
        Some(path) => {
            let advice = format!("chown -R --reference={0} {0}", folder.display());
            format!("{}: {error} ({}; {advice})", path.display(), owner(&path))
        }
    }
}

/// The first file or directory in `folder` that this process may not use.
fn denied(folder: &Path, count: &mut usize) -> Option<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Some(folder.to_owned()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        *count += 1;
        if *count > ENTRIES_MAX {
            return None;
        }
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        let wanted = Access::READ_OK | Access::WRITE_OK;
        let wanted = if is_folder { wanted | Access::EXEC_OK } else { wanted };
        if rustix::fs::access(&path, wanted).is_err() {
            return Some(path);
        }
        if is_folder && let Some(inside) = denied(&path, count) {
            return Some(inside);
        }
    }
    None
}

/// Refuses two options that name the same file, because the log and the process id would overwrite it.
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
                return Err(Refused { code: exit::BAD_OPTIONS, text });
            }
        }
    }
    Ok(())
}

#[test]
fn an_audit_file_is_checked() {
    let folder = std::env::temp_dir().join(format!("nagi-audit-path-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("file"), b"").unwrap();
    assert_eq!(check_audit_file(&folder.join("file")), Ok(()));
    assert_eq!(check_audit_file(&folder.join("new")), Ok(()));
    for (name, says) in [
        ("", "is a directory"),
        ("none/audit.json", "none does not exist"),
        ("file/audit.json", "Not a directory"),
    ] {
        let error = check_audit_file(&folder.join(name)).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn directories_for_sockets_are_created() {
    let folder = std::env::temp_dir().join(format!("nagi-sockets-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let new = folder.join("run");
    make_directory(Some(&new)).unwrap();
    assert_eq!(fs::metadata(&new).unwrap().mode() & 0o700, 0o700);
    make_directory(Some(&new)).unwrap();
    make_directory(Some(Path::new(""))).unwrap();
    let deep = make_directory(Some(&folder.join("none/run"))).unwrap_err();
    assert!(deep.contains("none/run does not exist, and cannot be created"), "{deep}");
    fs::write(folder.join("file"), b"").unwrap();
    let file = make_directory(Some(&folder.join("file"))).unwrap_err();
    assert!(file.ends_with("is not a directory"), "{file}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_error_of_the_start_names_a_path() {
    let folder = std::env::temp_dir().join(format!("nagi-named-{}", std::process::id()));
    fs::create_dir_all(folder.join("rocksdb")).unwrap();
    let args = ["--dbpath".to_owned(), folder.display().to_string()];
    let Ok(crate::options::Request::Serve(options)) = crate::options::read(&args) else { panic!() };
    let text = "Permission denied (os error 13)".to_owned();
    assert_eq!(named(text.clone(), &options), format!("{}: {text}", folder.display()));
    // Every user, even root, is denied access to the target of a dangling link.
    let current = folder.join("rocksdb/CURRENT");
    std::os::unix::fs::symlink("/no/such", &current).unwrap();
    let error = named(text.clone(), &options);
    assert!(error.starts_with(&format!("{}: {text} (it belongs to", current.display())), "{error}");
    assert_eq!(named("/a/b: bad".to_owned(), &options), "/a/b: bad");
    fs::remove_dir_all(folder).unwrap();
}
