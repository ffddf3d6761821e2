//! OP_COMPRESSED: a compressed message of another opcode.
//!
//! The announced size is checked against [`MESSAGE_BYTES_MAX`] before memory is allocated, and the decompressed bytes
//! must have exactly that size. Compressed messages cannot be nested.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::fault::{Fault, Result};
use crate::header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, opcode};
use crate::read::Reader;

/// A compression algorithm; the numbers are those of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compressor {
    Noop = 0,
    Snappy = 1,
    Zlib = 2,
    Zstd = 3,
}

impl Compressor {
    /// The compressor with this name in the handshake's `compression` list.
    pub fn by_name(name: &str) -> Option<Compressor> {
        [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd]
            .into_iter()
            .find(|c| c.name() == name)
    }

    /// The compressor with this number in a frame.
    pub const fn by_id(id: u8) -> Option<Compressor> {
        Some(match id {
            0 => Compressor::Noop,
            1 => Compressor::Snappy,
            2 => Compressor::Zlib,
            3 => Compressor::Zstd,
            _ => return None,
        })
    }

    pub const fn name(self) -> &'static str {
        match self {
            Compressor::Noop => "noop",
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }
}

/// Decompresses an OP_COMPRESSED frame into `out`, which is cleared first. The result is the original frame.
///
/// # Errors
/// Every fault closes the connection.
pub fn decompress(frame: &[u8], out: &mut Vec<u8>) -> Result<Compressor> {
    let (header, body) = Header::split(frame)?;
    let mut reader = Reader::new(body);
    let inner = reader.int32()?;
    let announced = reader.int32()?;
    let id = reader.byte()?;
    if header.opcode != opcode::COMPRESSED || inner == opcode::COMPRESSED {
        return Err(Fault::framing("compressed messages are not nested"));
    }
    let Some(compressor) = Compressor::by_id(id) else {
        return Err(Fault::framing(format!("unknown compressor {id}")));
    };
    let size = usize::try_from(announced).unwrap_or(usize::MAX);
    if size > MESSAGE_BYTES_MAX - HEADER_BYTES {
        return Err(Fault::framing(format!("uncompressed size {announced} is out of range")));
    }
    out.clear();
    Header { opcode: inner, ..header }.begin(out);
    if !unpack(compressor, reader.rest(), size, out) || out.len() != HEADER_BYTES + size {
        return Err(Fault::framing("compressed data is broken"));
    }
    Header::seal(out, 0);
    Ok(compressor)
}

/// Appends exactly `size` decompressed bytes, or returns false.
fn unpack(compressor: Compressor, packed: &[u8], size: usize, out: &mut Vec<u8>) -> bool {
    match compressor {
        Compressor::Noop => {
            out.extend_from_slice(packed);
            packed.len() == size
        }
        // Snappy's own header states the size, so a wrong size is detected before memory is allocated.
        Compressor::Snappy if snap::raw::decompress_len(packed) != Ok(size) => false,
        Compressor::Snappy => {
            out.resize(HEADER_BYTES + size, 0);
            let place = out.get_mut(HEADER_BYTES..).unwrap_or_default();
            snap::raw::Decoder::new().decompress(packed, place) == Ok(size)
        }
        Compressor::Zlib => inflate(packed, size, out),
        Compressor::Zstd => {
            out.resize(HEADER_BYTES + size, 0);
            let place = out.get_mut(HEADER_BYTES..).unwrap_or_default();
            zstd::bulk::decompress_to_buffer(packed, place).is_ok_and(|n| n == size)
        }
    }
}

fn inflate(packed: &[u8], size: usize, out: &mut Vec<u8>) -> bool {
    out.resize(HEADER_BYTES + size, 0);
    let place = out.get_mut(HEADER_BYTES..).unwrap_or_default();
    let mut state = Decompress::new(true);
    let end = state.decompress(packed, place, FlushDecompress::Finish);
    matches!(end, Ok(Status::StreamEnd)) && state.total_out() == size as u64
}

/// Compresses the frame that extends from `start` to the end of `out`. `scratch` is a reused buffer. The frame is
/// unchanged if compression fails or would not make it smaller.
pub fn compress(out: &mut Vec<u8>, start: usize, compressor: Compressor, scratch: &mut Vec<u8>) {
    let Some(frame) = out.get(start..) else { return };
    let Ok((header, body)) = Header::split(frame) else { return };
    scratch.clear();
    let packed = match compressor {
        Compressor::Noop => {
            scratch.extend_from_slice(body);
            true
        }
        Compressor::Snappy => {
            scratch.resize(snap::raw::max_compress_len(body.len()), 0);
            let done = snap::raw::Encoder::new().compress(body, scratch);
            done.map(|len| scratch.truncate(len)).is_ok()
        }
        Compressor::Zlib => deflate(body, scratch),
        Compressor::Zstd => {
            scratch.resize(zstd::zstd_safe::compress_bound(body.len()), 0);
            let done = zstd::bulk::compress_to_buffer(body, scratch, 0);
            done.map(|len| scratch.truncate(len)).is_ok()
        }
    };
    if !packed || (scratch.len() + 9 >= body.len() && compressor != Compressor::Noop) {
        return;
    }
    let size = i32::try_from(body.len()).unwrap_or(i32::MAX);
    let inner = header.opcode;
    out.truncate(start);
    Header { opcode: opcode::COMPRESSED, ..header }.begin(out);
    out.extend_from_slice(&inner.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.push(compressor as u8);
    out.extend_from_slice(scratch);
    Header::seal(out, start);
}

fn deflate(body: &[u8], scratch: &mut Vec<u8>) -> bool {
    // Stored blocks cost at most five bytes each; the compressed frame is only used if it is smaller.
    scratch.resize(body.len() + body.len() / 1000 + 64, 0);
    let mut state = Compress::new(Compression::default(), true);
    let end = state.compress(body, scratch, FlushCompress::Finish);
    let len = usize::try_from(state.total_out()).unwrap_or(0);
    scratch.truncate(len);
    matches!(end, Ok(Status::StreamEnd))
}
