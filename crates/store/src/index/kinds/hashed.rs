//! The hash of a value in a hashed index: 64 bits, equal for equal numbers of any type.
//!
//! FNV-1a over the value's key string, then mixed. The function is part of the stored format.

use nagi_bson::{Doc, Value, text::doc_text};
use nagi_error::{Code, Result, bail};

use crate::index::{
    KeyPart,
    kind::{Content, KindFacts, NamedBy},
};
use crate::keystring;

pub(super) static HASHED: KindFacts = KindFacts {
    name: "hashed",
    named_by: NamedBy::Value,
    content: Content::Hashes,
    check_pattern,
    not_unique: Some((
        Code::Location(16764),
        "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
    )),
    whole: true,
    ..KindFacts::ROW
};

/// Refuses a second hashed field.
fn check_pattern(key: &[KeyPart], pattern: Doc<'_>) -> Result<()> {
    if key.iter().filter(|part| part.is_hashed()).count() > 1 {
        bail!(
            Code::Location(31303),
            "A maximum of one index field is allowed to be hashed but found 2 for 'key' {}",
            doc_text(pattern)
        );
    }
    Ok(())
}

/// The hash of a value. Equal values have equal hashes; a missing value is hashed as null.
pub fn hash_value(value: Value<'_>) -> i64 {
    let mut bytes = Vec::with_capacity(32);
    keystring::append(value, false, &mut bytes);
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (hash ^ (hash >> 32)) as i64
}
