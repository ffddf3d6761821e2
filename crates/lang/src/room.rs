//! Room for what is made of a request before it runs: of each of its parts, and of the values that an operator keeps.

use nagi_bson::{Array, ValueBuf};
use nagi_budget::meter;
use nagi_error::{Code, Result, bail};

/// What a copy takes beside its bytes: its place in a list that grows to twice its length, and the allocator's.
const COPY_BYTES: usize = 2 * size_of::<ValueBuf>() + 32;
/// Less is not asked for.
const ASKED_BYTES: usize = 256 << 10;

/// Asks for what the request holds by now: to be called for each part of anything that is parsed or planned, as a
/// part of a few bytes may become hundreds. A load and a comparison as long as there is enough.
///
/// # Errors
/// 146 if there is not.
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
        "Exceeded memory limit: what is made of the request needs more than the server has left"
    );
}

/// As [`check`], before a part is put in a list: one that is full is copied to one of twice its length.
///
/// # Errors
/// 146 if there is no room for that.
#[inline]
pub fn check_list<T>(list: &Vec<T>) -> Result<()> {
    match list.len() < list.capacity() {
        true => check(),
        false => check_copies(2 * list.len() * size_of::<T>()),
    }
}

/// Asks for so many bytes of copies that are going to be made.
///
/// # Errors
/// 146 if there is no room for them.
pub fn check_copies(bytes: usize) -> Result<()> {
    if bytes <= ASKED_BYTES || meter::has(bytes) {
        return check();
    }
    match meter::fits_in_time(bytes, None) {
        true => Ok(()),
        false => refuse(),
    }
}

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
