//! Room for the values that an operator keeps from its operand, each by itself.

use nagi_bson::{Array, ValueBuf};
use nagi_budget::meter;
use nagi_error::{Code, Result, bail};

/// What a copy takes beside its bytes: its place in a list that grows to twice its length, and the allocator's.
const COPY_BYTES: usize = 2 * size_of::<ValueBuf>() + 32;
/// Less is not asked for.
const ASKED_BYTES: usize = 256 << 10;

/// Asks for room to keep each value of an array by itself: of a million numbers that is many times what they
/// take in a message.
///
/// # Errors
/// 146 if there is none.
pub(crate) fn room_for(array: Array<'_>) -> Result<()> {
    let bytes = array.as_bytes().len();
    // An element has three bytes at least.
    if bytes / 3 * COPY_BYTES <= ASKED_BYTES {
        return Ok(());
    }
    let copies = bytes + array.iter().count() * COPY_BYTES;
    if copies <= ASKED_BYTES || meter::fits_in_time(copies, None) {
        return Ok(());
    }
    bail!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: the values of an operator need {copies} bytes, and the server has not so \
         many left"
    );
}
