//! MongoDB's wire protocol, from bytes to bytes: no sockets, no threads, no clock.
//!
//! A frame is 16 bytes of [`Header`] and a body. [`frame_len`] says how long it is before it is read;
//! [`Message::parse`] takes it apart, borrowing; [`begin_msg`] and [`begin_reply`] write answers into a
//! buffer that the caller owns and reuses.
//!
//! ```text
//!   length | request id | response to | opcode || body
//!   OP_MSG body: flags | section ... | [crc32c]     section: 0 document  or  1 size name documents
//!   OP_COMPRESSED body: original opcode | uncompressed size | compressor | bytes
//! ```
//!
//! Invariants
//! - Bytes come from strangers: every length is checked before it is used, nothing is allocated in
//!   a size that a frame merely claims beyond [`MESSAGE_BYTES_MAX`].
//! - All documents of a parsed message have passed BSON validation.
//! - A [`Fault`] tells whether the connection can continue.
//!
//! Does not know about: commands, databases, sockets.
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
