//! Why the server did not start.

/// A start that failed: what to log and the exit code.
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) id: i64,
    pub(crate) message: &'static str,
    pub(crate) error: String,
}
