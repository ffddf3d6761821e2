//! Records: a document as it is stored, and its id.
//!
//!   value of a record:  00 | document
//!                       01 | packed document, see `pack`

use std::cell::Cell;

use nagi_bson::Doc;
use nagi_error::{Error, Result};
use nagi_kv::Compressor;

use crate::pack::{PACK_BYTES_MIN, pack, unpack};
pub use crate::record_key::{RecordId, RecordKey};

/// Deepest nesting of a stored document.
pub const DOCUMENT_DEPTH_MAX: usize = 180;

/// The document as it is.
const PLAIN: u8 = 0;
/// The document packed: large ones of collections with a compressor.
const PACKED: u8 = 1;

/// How documents are stored: asked for those that are large enough only.
pub(crate) struct Packing {
    pub(crate) compressor: Compressor,
    pub(crate) zstd_level: i32,
}

/// Appends the stored form of a document.
pub(crate) fn encode(doc: Doc<'_>, packing: impl FnOnce() -> Packing, out: &mut Vec<u8>) {
    if doc.len() >= PACK_BYTES_MIN {
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

/// The same for who does not trust it: bytes that may be no document.
pub(crate) fn decode_bytes<'v>(value: &'v [u8], spare: &'v mut Vec<u8>) -> Result<&'v [u8]> {
    match value {
        [PLAIN, doc @ ..] => Ok(doc),
        [PACKED, packed @ ..] => {
            unpack(packed, spare)?;
            Ok(spare)
        }
        _ => Err(unknown_format()),
    }
}

/// The document of a record that is not packed; empty if it has no known format.
pub(crate) fn plain(value: &[u8]) -> Doc<'_> {
    match value {
        [PLAIN, doc @ ..] => Doc::trusted(doc),
        _ => Doc::EMPTY,
    }
}

/// The document of a record that is not packed.
pub(crate) fn known(value: &[u8]) -> Result<Doc<'_>> {
    match value {
        [PLAIN, doc @ ..] => Ok(Doc::trusted(doc)),
        _ => Err(unknown_format()),
    }
}

/// Whether the record must be unpacked to be read.
pub(crate) fn is_packed(value: &[u8]) -> bool {
    value.first() == Some(&PACKED)
}

/// Memory to read a record into; kept for the next one.
#[derive(Default)]
pub struct RecordBuf {
    /// As it is stored, if the engine lends nothing.
    pub(crate) value: Vec<u8>,
    /// Unpacked.
    pub(crate) doc: Vec<u8>,
}

#[cold]
fn unknown_format() -> Error {
    Error::bug("a record has an unknown format")
}

/// Buffers of a thread that grew beyond this are given back after use.
pub(crate) const SCRATCH_BYTES_MAX: usize = 256 << 10;

/// Runs `f` with two empty buffers of this thread: point reads allocate nothing.
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
