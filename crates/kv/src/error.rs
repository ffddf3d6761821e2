//! Errors of an engine, grouped by the caller's reaction.

use std::{fmt, io};

/// Result of every engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// An engine's error. The store translates it to MongoDB's codes, in one place.
#[derive(Debug)]
pub enum Error {
    /// Another transaction wrote the key first: the caller retries with a new transaction.
    Conflict,
    /// The engine no longer has the snapshot: the caller retries.
    SnapshotTooOld,
    /// The disk is full. Nothing was written, and reads continue; writes succeed again once there is free space.
    Full,
    /// An engine in memory has reached its limit. Nothing was written, and reads continue; writes succeed again
    /// after deletions.
    MemoryFull,
    /// There is no memory for a large value, or the request was interrupted while it waited for it. Nothing was read.
    NoMemory,
    /// The outcome of the commit is unknown: it may or may not have taken effect. The caller has to read the keys
    /// it wrote, or repeat the write in a form that is correct in both cases.
    Undetermined,
    /// Another process has taken over the data: this one may neither read nor write them any more. Nothing was
    /// written.
    TakenOver,
    /// The key is longer than [`crate::Limits::key_bytes_max`]: its bytes, and the limit. Nothing was written.
    KeyTooLong(usize, usize),
    /// The request of the calling thread was interrupted while it waited for other machines, see [`crate::interrupt`].
    /// Nothing was written.
    Interrupted,
    /// The stores of a distributed engine cannot be reached, or do not answer. Nothing was written; later calls succeed
    /// again once they are back. The text says what was tried.
    Unreachable(String),
    /// The stored bytes differ from the written ones. Names the file or key.
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
            Error::NoMemory => f.write_str("no memory to read a large value"),
            Error::Undetermined => f.write_str("the outcome of the commit is unknown"),
            Error::Interrupted => f.write_str("operation was interrupted"),
            Error::TakenOver => f.write_str("another node has taken over the data"),
            Error::KeyTooLong(bytes, most) => {
                write!(f, "a key of {bytes} bytes; the storage engine accepts {most}")
            }
            Error::Unreachable(what) => f.write_str(what),
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
