//! The lock of a data directory: `mongod.lock`, locked by the only process that uses the directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// What is read of the file, which has a process id: any program may have written it.
const CONTENT_BYTES_MAX: u64 = 64;

/// The lock; released when dropped, and by the system if the process dies.
pub struct Lock {
    file: File,
    /// The file contained a process id: the last server did not shut down cleanly.
    pub unclean: bool,
}

impl Lock {
    /// Locks the data directory and writes our process id into the file.
    ///
    /// # Errors
    /// `AddrInUse` if another process, or this one, holds the lock; otherwise the error of the file system.
    pub fn take(folder: &Path) -> io::Result<Lock> {
        let path = folder.join("mongod.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // The contents are overwritten, so links, pipes and devices are refused.
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
        let mut before = Vec::new();
        (&file).take(CONTENT_BYTES_MAX).read_to_end(&mut before)?;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        file.sync_all()?;
        Ok(Lock { file, unclean: !before.trim_ascii().is_empty() })
    }

    /// Marks a clean shutdown: the file is truncated.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn release(self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()?;
        // Closing the file is not enough if a child process that was forked meanwhile still has it.
        Ok(flock(&self.file, FlockOperation::Unlock)?)
    }
}

/// The process that holds the lock of a data directory, for `--shutdown`. Without a held lock the process id in the
/// file is ignored: a killed server left it, and it may belong to an unrelated process by now.
pub fn holder(folder: &Path) -> Option<i32> {
    if !is_held(folder) {
        return None;
    }
    let mut text = String::new();
    let file = File::open(folder.join("mongod.lock")).ok()?;
    file.take(CONTENT_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns true if a process holds the lock at this moment.
pub fn is_held(folder: &Path) -> bool {
    let path = folder.join("mongod.lock");
    if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    // A shared lock, so that two concurrent checks do not disturb each other.
    File::open(&path).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}
