//! The error of a failed start.

/// A failed start: the log message and the exit code.
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) id: i64,
    pub(crate) message: &'static str,
    pub(crate) error: String,
}
