//! The header of 16 bytes at the beginning of every message.

use crate::fault::{Fault, Result};
use crate::read::Reader;

/// The size of a header.
pub const HEADER_BYTES: usize = 16;

/// The maximum size of a message, header included (`maxMessageSizeBytes`).
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// The numbers of the opcodes.
pub mod opcode {
    pub const REPLY: i32 = 1;
    pub const UPDATE: i32 = 2001;
    pub const INSERT: i32 = 2002;
    pub const QUERY: i32 = 2004;
    pub const GET_MORE: i32 = 2005;
    pub const DELETE: i32 = 2006;
    pub const KILL_CURSORS: i32 = 2007;
    pub const COMPRESSED: i32 = 2012;
    pub const MSG: i32 = 2013;
}

/// A message header. It does not store the length, which is that of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub request_id: i32,
    pub response_to: i32,
    pub opcode: i32,
}

/// The length of the whole frame, from its first 16 bytes. A fault closes the connection.
pub fn frame_len(header: &[u8; HEADER_BYTES]) -> Result<usize> {
    let announced = Reader::new(header).int32()?;
    match usize::try_from(announced) {
        Ok(len) if (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&len) => Ok(len),
        _ => Err(Fault::framing(format!(
            "message length {announced} is not between {HEADER_BYTES} and {MESSAGE_BYTES_MAX}"
        ))),
    }
}

impl Header {
    /// Splits a whole frame into header and body; the announced length must equal the frame's.
    pub fn split(frame: &[u8]) -> Result<(Header, &[u8])> {
        let Some((head, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Fault::framing("frame is shorter than its header"));
        };
        if frame_len(head)? != frame.len() {
            return Err(Fault::framing("frame has another length than its header says"));
        }
        let mut reader = Reader::new(head);
        reader.int32()?;
        let header = Header {
            request_id: reader.int32()?,
            response_to: reader.int32()?,
            opcode: reader.int32()?,
        };
        Ok((header, body))
    }

    /// Appends a header with a length of zero, to be set by [`Header::seal`]. Returns the start of the frame.
    pub(crate) fn begin(self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        for word in [0, self.request_id, self.response_to, self.opcode] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        start
    }

    /// Sets the length of the frame that extends from `start` to the end of `out`.
    pub(crate) fn seal(out: &mut [u8], start: usize) {
        let len = i32::try_from(out.len() - start).unwrap_or(i32::MAX);
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&len.to_le_bytes());
        }
    }
}
