//! Writes frames: begin, append documents, finish. Clients (the load generator) use it too.

use nagi_bson::{Doc, DocWriter};

use crate::header::{Header, opcode};
use crate::msg::flags::CHECKSUM_PRESENT;

/// Flag bits of OP_REPLY.
pub mod reply_flags {
    pub const CURSOR_NOT_FOUND: i32 = 1;
    pub const QUERY_FAILURE: i32 = 1 << 1;
    pub const AWAIT_CAPABLE: i32 = 1 << 3;
}

/// Begins an OP_MSG; the caller must append its body document next. Returns the start of the frame, for [`finish_msg`]
/// or for truncating the frame.
pub fn begin_msg(out: &mut Vec<u8>, request_id: i32, response_to: i32, flags: u32) -> usize {
    let start = Header { request_id, response_to, opcode: opcode::MSG }.begin(out);
    out.extend_from_slice(&flags.to_le_bytes());
    out.push(0);
    start
}

/// Finishes the OP_MSG that begins at `start`; computes the checksum if the flags announce one.
pub fn finish_msg(out: &mut Vec<u8>, start: usize) {
    let flags = out.get(start + 16..start + 20).and_then(|b| b.first_chunk()).copied();
    let checked = flags.is_some_and(|b| u32::from_le_bytes(b) & CHECKSUM_PRESENT != 0);
    if checked {
        out.extend_from_slice(&[0; 4]);
    }
    Header::seal(out, start);
    if checked {
        let end = out.len() - 4;
        let sum = crc32c::crc32c(out.get(start..end).unwrap_or_default());
        if let Some(place) = out.get_mut(end..) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Appends a whole OP_MSG whose body `fill` writes.
pub fn reply_msg<R>(
    out: &mut Vec<u8>,
    request_id: i32,
    response_to: i32,
    flags: u32,
    fill: impl FnOnce(&mut DocWriter<'_>) -> R,
) -> R {
    let start = begin_msg(out, request_id, response_to, flags);
    let result = {
        let mut writer = DocWriter::new(out);
        fill(&mut writer)
    };
    finish_msg(out, start);
    result
}

/// Appends a document sequence to an OP_MSG that is not finished yet.
pub fn append_sequence<'d>(out: &mut Vec<u8>, name: &str, docs: impl IntoIterator<Item = Doc<'d>>) {
    out.push(1);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    for doc in docs {
        out.extend_from_slice(doc.as_bytes());
    }
    Header::seal(out, start);
}

/// Begins an OP_REPLY; the caller must append the documents next. Returns the start of the frame.
pub fn begin_reply(
    out: &mut Vec<u8>,
    request_id: i32,
    response_to: i32,
    flags: i32,
    cursor_id: i64,
    starting_from: i32,
) -> usize {
    let start = Header { request_id, response_to, opcode: opcode::REPLY }.begin(out);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&cursor_id.to_le_bytes());
    out.extend_from_slice(&starting_from.to_le_bytes());
    out.extend_from_slice(&0_i32.to_le_bytes());
    start
}

/// Finishes the OP_REPLY that begins at `start` and contains `count` documents.
pub fn finish_reply(out: &mut [u8], start: usize, count: i32) {
    Header::seal(out, start);
    if let Some(place) = out.get_mut(start + 32..start + 36) {
        place.copy_from_slice(&count.to_le_bytes());
    }
}

/// Appends a whole OP_REPLY with the one document that `fill` writes.
pub fn reply_legacy<R>(
    out: &mut Vec<u8>,
    request_id: i32,
    response_to: i32,
    flags: i32,
    fill: impl FnOnce(&mut DocWriter<'_>) -> R,
) -> R {
    let start = begin_reply(out, request_id, response_to, flags, 0, 0);
    let result = {
        let mut writer = DocWriter::new(out);
        fill(&mut writer)
    };
    finish_reply(out, start, 1);
    result
}
