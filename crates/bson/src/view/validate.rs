//! The validation that every document passes once, where it enters the server.
//!
//! It keeps an explicit stack of open documents, so that hostile nesting results in an error and not in a stack
//! overflow. Validated are lengths, terminators, type bytes, UTF-8 of names and strings, and nesting. Not validated
//! are the contents of binary data, the names of array elements (old drivers wrote other names than 0, 1, ...), and
//! the bytes of bools.

use crate::{ParseError, Result, view::raw};

/// The maximal nesting of documents from clients (MongoDB's `maxBSONDepth`, 200).
pub const DEPTH_MAX: usize = 200;

/// The maximal nesting of documents that the storage wraps around a client's document, such as catalog entries.
pub(crate) const WRAPPED_DEPTH_MAX: usize = DEPTH_MAX + 20;

/// The size of the largest document that a user may store (MongoDB's 16 MiB).
pub const DOC_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads the length in the first four bytes and checks it against the available bytes.
pub(crate) fn document_len(bytes: &[u8]) -> Result<usize> {
    if bytes.len() < 5 {
        return Err(ParseError::new("document is shorter than five bytes", 0));
    }
    match usize::try_from(raw::int32(bytes, 0)) {
        Ok(len) if (5..=bytes.len()).contains(&len) => Ok(len),
        _ => Err(ParseError::new("document length does not fit", 0)),
    }
}

/// Checks that `bytes` is exactly one document with at most `depth_max` levels.
pub(crate) fn document(bytes: &[u8], depth_max: usize) -> Result<()> {
    if document_len(bytes)? != bytes.len() {
        return Err(ParseError::new("bytes follow the document", bytes.len()));
    }
    let mut check = Check { bytes, at: 4, ends: [0; WRAPPED_DEPTH_MAX + 1], depth: 0, depth_max };
    check.ends[0] = bytes.len() as u32;
    check.run()
}

struct Check<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The end (exclusive, after the terminator) of each open document.
    ends: [u32; WRAPPED_DEPTH_MAX + 1],
    depth: usize,
    /// At most [`WRAPPED_DEPTH_MAX`].
    depth_max: usize,
}

impl Check<'_> {
    fn fail<T>(&self, reason: &'static str) -> Result<T> {
        Err(ParseError::new(reason, self.at))
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let end = self.ends[self.depth] as usize;
            if self.at >= end {
                return self.fail("document has no terminator");
            }
            let kind = self.bytes[self.at];
            if kind == 0 {
                if self.at + 1 != end {
                    return self.fail("terminator inside a document");
                }
                self.at = end;
                if self.depth == 0 {
                    return Ok(());
                }
                self.depth -= 1;
                continue;
            }
            self.at += 1;
            self.cstring(end)?;
            self.value(kind, end)?;
        }
    }

    fn cstring(&mut self, end: usize) -> Result<()> {
        let rest = &self.bytes[self.at..end];
        let Some((len, ascii)) = raw::name_end(rest) else {
            return self.fail("name has no terminator");
        };
        if !ascii && std::str::from_utf8(&rest[..len]).is_err() {
            return self.fail("name is not valid UTF-8");
        }
        self.at += len + 1;
        Ok(())
    }

    fn skip(&mut self, len: usize, end: usize) -> Result<()> {
        match self.at.checked_add(len) {
            Some(at) if at < end => {
                self.at = at;
                Ok(())
            }
            _ => self.fail("value runs over the end of its document"),
        }
    }

    /// Checks a length-prefixed string with its terminator.
    fn string(&mut self, end: usize) -> Result<()> {
        let len = self.length(end, 1)?;
        let at = self.at + 4;
        let Some(bytes) = self.bytes[..end].get(at..at + len) else {
            return self.fail("string runs over the end of its document");
        };
        if bytes[len - 1] != 0 {
            return self.fail("string has no terminator");
        }
        // The check of the standard library processes text that is not ASCII byte by byte: a sixth of the time of an
        // insert of one kilobyte of such text.
        if simdutf8::basic::from_utf8(&bytes[..len - 1]).is_err() {
            return self.fail("string is not valid UTF-8");
        }
        self.skip(4 + len, end)
    }

    fn length(&self, end: usize, least: i32) -> Result<usize> {
        if self.at + 4 > end {
            return self.fail("value runs over the end of its document");
        }
        let len = raw::int32(self.bytes, self.at);
        if len < least {
            return self.fail("length is out of range");
        }
        Ok(len as usize)
    }

    fn value(&mut self, kind: u8, end: usize) -> Result<()> {
        match kind {
            0x06 | 0x0A | 0x7F | 0xFF => Ok(()),
            0x08 => self.skip(1, end),
            0x10 => self.skip(4, end),
            0x01 | 0x09 | 0x11 | 0x12 => self.skip(8, end),
            0x07 => self.skip(12, end),
            0x13 => self.skip(16, end),
            0x02 | 0x0D | 0x0E => self.string(end),
            0x03 | 0x04 => self.open(end),
            0x05 => self.binary(end),
            0x0B => {
                self.cstring(end)?;
                self.cstring(end)
            }
            0x0C => {
                self.string(end)?;
                self.skip(12, end)
            }
            0x0F => self.code_with_scope(end),
            _ => self.fail("unknown type of element"),
        }
    }

    /// Enters a nested document or array.
    fn open(&mut self, end: usize) -> Result<()> {
        let len = self.length(end, 5)?;
        let close = self.at + len;
        if close >= end {
            return self.fail("nested document runs over the end of its document");
        }
        if self.depth >= self.depth_max.min(WRAPPED_DEPTH_MAX) {
            return self.fail(ParseError::TOO_DEEP);
        }
        self.depth += 1;
        self.ends[self.depth] = close as u32;
        self.at += 4;
        Ok(())
    }

    fn binary(&mut self, end: usize) -> Result<()> {
        let len = self.length(end, 0)?;
        if self.at + 5 > end {
            return self.fail("value runs over the end of its document");
        }
        if self.bytes[self.at + 4] == 2
            && (len < 4 || raw::int32(self.bytes, self.at + 5) != len as i32 - 4)
        {
            return self.fail("old binary data has a wrong inner length");
        }
        self.skip(5 + len, end)
    }

    fn code_with_scope(&mut self, end: usize) -> Result<()> {
        let len = self.length(end, 14)?;
        let close = self.at + len;
        if close >= end {
            return self.fail("code with scope runs over the end of its document");
        }
        self.at += 4;
        self.string(close)?;
        let scope = self.bytes.get(self.at..close).unwrap_or(&[]);
        if document_len(scope)? != scope.len() {
            return self.fail("scope has a wrong length");
        }
        self.open(close + 1)
    }
}
