//! The data directory of a start: what is checked before it is locked, and the lock.
//!
//! A directory that is refused stays as it was: nothing is written before the checks.

use std::path::Path;

use nagi_host::{Lock, Problem};
use nagi_kv_disk::marker;

use crate::failure::{Failure, TERMINATING, exit, not_opened};
use crate::options::Options;

/// Locks the data directory of the options.
pub(crate) fn take(options: &Options) -> Result<Lock, Failure> {
    let folder = Path::new(&options.db_path);
    nagi_host::check(folder).map_err(|problem| unusable(folder, problem))?;
    if options.repair && !marker::may_hold_data(folder) {
        return Err(refused(format!(
            "NoDataToRepair: There is nothing to repair in {}: it holds no data of a server; --dbpath \
             (storage.dbPath) names the data directory",
            folder.display()
        )));
    }
    let lock =
        Lock::take(folder).map_err(|error| unusable(folder, nagi_host::lock_problem(error)))?;
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

/// The failure for a directory that cannot be used.
fn unusable(folder: &Path, problem: Problem) -> Failure {
    let path = folder.display();
    refused(match problem {
        Problem::Foreign(text) => return not_opened(text, exit::DATA_FOLDER),
        Problem::NotADirectory => {
            format!("NotADirectory: --dbpath (storage.dbPath) {path} is a file, not a directory")
        }
        Problem::NotFound => format!(
            "NonExistentPath: Data directory {path} not found. Create the missing directory or specify \
             another path using (1) the --dbpath command line option, or (2) by adding the \
             'storage.dbPath' option in the configuration file."
        ),
        Problem::Unreachable(error) => not_reached(folder, &error),
        Problem::UnfinishedRestore => format!(
            "{path} holds an unfinished restore; remove what it contains and run nagi restore again"
        ),
        Problem::InUse => format!(
            "DBPathInUse: Unable to lock the lock file: {path}/mongod.lock. Another mongod instance \
             is already running on the {path} directory"
        ),
        Problem::ReadOnly => format!(
            "IllegalOperation: Attempted to create a lock file on a read-only directory: {path}"
        ),
        Problem::Full(error) => format!(
            "OutOfDiskSpace: Unable to write the process id to the lock file: {path}/mongod.lock \
             ({error})"
        ),
        Problem::NotLocked(error) => {
            let file = folder.join("mongod.lock");
            let denied = if file.exists() { &*file } else { folder };
            let owner = crate::paths::owner(denied);
            format!(
                "IllegalOperation: Unable to create/open the lock file: {path}/mongod.lock ({error}: \
                 {}: {owner}). Ensure that the user who runs the server owns the lock file and has the \
                 appropriate permissions, and that no other mongod instance runs on the {path} \
                 directory",
                denied.display()
            )
        }
    })
}

/// The text for a path that exists for other users perhaps.
pub(crate) fn not_reached(folder: &Path, error: &std::io::Error) -> String {
    let path = folder.display();
    let Some(closed) = nagi_doctor::closed_ancestor(folder) else {
        return format!("IllegalOperation: Data directory {path} cannot be reached: {error}");
    };
    format!(
        "IllegalOperation: Data directory {path} cannot be reached: {error}: this user may not enter {} ({})",
        closed.display(),
        crate::paths::owner(&closed)
    )
}
