//! What happens when the log can no longer be trusted.
//!
//! After a failed write or sync the operating system may have dropped the pages and report the next sync as a
//! success. So no later commit could be acknowledged, and the process ends. The next start recovers from the data
//! on disk. A full disk is not such a case, because nothing was written.
//!
//! ```text
//!   OnFatal::Exit     a server: exit code 14, and the service manager starts it again
//!   OnFatal::Refuse   a library in the process of an application: every later write and sync returns an error,
//!                     and nothing is written at close, as if the process had been killed
//! ```

mod ffi;

use std::sync::OnceLock;

use nagi_kv::{Error, Result};

/// mongod's exit code for an error it cannot continue after.
const EXIT_CODE: i32 = 14;

/// What a data directory does after an error of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFatal {
    /// Ends the process.
    #[default]
    Exit,
    /// Refuses everything that would write, until the directory is closed and opened again.
    Refuse,
}

/// Whether the log of a data directory is trusted.
#[derive(Debug, Default)]
pub struct Trust {
    on_fatal: OnFatal,
    lost: OnceLock<String>,
}

impl Trust {
    /// A log that is trusted.
    pub fn new(on_fatal: OnFatal) -> Trust {
        Trust { on_fatal, lost: OnceLock::new() }
    }

    /// Called after an error for which [`is_fatal`] is true. With `OnFatal::Exit` it does not return; otherwise it
    /// returns the error for the commit, which is that of all later ones.
    #[cold]
    pub fn lose(&self, doing: &'static str, error: &Error) -> Error {
        if self.on_fatal == OnFatal::Exit {
            end(doing, error);
        }
        if self.lost.set(error.to_string()).is_ok() {
            log::error!(target: "STORAGE", id = 7_702_046, doing, error:% = error;
                "The journal could not be written; no further write is accepted until the data directory is \
                closed and opened again");
        }
        self.check().err().unwrap_or_else(|| Error::other(error.to_string()))
    }

    /// # Errors
    /// The first error of the log, if it is not trusted any more.
    pub fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(first) => Err(Error::other(format!(
                "the journal could not be written ({first}); close the database and open it again"
            ))),
        }
    }
}

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
fn end(doing: &'static str, error: &Error) -> ! {
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
