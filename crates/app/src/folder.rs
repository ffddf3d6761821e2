//! The data directory of a start: what is checked before it is locked, and the lock.
//!
//! A directory that is refused stays as it was: nothing is written before the checks.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nagi_kv_disk::marker;

use crate::failure::{Failure, TERMINATING, exit, not_opened};
use crate::lock::Lock;
use crate::options::Options;

/// Locks the data directory of the options.
pub(crate) fn take(options: &Options) -> Result<Lock, Failure> {
    let folder = Path::new(&options.db_path);
    check(folder).map_err(refused)?;
    marker::refuse_foreign(folder)
        .map_err(|error| not_opened(error.to_string(), exit::DATA_FOLDER))?;
    if options.repair && !marker::may_hold_data(folder) {
        return Err(refused(format!(
            "NoDataToRepair: There is nothing to repair in {}: it holds no data of a server; --dbpath \
             (storage.dbPath) names the data directory",
            folder.display()
        )));
    }
    let lock = Lock::take(folder).map_err(|error| refused(not_locked(folder, &error)))?;
    if lock.unclean {
        let file = folder.join("mongod.lock").display().to_string();
        log::warn!(target: "STORAGE", id = 22271, lockFile = file;
            "Detected unclean shutdown - Lock file is not empty");
    }
    Ok(lock)
}

fn refused(error: String) -> Failure {
    Failure { code: exit::DATA_FOLDER, id: 20557, message: TERMINATING, error }
}

/// Checks that the path is a directory, in which no restore is unfinished.
fn check(folder: &Path) -> Result<(), String> {
    let path = folder.display();
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(format!(
                "NotADirectory: --dbpath (storage.dbPath) {path} is a file, not a directory"
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!(
                "NonExistentPath: Data directory {path} not found. Create the missing directory or specify \
                 another path using (1) the --dbpath command line option, or (2) by adding the \
                 'storage.dbPath' option in the configuration file."
            ));
        }
        Err(error) => return Err(not_reached(folder, &error)),
    }
    if folder.join(crate::backup::RESTORING).exists() {
        return Err(format!(
            "{path} holds an unfinished restore; remove what it contains and run nagi restore again"
        ));
    }
    Ok(())
}

/// The text for a path that exists for other users perhaps.
fn not_reached(folder: &Path, error: &std::io::Error) -> String {
    let path = folder.display();
    let Some(closed) = nagi_doctor::closed_ancestor(folder) else {
        return format!("IllegalOperation: Data directory {path} cannot be reached: {error}");
    };
    let owner = fs::metadata(&closed).map(|found| format!("it belongs to user {}", found.uid()));
    format!(
        "IllegalOperation: Data directory {path} cannot be reached: {error}: this user may not enter {} \
         ({}; the server runs as user {})",
        closed.display(),
        owner.unwrap_or_else(|error| error.to_string()),
        rustix::process::geteuid().as_raw()
    )
}

fn not_locked(folder: &Path, error: &std::io::Error) -> String {
    let path = folder.display();
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "DBPathInUse: Unable to lock the lock file: {path}/mongod.lock. Another mongod instance \
             is already running on the {path} directory"
        ),
        ErrorKind::ReadOnlyFilesystem => format!(
            "IllegalOperation: Attempted to create a lock file on a read-only directory: {path}"
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!(
            "OutOfDiskSpace: Unable to write the process id to the lock file: {path}/mongod.lock \
             ({error})"
        ),
        _ => format!(
            "IllegalOperation: Unable to create/open the lock file: {path}/mongod.lock ({error}). \
             Ensure that the user who runs the server owns the lock file and has the \
             appropriate permissions, and that no other mongod instance runs on the {path} \
             directory"
        ),
    }
}
