//! Finds the end of an encoding without decoding it, for skip scans with compound bounds.

use nagi_error::{Error, Result};

use super::{number::FRACTION_BITS, tag};

/// The length of the first field's encoding in `key`. No allocation.
///
/// # Errors
/// A bug, if the bytes are not a key string.
pub fn field_len(key: &[u8], descending: bool) -> Result<usize> {
    let mut skip = Skip { bytes: key, at: 0, mask: if descending { 0xFF } else { 0 } };
    skip.value()?;
    Ok(skip.at)
}

struct Skip<'k> {
    bytes: &'k [u8],
    at: usize,
    mask: u8,
}

impl Skip<'_> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).map(|byte| byte ^ self.mask);
        self.at += 1;
        byte.ok_or_else(corrupt)
    }

    fn advance(&mut self, len: usize) -> Result<()> {
        self.at = self.at.saturating_add(len);
        if self.at > self.bytes.len() { Err(corrupt()) } else { Ok(()) }
    }

    /// An escaped byte is never zero, so the first zero is the end.
    fn text(&mut self) -> Result<()> {
        while self.byte()? != tag::END {}
        Ok(())
    }

    fn sized(&mut self, extra: usize) -> Result<()> {
        let mut len = usize::from(self.byte()?);
        if len == 0xFF {
            len = 0;
            for _ in 0..4 {
                len = (len << 8) | usize::from(self.byte()?);
            }
        }
        self.advance(len + extra)
    }

    fn value(&mut self) -> Result<()> {
        match self.byte()? {
            first @ tag::NEGATIVE_LARGE..=tag::POSITIVE_LARGE => self.number(first),
            tag::STRING | tag::CODE => self.text(),
            tag::OBJECT => self.fields(),
            tag::ARRAY => {
                while self.bytes.get(self.at).map(|byte| byte ^ self.mask) != Some(tag::END) {
                    self.value()?;
                }
                self.advance(1)
            }
            tag::BINARY => self.sized(1),
            tag::OBJECT_ID => self.advance(12),
            tag::DATE | tag::TIMESTAMP => self.advance(8),
            tag::REGEX => {
                self.text()?;
                self.text()
            }
            tag::DB_POINTER => self.sized(12),
            tag::CODE_WITH_SCOPE => {
                self.text()?;
                self.fields()
            }
            _ => Ok(()),
        }
    }

    fn fields(&mut self) -> Result<()> {
        while self.byte()? != tag::END {
            self.text()?;
            self.value()?;
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<()> {
        let negative = first < tag::ZERO;
        self.mask ^= if negative { 0xFF } else { 0 };
        match first {
            tag::ZERO => {}
            tag::NEGATIVE_LARGE
            | tag::NEGATIVE_SMALL
            | tag::POSITIVE_SMALL
            | tag::POSITIVE_LARGE => {
                self.advance(2)?;
                self.fraction()?;
            }
            _ => {
                let middle = if negative { tag::NEGATIVE_INT } else { tag::POSITIVE_INT };
                self.advance(usize::from(first.abs_diff(middle)) - 1)?;
                if self.byte()? & 1 == 1 {
                    self.fraction()?;
                }
            }
        }
        self.mask ^= if negative { 0xFF } else { 0 };
        Ok(())
    }

    fn fraction(&mut self) -> Result<()> {
        for _ in 0..FRACTION_BITS / 7 {
            if self.byte()? & 1 == 0 {
                return Ok(());
            }
        }
        self.advance(17)
    }
}

#[cold]
fn corrupt() -> Error {
    Error::bug("an index key is damaged")
}
