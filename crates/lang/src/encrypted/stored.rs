//! Stored values with an index: kinds 14, 15, 17.
//!
//! ```text
//!   kind (1) | key id (16) | BSON type (1)
//!     range: number of blocks (1)
//!     text:  number of blocks (4) | of substrings (4) | of suffixes (4)
//!   the client's ciphertext, encrypted again: IV (16) | AES-256-CTR
//!   blocks (96 each): count and contention factor, encrypted (32) | tag (32) | zeros, encrypted (32)
//! ```

use nagi_error::Result;

use super::{
    BLOCK_BYTES, EQUALITY_VALUE, IndexKind, InsertPayload, RANGE_VALUE, TEXT_VALUE, TextValue,
    Token, TokenSet, derive, seal, seal_numbers,
};

const HEAD_BYTES: usize = 18;
/// An IV and at least one byte.
const CIPHERTEXT_BYTES_MIN: usize = 17;

/// A block of a stored value.
#[derive(Debug, Clone, Copy)]
pub struct Block<'v>(pub &'v [u8; BLOCK_BYTES]);

impl<'v> Block<'v> {
    pub fn tag(&self) -> &'v Token {
        self.0[32..64].as_array().expect("32 bytes of 96")
    }
}

/// The blocks of a stored value; none for values that are not indexed or not well-formed.
pub fn blocks(bytes: &[u8]) -> impl Iterator<Item = Block<'_>> {
    parse(bytes).unwrap_or(&[]).iter().map(Block)
}

fn parse(bytes: &[u8]) -> Option<&[[u8; BLOCK_BYTES]]> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (count, rest) = match head[0] {
        EQUALITY_VALUE => (1, rest),
        RANGE_VALUE => rest.split_first().map(|(count, rest)| (usize::from(*count), rest))?,
        TEXT_VALUE => return TextValue::read(bytes).ok().map(|value| value.all()),
        _ => return None,
    };
    let at = rest.len().checked_sub(count * BLOCK_BYTES)?;
    (at >= CIPHERTEXT_BYTES_MIN).then(|| rest[at..].as_chunks().0)
}

/// Appends the stored value of an insert payload. `positions` has the position of each block's tag; `random` returns
/// bytes that are used once.
///
/// # Errors
/// Those of `random`.
pub fn write_stored(
    payload: &InsertPayload<'_>,
    positions: &[u64],
    random: &mut dyn FnMut() -> Result<[u8; 16]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = payload.sets.len();
    out.push(match payload.kind {
        IndexKind::Equality => EQUALITY_VALUE,
        IndexKind::Range => RANGE_VALUE,
        IndexKind::Text { .. } => TEXT_VALUE,
    });
    out.extend_from_slice(payload.key_id);
    out.push(payload.bson_type);
    match payload.kind {
        IndexKind::Equality => {}
        // The parser has limited the number.
        IndexKind::Range => out.push(count as u8),
        IndexKind::Text { substrings, suffixes } => {
            let counts = [count, substrings, suffixes];
            counts.iter().for_each(|n| out.extend_from_slice(&(*n as u32).to_le_bytes()));
        }
    }
    seal(payload.value_key, random()?, payload.value, out);
    for (set, position) in payload.sets.iter().zip(positions) {
        write_block(set, [*position, payload.contention], random, out)?;
    }
    Ok(())
}

fn write_block(
    set: &TokenSet<'_>,
    [position, contention]: [u64; 2],
    random: &mut dyn FnMut() -> Result<[u8; 16]>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = seal_numbers(&derive(set.server, 1), random()?, [position, contention]);
    out.extend_from_slice(&count);
    out.extend_from_slice(&derive(&derive(set.edc, 1), position));
    out.extend_from_slice(&seal_numbers(&derive(set.server, 2), random()?, [0, 0]));
    Ok(())
}
