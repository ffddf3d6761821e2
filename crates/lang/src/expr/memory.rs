//! Memory limits of evaluation.
//!
//! A few operators in a loop double a value with every iteration: without limits a query of a hundred bytes uses all
//! memory. Two fixed limits apply. One value may have as many bytes as a document inside of the server (64 MiB; a
//! document sent to a client may have 16). All values built for one document may have four times that.
//!
//! Below these limits the request may use the memory that the server has left. [`super::Pace::check_memory`] checks it
//! before a large value is built, and in each iteration of a loop after it has built large values.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

use super::Eval;

/// The largest document, array or string that an expression builds: 64 MiB, and 16 KiB for its envelope.
pub const VALUE_BYTES_MAX: usize = (64 << 20) + (16 << 10);
/// The limit for all values that are built for one document.
const ARENA_BYTES_MAX: usize = 4 * (64 << 20);
/// Smaller results are not checked where they are built, only in the loops that contain them.
const SMALL_BYTES: usize = 1 << 10;
/// Smaller values are built without a check of the memory.
const UNASKED_BYTES: usize = 64 << 10;
/// The maximal nesting of a value that a loop builds: what may be stored.
const LOOP_DEPTH_MAX: usize = 180;

impl Eval<'_> {
    /// Checks that a value of this length fits into the arena.
    ///
    /// # Errors
    /// 10334 for a value that is too large, 146 if too much was built for this document or the memory is not
    /// available.
    pub(crate) fn check_value_memory(&self, bytes: usize) -> Result<()> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        check_size(bytes)?;
        self.check_arena(bytes)?;
        self.check_work(bytes)
    }

    /// Must be called in every iteration of a loop that evaluates an expression.
    pub(crate) fn check_turn(&self, written: usize) -> Result<()> {
        self.check_written(written)?;
        self.check_arena(0)?;
        match self.arena.allocated_bytes() > UNASKED_BYTES {
            true => self.vars.check_memory(0),
            false => Ok(()),
        }
    }

    /// Must be called in every iteration of a loop that appends to a value whose current length is `written`. It
    /// allows for twice that length: a buffer that grows is copied to one of double capacity.
    #[inline]
    pub(crate) fn check_written(&self, written: usize) -> Result<()> {
        if written <= UNASKED_BYTES {
            return Ok(());
        }
        check_size(written)?;
        self.vars.check_memory(2 * written)
    }

    /// Returns the value that is going to be written after `written` bytes, if the memory for both is available.
    #[inline]
    pub(crate) fn fitting<'v>(&self, written: usize, value: Value<'v>) -> Result<Value<'v>> {
        self.check_work(written + bytes_of(value))?;
        Ok(value)
    }

    /// Checks that the memory for temporary data is available: lists, strings, sets.
    ///
    /// # Errors
    /// 146 if it is not.
    #[inline]
    pub(crate) fn check_work(&self, bytes: usize) -> Result<()> {
        match bytes > UNASKED_BYTES {
            true => self.vars.check_memory(bytes),
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

/// The length of a value of variable length; 0 for the others.
fn bytes_of(value: Value<'_>) -> usize {
    match value {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => text.len(),
        Value::Doc(doc) => doc.len(),
        Value::Array(items) => items.as_bytes().len(),
        Value::Binary(data) => data.bytes.len(),
        _ => 0,
    }
}

/// Checks the length of a document or an array.
///
/// # Errors
/// 10334 if it is too large.
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

/// Checks the length of a string.
///
/// # Errors
/// 13548 if it is too large.
pub(crate) fn check_text(bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX {
        bail!(
            Code::Location(13548),
            "BufBuilder attempted to grow() to {bytes} bytes, past the 64MB limit."
        );
    }
    Ok(())
}

/// Checks the nesting of the value of a loop's iteration, before the next iteration uses it.
///
/// # Errors
/// 15 if it is too deep.
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
