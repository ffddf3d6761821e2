//! Documents with their metadata in one run of bytes: what stands in memory or on disk in between.
//!
//! ```text
//!   document | metadata       the second only if there is any; both know their lengths
//! ```

use nagi_bson::Doc;

use super::Source;

/// Appends the current document of `source`, with its metadata.
pub(crate) fn carry(source: &dyn Source, out: &mut Vec<u8>) {
    out.extend_from_slice(source.doc().as_bytes());
    let meta = source.meta();
    if !meta.is_empty() {
        out.extend_from_slice(meta.as_bytes());
    }
}

/// The document of what [`carry`] wrote.
pub(crate) fn document(bytes: &[u8]) -> Doc<'_> {
    Doc::trusted(&bytes[..length(bytes)])
}

/// The metadata of what [`carry`] wrote; empty if there is none.
pub(crate) fn metadata(bytes: &[u8]) -> Doc<'_> {
    Doc::trusted(&bytes[length(bytes)..])
}

/// Length of the document that `bytes` begin with.
fn length(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    length.min(bytes.len())
}
