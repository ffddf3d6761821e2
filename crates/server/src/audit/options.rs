//! The options `auditLog.*`.

use std::path::PathBuf;

use nagi_bson::{DocBuf, json};

/// Where audit messages are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditDestination {
    /// Standard output.
    Console,
    /// The system's log: its socket and the number of the facility.
    Syslog { socket: PathBuf, facility: u8 },
    /// A file. `reopen`: a rotation opens the path again, because another program has renamed the file.
    File { path: PathBuf, reopen: bool },
}

/// The form of the messages in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFormat {
    /// One line of JSON each.
    Json,
    /// One document of BSON after another.
    Bson,
}

/// The configuration of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditOptions {
    pub destination: AuditDestination,
    pub format: AuditFormat,
    /// The fields are those of OCSF, the Open Cybersecurity Schema Framework.
    pub ocsf: bool,
    /// Only messages that match it are recorded; empty: all.
    pub filter: DocBuf,
    /// `setAuditConfig` sets the filter, which is stored with the data.
    pub runtime: bool,
}

/// Reads the filter of an audit log: a document in extended JSON or in the shell's notation.
///
/// # Errors
/// A text that says what is wrong.
pub fn check_audit_filter(text: &str) -> Result<DocBuf, String> {
    let doc = json::parse(text)?;
    super::parse(doc.as_doc()).map_err(|error| error.message().to_owned())?;
    Ok(doc)
}
