//! Hashes that are visible to clients: `$hash`, `$hexHash`, `$toHashedIndexKey`.
//!
//! MongoDB's key of a hashed index is the first half of an MD5 over
//!
//! ```text
//!   seed 0 (int32) | element          element = sort class (int32) | name with 0 | content
//! ```
//!
//! The content of a number is its value truncated to int64, so that equal numbers of any type have the same hash. The
//! content of a document or array is its elements followed by an end. The content of other values is their bytes. The
//! top element has no name.
//!
//! Nagi's own hashed indexes use another hash (`store::index::hashed`). This one is for clients that compute the keys
//! themselves.

use md5::{Digest, Md5};
use nagi_bson::{Doc, DocBuf, Value, compare, number};
use sha2::Sha256;

/// The MD5 of bytes.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// The SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1)
}

/// The XXH64 of bytes with seed 0.
pub fn xxh64(bytes: &[u8]) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        PRIME_5
    } else {
        let mut lanes = [PRIME_1.wrapping_add(PRIME_2), PRIME_2, 0, 0u64.wrapping_sub(PRIME_1)];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        lanes.iter().fold(turned.fold(0, u64::wrapping_add), |hash, lane| {
            (hash ^ round(0, *lane)).wrapping_mul(PRIME_1).wrapping_add(PRIME_4)
        })
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIME_1);
        hash = hash.rotate_left(23).wrapping_mul(PRIME_2).wrapping_add(PRIME_3);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

/// The key of a value in MongoDB's hashed index; a missing value is hashed as null.
pub fn index_key(value: Value<'_>) -> i64 {
    let value = if value.is_missing() { Value::Null } else { value };
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&0i32.to_le_bytes());
    append(None, value, &mut bytes);
    let [a, b, c, d, e, f, g, h, ..] = md5(&bytes);
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

fn append(name: Option<&str>, value: Value<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&sort_class(value).to_le_bytes());
    if let Some(name) = name {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
    }
    match value {
        Value::Doc(doc) => append_elements(doc, out),
        Value::Array(items) => {
            let text = |at: usize| at.to_string();
            for (at, item) in items.iter().enumerate() {
                append(Some(&text(at)), item, out);
            }
            append_end(out);
        }
        Value::CodeWithScope(code) => {
            out.extend_from_slice(code.code().as_bytes());
            out.push(0);
            append_elements(code.scope(), out);
        }
        value if value.is_number() => out.extend_from_slice(&truncated(value).to_le_bytes()),
        value => {
            // The bytes of the value follow the type and name of a field.
            let holder = DocBuf::build(|w| w.put("", value));
            let holder = holder.as_bytes();
            out.extend_from_slice(&holder[6..holder.len() - 1]);
        }
    }
}

fn append_elements(doc: Doc<'_>, out: &mut Vec<u8>) {
    for element in doc {
        append(Some(element.name()), element.value(), out);
    }
    append_end(out);
}

/// Appends the end of a document: class 0 without a name.
fn append_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&0i32.to_le_bytes());
}

/// The integer part of a number, limited to the range of int64; 0 for NaN.
fn truncated(value: Value<'_>) -> i64 {
    match value {
        Value::Decimal128(n) => match n.to_i64() {
            Some(n) => n,
            None => n.to_f64() as i64,
        },
        // MongoDB's result for 2^63 wraps around, and is part of its stored format.
        Value::Double(n) if n == i64::MAX as f64 => i64::MIN,
        Value::Double(n) => n as i64,
        value => number::as_i64_exact(value).unwrap_or(0),
    }
}

/// MongoDB's canonical type: the class by which values of different types are ordered. MinKey, missing and undefined
/// have separate numbers here.
fn sort_class(value: Value<'_>) -> i32 {
    match value {
        Value::MinKey => -1,
        Value::Missing | Value::Undefined => 0,
        other => i32::from(compare::class(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in MongoDB's own tests.
    #[test]
    fn index_keys_are_those_of_mongodb() {
        let id = *b"\x47\xcc\x67\x09\x34\x75\x06\x1e\x3d\x95\x36\x9d";
        for (value, key) in [
            (Value::String("hashThisStringLiteral"), -5776344739422278694),
            (Value::Int32(123), -6548868637522515075),
            (Value::Double(123.9), -6548868637522515075),
            (Value::Timestamp(0), -7867208682377458672),
            (Value::ObjectId(&id), 1576265281381834298),
            (Value::DateTime(0), -1178696894582842035),
            (Value::Missing, 2338878944348059895),
            (Value::Null, 2338878944348059895),
            (Value::Int32(16), 2598032665634823220),
            (Value::Undefined, 40158834000849533),
        ] {
            assert_eq!(index_key(value), key, "{value}");
        }
    }

    #[test]
    fn xxh64_of_known_texts() {
        assert_eq!(xxh64(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(xxh64(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh64(b"Hello World"), 0x6334_D207_1924_5BC2);
        // 39 bytes, longer than a stripe.
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }
}
