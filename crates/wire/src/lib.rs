//! MongoDB's wire protocol, from bytes to bytes: no sockets, no threads, no clock.
//!
//! A frame is a [`Header`] of 16 bytes and a body.
//! - [`frame_len`] returns its length from the header.
//! - [`Message::parse`] parses a whole frame; the message borrows from it.
//! - [`begin_msg`] and [`begin_reply`] write replies into a buffer that the caller owns and reuses.
//!
//! ```text
//!   length | request id | response to | opcode || body
//!   OP_MSG body: flags | section ... | [crc32c]     section: 0 document  or  1 size name documents
//!   OP_COMPRESSED body: original opcode | uncompressed size | compressor | bytes
//! ```
//!
//! Invariants
//! - The bytes are untrusted: every length is checked before it is used, and an announced size beyond
//!   [`MESSAGE_BYTES_MAX`] never causes an allocation.
//! - All documents of a parsed message have passed BSON validation.
//! - A [`Fault`] tells if the connection can continue.
//!
//! This crate knows neither commands nor databases nor sockets.
#![deny(clippy::indexing_slicing)]

mod compress;
mod docs;
mod fault;
mod header;
mod legacy;
mod message;
mod msg;
mod read;
mod reply;

pub use compress::{Compressor, compress, decompress};
pub use docs::Docs;
pub use fault::{Fault, Result};
pub use header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, frame_len, opcode};
pub use legacy::{CursorIds, Delete, GetMore, Insert, KillCursors, Query, Update};
pub use legacy::{query_flags, write_flags};
pub use message::Message;
pub use msg::{Msg, Sequence, Sequences, flags};
pub use reply::{
    append_sequence, begin_msg, begin_reply, finish_msg, finish_reply, reply_flags, reply_legacy,
    reply_msg,
};
