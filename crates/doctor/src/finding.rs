//! The results of checks.

use nagi_bson::DocBuf;

/// The severity of a finding; sorting puts the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Data or service is at risk.
    Critical,
    /// Operations stall or fail under load.
    Warning,
    /// An improvement is possible.
    Note,
}

impl Severity {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// The reason a check has no result: the input that was missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKnown(pub String);

/// The result of a check.
pub type Verdict = Result<Outcome, NotKnown>;

/// The result of a check whose inputs could be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// No problem; the observed value.
    Good(String),
    /// A problem.
    Bad(Box<Finding>),
}

/// A problem to fix.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The observation, with its value.
    pub what: String,
    /// The reason it is harmful for a database.
    pub why: String,
    /// The command or the setting that fixes it.
    pub fix: String,
    /// The line that a server logs at startup; notes have none.
    pub startup: Option<StartupLine>,
}

/// A line of the log with the tag `startupWarnings`.
#[derive(Debug, Clone, PartialEq)]
pub struct StartupLine {
    /// MongoDB's component.
    pub component: &'static str,
    /// MongoDB's id if MongoDB has such a warning; Nagi's ids begin at 8210001.
    pub id: i64,
    /// The message, in MongoDB's words if MongoDB has such a warning.
    pub message: String,
    /// The attributes.
    pub attr: DocBuf,
}

/// Creates a finding from `what`, `why` and `fix`.
pub(crate) fn found(
    severity: Severity,
    what: impl Into<String>,
    why: impl Into<String>,
    fix: impl Into<String>,
) -> Finding {
    let (what, why, fix) = (what.into(), why.into(), fix.into());
    Finding { severity, what, why, fix, startup: None }
}

/// The result "no problem".
pub(crate) fn good(value: impl Into<String>) -> Verdict {
    Ok(Outcome::Good(value.into()))
}

impl Finding {
    /// Adds a startup log line with this `id` and message.
    pub(crate) fn logged(
        mut self,
        component: &'static str,
        id: i64,
        message: impl Into<String>,
        attr: DocBuf,
    ) -> Finding {
        self.startup = Some(StartupLine { component, id, message: message.into(), attr });
        self
    }

    /// Adds a startup log line whose message is `what`.
    pub(crate) fn logged_as_found(self, component: &'static str, id: i64) -> Finding {
        let message = self.what.clone();
        self.logged(component, id, message, DocBuf::new())
    }

    /// Converts the finding to a check's result.
    pub(crate) fn verdict(self) -> Verdict {
        Ok(Outcome::Bad(Box::new(self)))
    }
}
