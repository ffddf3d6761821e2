//! Records: a document as it is stored, and its id.
//!
//!   value of `Space::Records`:  format (1 byte, 0 = plain BSON) | document

use std::cell::RefCell;

use nagi_bson::Doc;
use nagi_error::{Error, Result};

/// A record's place in its collection: ascending in the order of insertion, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RecordId(pub i64);

/// The document as it is.
const PLAIN: u8 = 0;

/// Appends the stored form of a document.
pub(crate) fn encode(doc: Doc<'_>, out: &mut Vec<u8>) {
    out.push(PLAIN);
    out.extend_from_slice(doc.as_bytes());
}

/// The document in a stored record.
pub(crate) fn decode(value: &[u8]) -> Result<Doc<'_>> {
    match value {
        [PLAIN, doc @ ..] => Ok(Doc::trusted(doc)),
        _ => Err(unknown_format()),
    }
}

#[cold]
fn unknown_format() -> Error {
    Error::bug("a record has an unknown format")
}

impl RecordId {
    /// Eight bytes that order as the number does.
    pub(crate) fn bytes(self) -> [u8; 8] {
        ((self.0 as u64) ^ (1 << 63)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> RecordId {
        RecordId((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
    }
}

/// Buffers of a thread that grew beyond this are given back after use.
pub(crate) const SCRATCH_BYTES_MAX: usize = 256 << 10;

/// Runs `f` with two empty buffers of this thread: point reads allocate nothing. Not to be nested.
pub(crate) fn with_scratch<T>(f: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((vec![], vec![])) };
    }
    SCRATCH.with_borrow_mut(|(key, value)| {
        key.clear();
        value.clear();
        let result = f(key, value);
        if key.capacity() + value.capacity() > SCRATCH_BYTES_MAX {
            (*key, *value) = (Vec::new(), Vec::new());
        }
        result
    })
}
