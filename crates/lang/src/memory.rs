//! Memory checks at parse and plan time: for the parsed parts of a request, and for the values that an operator
//! keeps.
//!
//! They reserve nothing. They compare the memory that the request has allocated (`nagi_budget::meter`) with what the
//! server has left, and fail with 146 ExceededMemoryLimit. Evaluation has checks of its own: [`crate::expr::memory`].

use nagi_bson::{Array, ValueBuf};
use nagi_budget::meter;
use nagi_error::{Code, Result, bail};

/// The overhead of one copied value: its place in a list that grows to twice its length, and the allocator's header.
const COPY_BYTES: usize = 2 * size_of::<ValueBuf>() + 32;
/// Allocations up to this size are not checked in advance.
const ASKED_BYTES: usize = 256 << 10;

/// Checks that the memory of the request is within its limit. Must be called for each part that is parsed or planned,
/// because a part of a few bytes may become hundreds. The cost is one load and one comparison as long as memory is
/// available.
///
/// # Errors
/// 146 if memory is not available.
#[inline]
pub fn check() -> Result<()> {
    match meter::has(0) {
        true => Ok(()),
        false => check_slowly(),
    }
}

#[cold]
fn check_slowly() -> Result<()> {
    match meter::fits_in_time(0, None) {
        true => Ok(()),
        false => refuse(),
    }
}

fn refuse() -> Result<()> {
    bail!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: data built from the request needs more memory than the server has \
         left"
    );
}

/// Like [`check`], called before a part is appended to a list. A full list is copied to one of twice its capacity.
///
/// # Errors
/// 146 if there is not enough memory for the copy.
#[inline]
pub fn check_list<T>(list: &Vec<T>) -> Result<()> {
    match list.len() < list.capacity() {
        true => check(),
        false => check_copies(2 * list.len() * size_of::<T>()),
    }
}

/// Checks that the memory for copies of this total size is available, before they are made.
///
/// # Errors
/// 146 if it is not.
pub fn check_copies(bytes: usize) -> Result<()> {
    if bytes <= ASKED_BYTES || meter::has(bytes) {
        return check();
    }
    match meter::fits_in_time(bytes, None) {
        true => Ok(()),
        false => refuse(),
    }
}

/// Checks that the memory to keep each value of an array separately is available. For a million numbers this is many
/// times their size in the message.
///
/// # Errors
/// 146 if it is not.
pub(crate) fn check_array(array: Array<'_>) -> Result<()> {
    let bytes = array.as_bytes().len();
    // An element has at least three bytes.
    if bytes / 3 * COPY_BYTES <= ASKED_BYTES {
        return Ok(());
    }
    let copies = bytes + array.iter().count() * COPY_BYTES;
    if copies <= ASKED_BYTES || meter::fits_in_time(copies, None) {
        return Ok(());
    }
    bail!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: the values of an operator need {copies} bytes, and the server has \
         less memory left"
    );
}
