//! The error type and the two macros that create it.

use std::fmt;

use nagi_bson::DocBuf;

use crate::Code;

/// The result of an operation that may fail with an error for the client.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with everything that its reply needs. It is one pointer in size.
pub struct Error(Box<Inner>);

struct Inner {
    code: Code,
    message: String,
    info: Option<DocBuf>,
    labels: Vec<&'static str>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { code, message: message.into(), info: None, labels: Vec::new() }))
    }

    /// A violated invariant on the path of a request: it is logged and reported as InternalError.
    pub fn bug(message: impl Into<String>) -> Error {
        let message = message.into();
        Error::new(Code::INTERNAL_ERROR, message)
    }

    /// Adds fields that the reply has at its top level (`keyPattern`, `keyValue`, `errInfo`).
    #[must_use]
    pub fn with_info(mut self, info: DocBuf) -> Error {
        self.0.info = Some(info);
        self
    }

    /// Adds an error label such as `TransientTransactionError`.
    #[must_use]
    pub fn with_label(mut self, label: &'static str) -> Error {
        self.0.labels.push(label);
        self
    }

    /// The same error with `prefix` before its message, as in "PlanExecutor error ... caused by ::".
    #[must_use]
    pub fn context(mut self, prefix: &str) -> Error {
        self.0.message.insert_str(0, prefix);
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same error without extra fields.
    #[must_use]
    pub fn without_info(mut self) -> Error {
        self.0.info = None;
        self
    }

    pub fn info(&self) -> Option<&DocBuf> {
        self.0.info.as_ref()
    }

    pub fn labels(&self) -> &[&'static str] {
        &self.0.labels
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.0.code.0, self.0.code.name(), self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<nagi_bson::ParseError> for Error {
    fn from(error: nagi_bson::ParseError) -> Error {
        let code = if error.is_too_deep() { Code::OVERFLOW } else { Code::INVALID_BSON };
        Error::new(code, format!("Invalid BSON: {error}"))
    }
}

/// Makes an error: `err!(Code::BAD_VALUE, "unknown operator: {name}")`.
#[macro_export]
macro_rules! err {
    ($code:expr, $($message:tt)+) => { $crate::Error::new($code, format!($($message)+)) };
}

/// Returns an error: `bail!(Code::BAD_VALUE, "unknown operator: {name}")`.
#[macro_export]
macro_rules! bail {
    ($code:expr, $($message:tt)+) => { return Err($crate::err!($code, $($message)+)) };
}
