//! Text-indexed values: kind 17, and the payloads of queries for them: kind 18.
//!
//! A client derives tokens from a string and, depending on the declared queries, from its prefixes, suffixes or
//! substrings. For each token a stored value contains a block of 96 bytes. Without the token a block reveals nothing.
//! The payload of a query contains the token of the text to find. A key derived from that token decrypts exactly the
//! blocks of that text to zeros.
//!
//! ```text
//!   stored:  17 (1) | key id (16) | BSON type (1)
//!            | blocks (4) | of them substrings (4) | of them suffixes (4)      little endian
//!            | ciphertext (17 at least) | the blocks: exact, substrings, suffixes, prefixes
//!   query:   18 (1) | BSON {ts: {e | s | u | p: {d, s, l: token (32)}}, cm, cf, df, ss, fs, ps}
//! ```

use aes::{Aes256, Block, cipher::BlockCipherEncrypt, cipher::KeyInit as _};
use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail};

use super::{BLOCK_BYTES, TEXT_VALUE, TOKEN_BYTES, Token, derive};

/// One byte, the id of a key, a type, three counts.
const HEADER_BYTES: usize = 30;
/// An IV and at least one byte.
const CIPHERTEXT_BYTES_MIN: usize = 17;
/// The position of the encrypted zeros in a block.
const ZEROS_AT: usize = 64;
/// The number that is hashed with a token to derive the key of the zeros.
const ZEROS_LEVEL: u64 = 2;

/// The kind of blocks that a query tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Exact,
    Substring,
    Suffix,
    Prefix,
}

/// The blocks of a stored text-indexed value.
#[derive(Debug, Clone, Copy)]
pub struct TextValue<'v> {
    blocks: &'v [[u8; BLOCK_BYTES]],
    substrings: usize,
    suffixes: usize,
}

fn invalid() -> Error {
    Error::new(Code::Location(6672400), "Invalid encrypted indexed field")
}

impl<'v> TextValue<'v> {
    /// Parses a stored value.
    ///
    /// # Errors
    /// 6672400 if it is not a well-formed text-indexed value.
    pub fn read(bytes: &'v [u8]) -> Result<TextValue<'v>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(invalid)?;
        if header[0] != TEXT_VALUE {
            return Err(invalid());
        }
        let (counts, _) = header[18..].as_chunks::<4>();
        let [blocks, substrings, suffixes] = counts else { return Err(invalid()) };
        let count = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        let (blocks, substrings, suffixes) = (count(blocks), count(substrings), count(suffixes));
        // One block belongs to the whole string.
        let named = substrings.checked_add(suffixes).and_then(|named| named.checked_add(1));
        let at = blocks.checked_mul(BLOCK_BYTES).and_then(|bytes| rest.len().checked_sub(bytes));
        match (named, at) {
            (Some(named), Some(at)) if named <= blocks && at >= CIPHERTEXT_BYTES_MIN => {
                let (blocks, _) = rest[at..].as_chunks();
                Ok(TextValue { blocks, substrings, suffixes })
            }
            _ => Err(invalid()),
        }
    }

    /// All blocks.
    pub fn all(&self) -> &'v [[u8; BLOCK_BYTES]] {
        self.blocks
    }

    /// The blocks of one kind.
    pub fn blocks(&self, part: Part) -> &'v [[u8; BLOCK_BYTES]] {
        let (exact, rest) = self.blocks.split_at(1);
        let (substrings, rest) = rest.split_at(self.substrings);
        let (suffixes, prefixes) = rest.split_at(self.suffixes);
        match part {
            Part::Exact => exact,
            Part::Substring => substrings,
            Part::Suffix => suffixes,
            Part::Prefix => prefixes,
        }
    }
}

/// The key that decrypts the zeros of the blocks of one text.
#[derive(Clone)]
pub struct ZerosKey(Aes256);

impl std::fmt::Debug for ZerosKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }
}

impl ZerosKey {
    /// Reads the key from the payload of a text query, without its first byte.
    ///
    /// # Errors
    /// 14, 40414, 40415 for a malformed document, 2 for no token set or several, 6373501 for a token of the wrong
    /// length.
    pub fn read(payload: &[u8]) -> Result<ZerosKey> {
        let payload = Doc::parse(payload)?;
        check_fields(payload)?;
        let sets = payload.get("ts").as_doc().unwrap_or(Doc::EMPTY);
        let mut each = sets.iter();
        let (Some(set), None) = (each.next(), each.next()) else {
            bail!(Code::BAD_VALUE, "Encrypted text search payload needs exactly one token set");
        };
        let (name, set) = (set.name(), set.value());
        if !matches!(name, "e" | "s" | "u" | "p") {
            bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field 'FLE2FindTextPayload.ts.{name}' is an unknown field."
            );
        }
        let token = |field: &str| match set.as_doc().map(|set| set.get(field)) {
            Some(Value::Binary(token)) => match token.bytes.as_array::<TOKEN_BYTES>() {
                Some(token) => Ok(*token),
                None => Err(Error::new(Code::Location(6373501), "Invalid prf length")),
            },
            None | Some(Value::Missing) => Err(missing(&format!("ts.{name}.{field}"))),
            Some(other) => Err(wrong_type(&format!("ts.{name}.{field}"), other, "binData")),
        };
        // The first two tokens are for servers that look up tags; they are only checked.
        token("d")?;
        token("s")?;
        Ok(ZerosKey::of_token(&token("l")?))
    }

    /// Derives the key from the server's token of a text.
    pub fn of_token(token: &Token) -> ZerosKey {
        ZerosKey::new(&derive(token, ZEROS_LEVEL))
    }

    /// The key itself.
    pub fn new(key: &Token) -> ZerosKey {
        ZerosKey(Aes256::new(&(*key).into()))
    }

    /// Returns true if the block belongs to the text.
    pub fn opens(&self, block: &[u8; BLOCK_BYTES]) -> bool {
        let (iv, zeros) = block[ZEROS_AT..].split_at(16);
        // In counter mode, the ciphertext of one block of zeros is the encrypted counter.
        let mut counter = Block::try_from(iv).expect("sixteen bytes");
        self.0.encrypt_block(&mut counter);
        counter.as_slice() == zeros
    }
}

