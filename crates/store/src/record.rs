//! Records: the stored form of a document.
//!
//!   value of a record:  00 | document
//!                       01 | packed document, see `pack`

use std::cell::Cell;

use nagi_bson::Doc;
use nagi_error::{Error, Result};
use nagi_kv::{Compressor, difference::LOST};

pub use crate::record_key::{RecordId, RecordKey};
use crate::{
    engine_error::engine,
    pack::{PACK_BYTES_MIN, pack, unpack},
};

/// Deepest nesting of a stored document.
pub const DOCUMENT_DEPTH_MAX: usize = 180;

/// The document is stored unchanged.
const PLAIN: u8 = 0;
/// The document is packed: large documents of collections with a compressor.
const PACKED: u8 = 1;

/// Returns true if the record of this document may be packed, which depends also on its collection.
pub(crate) fn may_be_packed(doc: Doc<'_>) -> bool {
    doc.len() >= PACK_BYTES_MIN
}

/// Parameters of packing; requested only for documents that are large enough.
pub(crate) struct Packing {
    pub(crate) compressor: Compressor,
    pub(crate) zstd_level: i32,
}

/// Appends the stored form of a document.
pub(crate) fn encode(doc: Doc<'_>, packing: impl FnOnce() -> Packing, out: &mut Vec<u8>) {
    if may_be_packed(doc) {
        let Packing { compressor, zstd_level } = packing();
        out.push(PACKED);
        if pack(doc.as_bytes(), compressor, zstd_level, out) {
            return;
        }
        out.pop();
    }
    encode_plain(doc, out);
}

/// Appends the stored form of a document of the server's own.
pub(crate) fn encode_plain(doc: Doc<'_>, out: &mut Vec<u8>) {
    out.push(PLAIN);
    out.extend_from_slice(doc.as_bytes());
}

/// The document in a stored record; a packed one is unpacked into `spare`.
pub(crate) fn decode<'v>(value: &'v [u8], spare: &'v mut Vec<u8>) -> Result<Doc<'v>> {
    decode_bytes(value, spare).map(Doc::trusted)
}

/// The same for untrusted records: the bytes may not be a valid document.
pub(crate) fn decode_bytes<'v>(value: &'v [u8], spare: &'v mut Vec<u8>) -> Result<&'v [u8]> {
    match value {
        [PLAIN, doc @ ..] => Ok(doc),
        [PACKED, packed @ ..] => {
            unpack(packed, spare)?;
            Ok(spare)
        }
        _ => Err(unreadable(value)),
    }
}

/// The document of a record that is not packed; empty if its format is unknown.
pub(crate) fn plain(value: &[u8]) -> Doc<'_> {
    match value {
        [PLAIN, doc @ ..] => Doc::trusted(doc),
        _ => Doc::EMPTY,
    }
}

/// The document of a record that is not packed; an error if its format is unknown.
pub(crate) fn known(value: &[u8]) -> Result<Doc<'_>> {
    match value {
        [PLAIN, doc @ ..] => Ok(Doc::trusted(doc)),
        _ => Err(unreadable(value)),
    }
}

/// Returns true if the record must be unpacked.
pub(crate) fn is_packed(value: &[u8]) -> bool {
    value.first() == Some(&PACKED)
}

/// Buffers to read a record into, to be reused.
#[derive(Default)]
pub struct RecordBuf {
    /// The stored form, if the engine does not lend it.
    pub(crate) value: Vec<u8>,
    /// The unpacked document.
    pub(crate) doc: Vec<u8>,
}

#[cold]
fn unreadable(value: &[u8]) -> Error {
    match value {
        LOST => engine(nagi_kv::Error::Corrupt(
            "the version of a record is lost to which its changes belong".to_owned(),
        )),
        _ => Error::bug("a record has an unknown format"),
    }
}

/// Larger buffers of a thread are released after use.
pub(crate) const SCRATCH_BYTES_MAX: usize = 256 << 10;

/// Calls `f` with two empty buffers of this thread, so that point reads do not allocate.
pub(crate) fn with_scratch<T>(f: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<(Vec<u8>, Vec<u8>)> = const { Cell::new((vec![], vec![])) };
    }
    let (mut key, mut value) = SCRATCH.take();
    key.clear();
    value.clear();
    let result = f(&mut key, &mut value);
    if key.capacity() + value.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set((key, value));
    }
    result
}
