//! Serialized documents with their metadata, for documents kept in memory or on disk.
//!
//! ```text
//!   document | metadata       metadata only if there is any; both begin with their lengths
//! ```

use nagi_bson::Doc;

use super::Source;

/// Appends the current document of `source` and its metadata.
pub(crate) fn serialize(source: &dyn Source, out: &mut Vec<u8>) {
    out.extend_from_slice(source.doc().as_bytes());
    let meta = source.meta();
    if !meta.is_empty() {
        out.extend_from_slice(meta.as_bytes());
    }
}

/// The document written by [`serialize`].
pub(crate) fn document(bytes: &[u8]) -> Doc<'_> {
    Doc::trusted(&bytes[..length(bytes)])
}

/// The metadata written by [`serialize`]; empty if there is none.
pub(crate) fn metadata(bytes: &[u8]) -> Doc<'_> {
    Doc::trusted(&bytes[length(bytes)..])
}

/// Length of the document at the beginning of `bytes`.
fn length(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    length.min(bytes.len())
}
