//! Reading: a record becomes its facts, or a reference and rows of numbers.

use std::io::Read;

use flate2::read::ZlibDecoder;
use nagi_bson::{Doc, DocBuf, Value};

use crate::metrics::extract;
use crate::{CHUNK_BYTES_MAX, VALUES_MAX, varint};

/// What a record contains.
#[derive(Debug)]
pub enum Decoded {
    /// Facts that rarely change.
    Metadata(DocBuf),
    /// Samples: the first one, and the numbers of all of them, sample by sample.
    Metrics { reference: DocBuf, columns: usize, numbers: Vec<u64> },
    /// A kind that this version does not know; newer servers of MongoDB write others.
    Other(i32),
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(pub &'static str);

/// Decodes a record. Memory is at most [`CHUNK_BYTES_MAX`] and 8 bytes for each of [`VALUES_MAX`].
pub fn decode(record: Doc<'_>) -> Result<Decoded, DecodeError> {
    match record.get("type") {
        Value::Int32(0) => match record.get("doc") {
            Value::Doc(facts) => Ok(Decoded::Metadata(facts.to_buf())),
            _ => Err(DecodeError("a metadata record has no document")),
        },
        Value::Int32(1) => match record.get("data") {
            Value::Binary(data) => metrics(data.bytes),
            _ => Err(DecodeError("a record of samples has no data")),
        },
        Value::Int32(other) => Ok(Decoded::Other(other)),
        _ => Err(DecodeError("a record has no type")),
    }
}

fn metrics(data: &[u8]) -> Result<Decoded, DecodeError> {
    let content = decompressed(data)?;
    let (reference, mut rest) = Doc::parse_prefix(&content)
        .map_err(|_| DecodeError("the first sample is no valid document"))?;
    let columns = count(&mut rest)?;
    let rows = count(&mut rest)?;
    let mut numbers = Vec::new();
    extract(reference, &mut numbers);
    if numbers.len() != columns {
        return Err(DecodeError("the number of columns is not that of the first sample's numbers"));
    }
    let deltas = columns.checked_mul(rows).filter(|values| values + columns <= VALUES_MAX);
    let deltas = deltas.ok_or(DecodeError("a chunk has too many numbers"))?;
    // By columns in the chunk, by samples in the result.
    numbers.resize(columns + deltas, 0);
    let mut zeroes = 0u64;
    for column in 0..columns {
        for row in 0..rows {
            let delta = next(&mut rest, &mut zeroes)?;
            let before = numbers[row * columns + column];
            numbers[(row + 1) * columns + column] = before.wrapping_add(delta);
        }
    }
    if zeroes != 0 || !rest.is_empty() {
        return Err(DecodeError("a chunk has more numbers than its counts say"));
    }
    Ok(Decoded::Metrics { reference: reference.to_buf(), columns, numbers })
}

/// The next difference; a zero comes with the number of zeroes after it.
fn next(rest: &mut &[u8], zeroes: &mut u64) -> Result<u64, DecodeError> {
    if *zeroes > 0 {
        *zeroes -= 1;
        return Ok(0);
    }
    let ended = DecodeError("a chunk ends within its numbers");
    let delta = varint::take(rest).ok_or(ended)?;
    if delta == 0 {
        *zeroes = varint::take(rest).ok_or(ended)?;
    }
    Ok(delta)
}

fn count(rest: &mut &[u8]) -> Result<usize, DecodeError> {
    let (bytes, after) =
        rest.split_first_chunk::<4>().ok_or(DecodeError("a chunk ends before its counts"))?;
    *rest = after;
    Ok(u32::from_le_bytes(*bytes) as usize)
}

fn decompressed(data: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (length, stream) =
        data.split_first_chunk::<4>().ok_or(DecodeError("a chunk has no length"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > CHUNK_BYTES_MAX {
        return Err(DecodeError("a chunk is too long"));
    }
    let mut content = Vec::new();
    // One byte more than stated shows a stream that is too long.
    ZlibDecoder::new(stream)
        .take(length as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|_| DecodeError("a chunk does not decompress"))?;
    if content.len() != length {
        return Err(DecodeError("a chunk does not have the length that it states"));
    }
    Ok(content)
}
