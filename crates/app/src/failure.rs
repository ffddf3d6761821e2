//! The error of a failed start.

/// mongod's exit codes.
pub(crate) mod exit {
    pub(crate) const BAD_OPTIONS: u8 = 2;
    pub(crate) const UNRECOVERABLE: u8 = 14;
    pub(crate) const PORT_IN_USE: u8 = 48;
    pub(crate) const DATA_FOLDER: u8 = 100;
}

pub(crate) const TERMINATING: &str = "DBException in initAndListen, terminating";

/// A failed start: the log message and the exit code.
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) id: i64,
    pub(crate) message: &'static str,
    pub(crate) error: String,
}

/// The storage engine cannot use the data directory.
pub(crate) fn not_opened(error: String, code: u8) -> Failure {
    Failure {
        code,
        id: 28595,
        message: "Terminating: the storage engine could not be opened",
        error,
    }
}
