//! Errors of frames, and if the connection can continue after them.

use nagi_error::{Code, Error};

/// The result of parsing a frame.
pub type Result<T> = std::result::Result<T, Fault>;

/// A frame that cannot be processed.
#[derive(Debug)]
pub struct Fault {
    /// The error in the reply, if one is sent.
    pub error: Error,
    /// The position in the stream (or the peer) cannot be trusted any more: close the connection.
    pub closes: bool,
    /// True if a reply may be sent (before closing): the header was valid enough for one.
    pub answers: bool,
}

impl Fault {
    /// A broken frame: the connection is closed without a reply, as MongoDB does.
    pub fn framing(message: impl Into<String>) -> Fault {
        let error = Error::new(Code::PROTOCOL_ERROR, message);
        Fault { error, closes: true, answers: false }
    }

    /// An error that is reported before the connection is closed.
    pub(crate) fn last_word(error: Error) -> Fault {
        Fault { error, closes: true, answers: true }
    }

    /// An error in the contents: it is reported, and the connection continues.
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
