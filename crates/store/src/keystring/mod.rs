//! Index key strings: order-preserving bytes for BSON values.
//!
//! `append(a) < append(b)` as bytes exactly when `a < b` in BSON order under the field's direction.
//! Each field's encoding ends itself, so a key is its fields' encodings one after the other, and all
//! keys that begin with the same values share a prefix. No encoding continues with the byte 0xFF:
//! `prefix` is a bound before all keys with those leading values, `prefix | 0xFF` one after all.

use nagi_bson::{DocWriter, Value};

/// Appended to a prefix of whole fields: a bound after all keys that begin with the prefix.
pub const AFTER: u8 = 0xFF;

/// Appends the encoding of one field. A missing value encodes as null.
pub fn append(value: Value<'_>, descending: bool, out: &mut Vec<u8>) {
    let _ = (value, descending, out);
    unimplemented!("next commit")
}

/// Writes the values of a key, with the given names, in the types they were indexed with. `Missing`
/// writes nothing. `fields` yields name and direction of each field of the key pattern.
pub fn decode<'n>(
    key: &[u8],
    type_bits: &[u8],
    fields: impl Iterator<Item = (&'n str, bool)>,
    out: &mut DocWriter<'_>,
) -> nagi_error::Result<()> {
    let _ = (key, type_bits, fields, out);
    unimplemented!("next commit")
}
