//! Ends the process when the log can no longer be trusted.
//!
//! After a failed write or sync the operating system may have dropped the pages and report the next sync as a
//! success. So no later commit could be acknowledged, and the process ends. The next start recovers from the data
//! on disk. A full disk is not such a case, because nothing was written.

mod ffi;

use nagi_kv::Error;

/// mongod's exit code for an error it cannot continue after.
const EXIT_CODE: i32 = 14;

/// Returns true if the state of the log is unknown after this error.
pub fn is_fatal(error: &Error) -> bool {
    let text = match error {
        Error::Io(error) => error.to_string(),
        _ => return false,
    };
    !text.starts_with("Shutdown in progress")
}

/// Logs the error and ends the process at once, without another write.
#[cold]
pub fn end(doing: &'static str, error: &Error) -> ! {
    log::error!(target: "STORAGE", id = 7_702_034, doing, error:% = error;
        "Fatal error: the journal could not be written; no further write can be acknowledged");
    log::error!(target: "CONTROL", id = 23_138, exitCode = EXIT_CODE; "Shutting down");
    log::logger().flush();
    ffi::exit(EXIT_CODE)
}

/// Logs the damaged place of a mapped file and ends the process at once, without another write.
#[cold]
pub fn end_damaged(file: &str, offset: u64) -> ! {
    log::error!(target: "STORAGE", id = 7_703_011, file, offset;
        "Fatal error: Data corruption detected: this part of the data file cannot be read, or lies \
        outside of the file; start with --repair");
    log::error!(target: "CONTROL", id = 23_138, exitCode = EXIT_CODE; "Shutting down");
    log::logger().flush();
    ffi::exit(EXIT_CODE)
}