fn missing(field: &str) -> Error {
    Error::new(
        Code::IDL_FAILED_TO_PARSE,
        format!("BSON field 'FLE2FindTextPayload.{field}' is missing but a required field"),
    )
}

fn wrong_type(field: &str, value: Value<'_>, expected: &str) -> Error {
    Error::new(
        Code::TYPE_MISMATCH,
        format!(
            "BSON field 'FLE2FindTextPayload.{field}' is the wrong type '{}', expected type \
             '{expected}'",
            value.kind().name()
        ),
    )
}

/// Checks the names and types of the fields of a payload.
fn check_fields(payload: Doc<'_>) -> Result<()> {
    for element in payload {
        let (name, value) = (element.name(), element.value());
        let (fits, expected) = match name {
            "ts" | "ss" | "fs" | "ps" => (matches!(value, Value::Doc(_)), "object"),
            "cm" => (matches!(value, Value::Int64(_)), "long"),
            "cf" | "df" => (matches!(value, Value::Bool(_)), "bool"),
            _ => bail!(
                Code::IDL_UNKNOWN_FIELD,
                "BSON field 'FLE2FindTextPayload.{name}' is an unknown field."
            ),
        };
        if !fits {
            return Err(wrong_type(name, value, expected));
        }
    }
    let absent = ["ts", "cm", "cf", "df"].into_iter().find(|name| payload.get(name).is_missing());
    absent.map_or(Ok(()), |name| Err(missing(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value with the given numbers of blocks, each of which begins with its number.
    fn value(blocks: u32, substrings: u32, suffixes: u32) -> Vec<u8> {
        let mut bytes = vec![TEXT_VALUE];
        bytes.resize(18, 2);
        [blocks, substrings, suffixes].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend([0; CIPHERTEXT_BYTES_MIN]);
        for at in 0..blocks {
            bytes.push(at as u8);
            bytes.extend([0; BLOCK_BYTES - 1]);
        }
        bytes
    }

    #[test]
    fn blocks_stand_by_kind() {
        let bytes = value(7, 3, 2);
        let value = TextValue::read(&bytes).expect("well-formed");
        let numbers = |part| value.blocks(part).iter().map(|block| block[0]).collect::<Vec<_>>();
        assert_eq!(numbers(Part::Exact), [0]);
        assert_eq!(numbers(Part::Substring), [1, 2, 3]);
        assert_eq!(numbers(Part::Suffix), [4, 5]);
        assert_eq!(numbers(Part::Prefix), [6]);
    }

    #[test]
    fn what_is_cut_or_counts_wrong_is_refused() {
        let whole = value(3, 1, 1);
        for len in 0..whole.len() {
            assert!(TextValue::read(&whole[..len]).is_err(), "{len} bytes");
        }
        for (at, count) in
            [(18, 0), (18, 2), (18, u32::MAX), (22, 2), (22, u32::MAX), (26, u32::MAX)]
        {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
            assert!(TextValue::read(&bytes).is_err(), "{count} at {at}");
        }
    }

    #[test]
    fn a_payload_cut_anywhere_is_refused() {
        let token = Value::Binary(nagi_bson::Binary { subtype: 0, bytes: &[7; TOKEN_BYTES] });
        let payload = nagi_bson::DocBuf::build(|out| {
            out.doc("ts", |out| {
                out.doc("p", |out| ["d", "s", "l"].iter().for_each(|name| out.put(name, token)));
            });
            out.put("cm", 0_i64);
            out.put("cf", true);
            out.put("df", false);
        });
        let bytes = payload.as_doc().as_bytes().to_vec();
        assert!(ZerosKey::read(&bytes).is_ok());
        for at in 0..bytes.len() {
            assert!(ZerosKey::read(&bytes[..at]).is_err(), "{at} bytes");
            // With any byte changed, the payload is either parsed or rejected.
            for changed in [0, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = changed;
                let _ = ZerosKey::read(&bytes);
            }
        }
    }
}
