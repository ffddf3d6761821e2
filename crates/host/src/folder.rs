//! The checks of a data directory before it is locked.

use std::io::{Error, ErrorKind};
use std::path::Path;

use nagi_kv_disk::marker;

/// The file in a data directory while a restore writes into it.
pub const RESTORING: &str = "nagi.restoring";

/// Why a data directory cannot be used.
#[derive(Debug)]
pub enum Problem {
    /// The path is not a directory.
    NotADirectory,
    /// There is nothing at the path.
    NotFound,
    /// The path cannot be reached.
    Unreachable(Error),
    /// A restore into the directory has not finished.
    UnfinishedRestore,
    /// The directory belongs to another program or to a newer version; the text says to which.
    Foreign(String),
    /// Another process, or this one, uses the directory.
    InUse,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The file system is full, or the user's quota is used up.
    Full(Error),
    /// The lock file cannot be opened or locked.
    NotLocked(Error),
}

/// Checks that the path is a directory that holds no data of other programs and no unfinished restore. Writes nothing.
///
/// # Errors
/// The problem.
pub fn check(folder: &Path) -> Result<(), Problem> {
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(Problem::NotADirectory),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Problem::NotFound),
        Err(error) => return Err(Problem::Unreachable(error)),
    }
    if folder.join(RESTORING).exists() {
        return Err(Problem::UnfinishedRestore);
    }
    marker::refuse_foreign(folder).map_err(|error| Problem::Foreign(error.to_string()))
}

/// Classifies an error of [`crate::Lock::take`].
pub fn lock_problem(error: Error) -> Problem {
    match error.kind() {
        ErrorKind::AddrInUse => Problem::InUse,
        ErrorKind::ReadOnlyFilesystem => Problem::ReadOnly,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Problem::Full(error),
        _ => Problem::NotLocked(error),
    }
}

#[cfg(test)]
mod tests {
    use nagi_testkit::Scratch;

    use super::*;
    use crate::Lock;

    #[test]
    fn a_directory_is_checked_and_locked_once() {
        let folder = Scratch::new();
        assert!(matches!(check(folder.path()), Err(Problem::NotFound)));
        std::fs::create_dir_all(folder.path()).expect("it can be created");
        check(folder.path()).expect("it is empty");
        let lock = Lock::take(folder.path()).expect("it is free");
        assert!(!lock.unclean && crate::is_held(folder.path()));
        // Within one process too.
        let second = Lock::take(folder.path()).err().map(lock_problem);
        assert!(matches!(second, Some(Problem::InUse)));
        assert_eq!(crate::holder(folder.path()), Some(std::process::id().cast_signed()));
        drop(lock);
        let again = Lock::take(folder.path()).expect("it is free again");
        assert!(again.unclean, "the first one was not released");
        again.release().expect("the file can be written");
        assert!(!Lock::take(folder.path()).expect("it is free").unclean);
        std::fs::write(folder.path().join(RESTORING), b"").expect("it can be written");
        assert!(matches!(check(folder.path()), Err(Problem::UnfinishedRestore)));
    }

    #[test]
    fn what_other_programs_own_is_refused() {
        let folder = Scratch::new();
        std::fs::create_dir_all(folder.path()).expect("it can be created");
        let file = folder.path().join("ibdata1");
        std::fs::write(&file, b"").expect("it can be written");
        assert!(matches!(check(folder.path()), Err(Problem::Foreign(_))));
        assert!(matches!(check(&file), Err(Problem::NotADirectory)));
    }
}
