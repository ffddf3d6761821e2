//! How large what expressions make may become.
//!
//! A few operators in a loop double a value with every step: without bounds a query of a hundred bytes
//! takes all memory there is. One value may have as many bytes as a document inside of the server (64 MiB;
//! 16 leave it), everything made for one document four times that.
//!
//! Within these the request has what the server has left for it: [`super::Pace::room`] is called before
//! something large is made, and in the turns of loops once they have made something large.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use super::Eval;

/// Largest document, array or string that an expression makes: 64 MiB, and 16 KiB for what is around it.
pub const VALUE_BYTES_MAX: usize = (64 << 20) + (16 << 10);
/// Everything that is made for one document.
const ARENA_BYTES_MAX: usize = 4 * (64 << 20);
/// Smaller results are not counted where they are made, only by the loops around them.
const SMALL_BYTES: usize = 1 << 10;
/// What is smaller than this is not asked for before it is made.
const UNASKED_BYTES: usize = 64 << 10;
/// Nesting of a value that a loop makes: what may be stored.
const LOOP_DEPTH_MAX: usize = 180;

impl Eval<'_> {
    /// Whether there is room for a value of this length in the arena.
    ///
    /// # Errors
    /// 10334 for a value that is too large, 146 if too much was made for this document.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<()> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        check_size(bytes)?;
        self.check_arena(bytes)?;
        self.check_work(bytes)
    }

    /// To be called in every turn of a loop that evaluates.
    pub(crate) fn check_turn(&self, written: usize) -> Result<()> {
        self.check_written(written)?;
        self.check_arena(0)?;
        match self.arena.allocated_bytes() > UNASKED_BYTES {
            true => self.vars.room(0),
            false => Ok(()),
        }
    }

    /// To be called in every turn of a loop that writes what it has, to a value that is so long by now. A
    /// buffer that grows is copied to one of twice its length.
    #[inline]
    pub(crate) fn check_written(&self, written: usize) -> Result<()> {
        if written <= UNASKED_BYTES {
            return Ok(());
        }
        check_size(written)?;
        self.vars.room(2 * written)
    }

    /// Passes on what is going to be written behind `written` bytes, if there is room for it.
    #[inline]
    pub(crate) fn fitting<'v>(&self, written: usize, value: Value<'v>) -> Result<Value<'v>> {
        self.check_work(written + bytes_of(value))?;
        Ok(value)
    }

    /// Whether there is memory for so many bytes of anything that is made on the way: lists, texts, sets.
    ///
    /// # Errors
    /// 146 if there is none.
    #[inline]
    pub(crate) fn check_work(&self, bytes: usize) -> Result<()> {
        match bytes > UNASKED_BYTES {
            true => self.vars.room(bytes),
            false => Ok(()),
        }
    }

    fn check_arena(&self, more: usize) -> Result<()> {
        if self.arena.allocated_bytes() + more > ARENA_BYTES_MAX {
            bail!(
                Code::EXCEEDED_MEMORY_LIMIT,
                "Evaluating expressions for one document used too much memory. Memory limit: \
                 {ARENA_BYTES_MAX} bytes"
            );
        }
        Ok(())
    }
}

/// Bytes of what may be long.
fn bytes_of(value: Value<'_>) -> usize {
    match value {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => text.len(),
        Value::Doc(doc) => doc.len(),
        Value::Array(items) => items.as_bytes().len(),
        Value::Binary(data) => data.bytes.len(),
        _ => 0,
    }
}

/// # Errors
/// 10334 for the length of a document or array that is too large.
pub fn check_size(bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX {
        bail!(
            Code::BSON_OBJECT_TOO_LARGE,
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and \
             {VALUE_BYTES_MAX}(64MB)"
        );
    }
    Ok(())
}

/// # Errors
/// 13548 for the length of a string that is too large.
pub(crate) fn check_text(bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX {
        bail!(
            Code::Location(13548),
            "BufBuilder attempted to grow() to {bytes} bytes, past the 64MB limit."
        );
    }
    Ok(())
}

/// # Errors
/// 15 for a value that nests too deep for a loop to continue with.
pub(crate) fn check_depth(doc: Doc<'_>) -> Result<()> {
    if doc.is_deeper_than(LOOP_DEPTH_MAX) {
        bail!(
            Code::OVERFLOW,
            "cannot convert document to BSON because it exceeds the limit of {LOOP_DEPTH_MAX} \
             levels of nesting"
        );
    }
    Ok(())
}
