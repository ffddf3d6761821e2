//! Queryable Encryption as far as a server takes part in it: formats, tokens, and tests of values, without keys.
//!
//! A client encrypts values with its own keys and derives tokens from keys and values (HMAC-SHA-256). The server
//! receives tokens, never keys, and derives more tokens from them. All encrypted data is BinData of subtype 6; its
//! first byte is the kind:
//!
//! ```text
//!    3  placeholder      before the client's library has encrypted the value
//!   11  insert payload   what a client sends to store an indexed value              -> [`InsertPayload`]
//!   12  find payload     equality                                                   -> [`FindPayload`]
//!   13  find payload     range
//!   14  stored value     equality: one block                                        -> [`blocks`]
//!   15  stored value     range: a block for each edge
//!   16  stored value     not indexed
//!   17  stored value     text: blocks for the text, its substrings, suffixes, prefixes
//!   18  find payload     text
//! ```
//!
//! A block is the metadata of one token set. It contains a tag. The tags of a document are repeated in its array
//! `__safeContent__`, which has an index. Tags are numbered: the tag of position `n` is derived from the token of a
//! value and `n`, and the number of positions in use is stored in a state collection. So a query knows all tags of a
//! value, and equal values have different tags.
//!
//! The state collection ESC has documents of three kinds. Their ids reveal nothing without the token of a value
//! (`tag`, `value`: two tokens derived from it):
//!
//! ```text
//!   position n      {_id: HMAC(tag, n)}                  one for each stored block
//!   anchor a        {_id: HMAC(tag, 0 | a), value: AES(value, 0 | n)}    replaces the positions up to n
//!   null anchor     {_id: HMAC(tag, 0 | 0), value: AES(value, a | n)}    replaces the anchors up to a
//! ```
//!
//! This module does not know expressions and collections, and does not decrypt values.

mod find;
mod insert;
mod stored;
mod text;
mod tokens;

pub use find::{FindPayload, FindSet, is_find_payload};
pub use insert::{IndexKind, InsertPayload, TokenSet, is_insert_payload};
pub use stored::{Block, blocks, write_stored};
pub use text::{Part, TextValue, ZerosKey};
pub use tokens::{
    EscTokens, TOKEN_BYTES, Token, anchor_id, derive, open_numbers, open_token, seal, seal_numbers,
};

/// The binary subtype of all encrypted data.
pub const SUBTYPE: u8 = 6;
/// The first byte of a value that the client marks for encryption, before the client library processes it.
pub const PLACEHOLDER: u8 = 3;
/// The first byte of a token that the server writes into a rewritten query.
pub const RAW_TOKEN: u8 = 8;
/// The first byte of an insert payload.
pub const INSERT: u8 = 11;
/// The first byte of the payload of an equality query.
pub const FIND_EQUALITY: u8 = 12;
/// The first byte of the payload of a range query.
pub const FIND_RANGE: u8 = 13;
/// The first byte of a stored value with an equality index.
pub const EQUALITY_VALUE: u8 = 14;
/// The first byte of a stored value with a range index.
pub const RANGE_VALUE: u8 = 15;
/// The first byte of a stored value with a text index.
pub const TEXT_VALUE: u8 = 17;
/// The first byte of the payload of a text query.
pub const FIND_TEXT: u8 = 18;

/// The array of a document with the tags of its indexed values.
pub const SAFE_CONTENT: &str = "__safeContent__";

/// The bytes of a block: an encrypted count, a tag, encrypted zeros.
pub const BLOCK_BYTES: usize = 96;
