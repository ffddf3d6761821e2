//! What a check says.

use nagi_bson::DocBuf;

/// How much a finding hurts; worst first when sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Data or service is in danger.
    Critical,
    /// Operations stall or fail under load.
    Warning,
    /// Could be better.
    Note,
}

impl Severity {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Why a check cannot tell: what was missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKnown(pub String);

/// A check's answer.
pub type Verdict = Result<Outcome, NotKnown>;

/// A check's answer when what it needs could be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// As it should be; the value that was seen.
    Good(String),
    /// Not as it should be.
    Bad(Box<Finding>),
}

/// Something to repair.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, with its value.
    pub what: String,
    /// Why it hurts a database.
    pub why: String,
    /// The command or the setting that repairs it.
    pub mend: String,
    /// The line that a server logs when it starts; notes have none.
    pub startup: Option<StartupLine>,
}

/// A line of the log with the tag `startupWarnings`.
#[derive(Debug, Clone, PartialEq)]
pub struct StartupLine {
    /// MongoDB's component.
    pub component: &'static str,
    /// MongoDB's id where it has such a warning; ours begin at 8210001.
    pub id: i64,
    /// The message, in MongoDB's words where it has such a warning.
    pub message: String,
    /// The attributes.
    pub attr: DocBuf,
}

/// Begins a finding. `what`, then `why`, then `mend`.
pub(crate) fn found(
    severity: Severity,
    what: impl Into<String>,
    why: impl Into<String>,
    mend: impl Into<String>,
) -> Finding {
    let (what, why, mend) = (what.into(), why.into(), mend.into());
    Finding { severity, what, why, mend, startup: None }
}

/// Nothing to repair.
pub(crate) fn good(value: impl Into<String>) -> Verdict {
    Ok(Outcome::Good(value.into()))
}

impl Finding {
    /// Logged as `id` with this message when a server starts.
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

    /// Logged with `what` as the message.
    pub(crate) fn logged_as_found(self, component: &'static str, id: i64) -> Finding {
        let message = self.what.clone();
        self.logged(component, id, message, DocBuf::new())
    }

    /// As a check's answer.
    pub(crate) fn verdict(self) -> Verdict {
        Ok(Outcome::Bad(Box::new(self)))
    }
}
