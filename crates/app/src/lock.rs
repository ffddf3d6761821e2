//! One process for a data directory: `mongod.lock`, locked while the server runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// The lock; released when dropped, and by the system when the process dies.
pub(crate) struct Lock {
    file: File,
    /// The file named a process: the last server did not end in order.
    pub(crate) unclean: bool,
}

impl Lock {
    /// Locks the folder and writes our process id into it. `AddrInUse`: somebody else has it.
    pub(crate) fn take(folder: &Path) -> io::Result<Lock> {
        let path = folder.join("mongod.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // What it says is written over: neither a link's target nor a pipe or a device is meant.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let mut file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) => return Err(error.into()),
        }
        let mut before = String::new();
        file.read_to_string(&mut before)?;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        file.sync_all()?;
        Ok(Lock { file, unclean: !before.trim().is_empty() })
    }

    /// The end in order: the file is left empty.
    pub(crate) fn release(self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()
    }
}

/// The process that holds a data directory's lock, for `--shutdown`. The process id that a killed server left in the
/// file belongs to no process, or to an unrelated one.
pub(crate) fn holder(folder: &Path) -> Option<i32> {
    if !is_held(folder) {
        return None;
    }
    std::fs::read_to_string(folder.join("mongod.lock")).ok()?.trim().parse().ok()
}

/// Whether a process has the lock at this moment.
pub(crate) fn is_held(folder: &Path) -> bool {
    let path = folder.join("mongod.lock");
    if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    // Shared: two who ask do not disturb each other.
    File::open(&path).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}
