//! Translates the engine's errors to MongoDB's codes, in one place.

use nagi_error::{Code, Error};

/// The text that drivers and ODMs look for in errors with code 112.
const WRITE_CONFLICT: &str = "Caused by :: Write conflict during plan execution and yielding is \
     disabled. :: Please retry your operation or multi-document transaction.";

/// The code of a commit with unknown outcome: drivers repeat retryable writes and `commitTransaction` after it, and
/// the session record tells if there is anything left to do.
pub(crate) const UNDETERMINED: Code = Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE;

/// The client's error for an engine's error.
#[cold]
pub(crate) fn engine(error: nagi_kv::Error) -> Error {
    match error {
        nagi_kv::Error::Conflict => Error::new(Code::WRITE_CONFLICT, WRITE_CONFLICT),
        nagi_kv::Error::SnapshotTooOld => Error::new(
            Code::SNAPSHOT_TOO_OLD,
            "Read timestamp is older than the oldest available timestamp.",
        ),
        nagi_kv::Error::Full => {
            Error::new(Code::OUT_OF_DISK_SPACE, "No space left on device; the write was refused")
        }
        full @ nagi_kv::Error::MemoryFull => {
            Error::new(Code::EXCEEDED_MEMORY_LIMIT, full.to_string())
        }
        nagi_kv::Error::NoMemory => Error::new(
            Code::EXCEEDED_MEMORY_LIMIT,
            "Exceeded memory limit: no memory to read a large document, because other requests use all of it",
        ),
        unknown @ nagi_kv::Error::Undetermined => Error::new(
            UNDETERMINED,
            format!("{unknown}; retry it as a retryable write to find out"),
        ),
        // The server replaces it by the error of what has interrupted it.
        stopped @ nagi_kv::Error::Interrupted => Error::new(Code::INTERRUPTED, stopped.to_string()),
        // Drivers turn to another node, and repeat there what can be repeated.
        taken @ nagi_kv::Error::TakenOver => Error::new(
            Code::SHUTDOWN_IN_PROGRESS,
            format!("The server is in quiesce mode and will shut down: {taken}"),
        ),
        // MongoDB's code before version 4.2, which has no limit any more.
        long @ nagi_kv::Error::KeyTooLong(..) => {
            Error::new(Code::KEY_TOO_LONG, format!("key too large to index, failing: {long}"))
        }
        // Drivers repeat reads and retryable writes after it.
        nagi_kv::Error::Unreachable(what) => Error::new(Code::HOST_UNREACHABLE, what),
        nagi_kv::Error::Corrupt(what) => {
            Error::new(Code::DATA_CORRUPTION_DETECTED, format!("Data corruption detected: {what}"))
        }
        nagi_kv::Error::Io(io) => {
            Error::new(Code::INTERNAL_ERROR, format!("Storage engine error: {io}"))
        }
    }
}
