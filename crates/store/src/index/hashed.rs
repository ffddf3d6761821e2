//! The hash of a value in a hashed index: 64 bits, equal for equal numbers of any type.
//!
//! FNV-1a over the value's key string, then mixed. The function is part of the stored format.

use nagi_bson::Value;

use crate::keystring;

/// The hash, as the value that is indexed.
pub(crate) fn value(value: Value<'_>) -> Value<'static> {
    Value::Int64(hash_value(value))
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
