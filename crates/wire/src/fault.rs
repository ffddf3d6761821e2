//! What is wrong with a frame, and whether the connection survives it.

use nagi_error::{Code, Error};

/// The result of taking a frame apart.
pub type Result<T> = std::result::Result<T, Fault>;

/// A frame that cannot be served.
#[derive(Debug)]
pub struct Fault {
    /// What the client is told, where an answer is due.
    pub error: Error,
    /// The position in the stream (or the peer) cannot be trusted any more: close.
    pub closes: bool,
    /// Whether an answer may be sent (before closing): the header was good enough for one.
    pub answers: bool,
}

impl Fault {
    /// A broken frame: close without a word, as MongoDB does.
    pub fn framing(message: impl Into<String>) -> Fault {
        let error = Error::new(Code::PROTOCOL_ERROR, message);
        Fault { error, closes: true, answers: false }
    }

    /// An error that is answered before the connection is closed.
    pub(crate) fn last_word(error: Error) -> Fault {
        Fault { error, closes: true, answers: true }
    }

    /// An error in the contents: answered, and the connection continues.
    pub(crate) fn content(error: impl Into<Error>) -> Fault {
        Fault { error: error.into(), closes: false, answers: true }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Fault {}
