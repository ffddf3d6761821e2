//! The error for bytes that are not valid BSON.

use std::fmt;

/// The result of parsing bytes that may not be BSON.
pub type Result<T> = std::result::Result<T, ParseError>;

/// The reason why bytes are not a valid document, and the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// The reason, as a text for the client.
    pub reason: &'static str,
    /// The byte position in the outermost document.
    pub offset: usize,
}

impl ParseError {
    pub(crate) const TOO_DEEP: &'static str = "nesting is too deep";

    /// Returns true if the only error is nesting beyond [`crate::DEPTH_MAX`] (MongoDB answers Overflow).
    pub fn is_too_deep(&self) -> bool {
        self.reason == Self::TOO_DEEP
    }

    pub(crate) const fn new(reason: &'static str, offset: usize) -> Self {
        Self { reason, offset }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.reason, self.offset)
    }
}

impl std::error::Error for ParseError {}
