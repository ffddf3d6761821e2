//! What can go wrong in an engine, sorted by what the caller does about it.

use std::{fmt, io};

/// Result of every engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// An engine's error. Translated to MongoDB's codes once, by the store.
#[derive(Debug)]
pub enum Error {
    /// Another transaction wrote the key first: begin again with a new transaction.
    Conflict,
    /// The engine no longer holds the state this snapshot reads: begin again.
    SnapshotTooOld,
    /// No room on the disk. Nothing was written; reads continue; writes succeed again once there is room.
    Full,
    /// The engine keeps its data in memory and has as much as it may. Nothing was written; reads continue;
    /// writes succeed again once something was deleted.
    MemoryFull,
    /// The outcome of the commit is unknown: it may or may not have happened. The caller has to read what it
    /// wrote, or repeat the write in a way that is correct in both cases.
    Undetermined,
    /// The stored bytes are not what was written. Says which file or key.
    Corrupt(String),
    /// The operating system refused; the message names the operation.
    Io(io::Error),
}

impl Error {
    /// An `Io` error that carries an engine's own message.
    pub fn other(message: impl Into<String>) -> Error {
        Error::Io(io::Error::other(message.into()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Conflict => f.write_str("write conflict"),
            Error::SnapshotTooOld => f.write_str("snapshot too old"),
            Error::Full => f.write_str("no space left on device"),
            Error::MemoryFull => {
                f.write_str("-31807: WT_CACHE_FULL: operation would overflow cache")
            }
            Error::Undetermined => f.write_str("the outcome of the commit is not known"),
            Error::Corrupt(what) => write!(f, "corruption: {what}"),
            Error::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full,
            _ => Error::Io(error),
        }
    }
}
