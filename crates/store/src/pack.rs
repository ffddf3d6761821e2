//! Compression of large documents before they reach the engine.
//!
//! An engine compresses blocks when it writes tables; its log and its memtables hold values uncompressed. So a
//! megabyte of text would be written to disk twice before it is compressed. Therefore a document of at least
//! [`PACK_BYTES_MIN`] is packed here with its collection's compressor, if that makes it an eighth smaller. All
//! other documents are left to the engine's block compression.
//!
//!   stored   compressor (1) | length of the document (4, little-endian) | packed bytes
//!
//! The work areas of the compressors have a few megabytes each, so all threads share them.
//!
//! The module does not know engines or other record formats.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use nagi_bson::DOC_BYTES_MAX;
use nagi_error::Result;
use nagi_kv::Compressor;
use parking_lot::Mutex;

use crate::{engine_error::engine, memory};

/// Smaller documents are compressed as well by the engine's blocks, in the background.
pub(crate) const PACK_BYTES_MIN: usize = 16 << 10;
/// Header of a packed document.
const HEAD_BYTES: usize = 5;
/// Work areas that are kept; if all are in use, another one is created and dropped again.
const AREAS_MAX: usize = 4;
/// Bytes sampled at each end and in the middle to decide if a slow compressor pays.
const SAMPLE_BYTES: usize = 4 << 10;

/// State of compressors between two documents; created on first use.
#[derive(Default)]
struct Area {
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
    zlib: Option<Compress>,
    snappy: Option<snap::raw::Encoder>,
}

static AREAS: Mutex<Vec<Area>> = Mutex::new(Vec::new());

/// Appends the packed form. Returns false, with `out` unchanged, if packing does not pay.
pub(crate) fn pack(doc: &[u8], compressor: Compressor, zstd_level: i32, out: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(doc.len()) else { return false };
    let slow = matches!(compressor, Compressor::Zlib | Compressor::Zstd);
    if compressor == Compressor::None || (slow && !looks_compressible(doc)) {
        return false;
    }
    let start = out.len();
    out.push(compressor as u8);
    out.extend_from_slice(&length.to_le_bytes());
    let body = out.len();
    let worth = doc.len() - doc.len() / 8;
    let room = match compressor {
        // These two need space for the worst case; the others fail when their space is used up.
        Compressor::Snappy => snap::raw::max_compress_len(doc.len()),
        Compressor::Lz4 => lz4_flex::block::get_maximum_output_size(doc.len()),
        _ => worth,
    };
    out.resize(body + room, 0);
    let packed = match out.get_mut(body..) {
        Some(place) => run(doc, compressor, zstd_level, place),
        None => None,
    };
    let packed = packed.filter(|length| *length <= worth);
    out.truncate(packed.map_or(start, |length| body + length));
    packed.is_some()
}

/// Packs into `place`. Returns the number of bytes used; none if it is too small.
fn run(doc: &[u8], compressor: Compressor, level: i32, place: &mut [u8]) -> Option<usize> {
    if compressor == Compressor::Lz4 {
        return lz4_flex::block::compress_into(doc, place).ok();
    }
    let mut area = AREAS.lock().pop().unwrap_or_default();
    let packed = match compressor {
        Compressor::Snappy => {
            let snappy = area.snappy.get_or_insert_with(snap::raw::Encoder::new);
            snappy.compress(doc, place).ok()
        }
        Compressor::Zlib => {
            let zlib = area.zlib.get_or_insert_with(|| Compress::new(Default::default(), true));
            zlib.reset();
            match zlib.compress(doc, place, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => usize::try_from(zlib.total_out()).ok(),
                _ => None,
            }
        }
        Compressor::Zstd => {
            if area.zstd.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
                area.zstd = zstd::bulk::Compressor::new(level).ok().map(|made| (level, made));
            }
            area.zstd.as_mut().and_then(|(_, zstd)| zstd.compress_to_buffer(doc, place).ok())
        }
        Compressor::None | Compressor::Lz4 => None,
    };
    let mut areas = AREAS.lock();
    if areas.len() < AREAS_MAX {
        areas.push(area);
    }
    packed
}

/// The length of the bytes in packed form; their own if packing does not make them shorter.
pub(crate) fn packed_bytes(bytes: &[u8], compressor: Compressor, zstd_level: i32) -> usize {
    let most = match compressor {
        Compressor::None => return bytes.len(),
        Compressor::Snappy => snap::raw::max_compress_len(bytes.len()),
        Compressor::Lz4 => lz4_flex::block::get_maximum_output_size(bytes.len()),
        Compressor::Zlib | Compressor::Zstd => bytes.len(),
    };
    let packed = run(bytes, compressor, zstd_level, &mut vec![0; most]);
    packed.map_or(bytes.len(), |length| length.min(bytes.len()))
}

/// Returns true if samples shrink by a sixteenth with the fastest compressor.
fn looks_compressible(doc: &[u8]) -> bool {
    let mut room = [0; 2 * SAMPLE_BYTES];
    let middle = doc.len() / 2;
    let samples = [0, middle, doc.len().saturating_sub(SAMPLE_BYTES)];
    let (mut before, mut after) = (0, 0);
    for start in samples {
        let sample = doc.get(start..doc.len().min(start + SAMPLE_BYTES)).unwrap_or(&[]);
        before += sample.len();
        after += lz4_flex::block::compress_into(sample, &mut room).unwrap_or(sample.len());
    }
    after < before - before / 16
}

/// Unpacks into `out`, whose old content is lost. Damaged bytes are an error, and never take more memory than the
/// largest document.
///
/// # Errors
/// 146 if the request has no memory for it; it waits for a moment if it holds nothing else.
pub(crate) fn unpack(stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    memory::wait(announced(stored).saturating_sub(out.capacity()), "a large document")?;
    match fill(stored, out) {
        Some(length) if out.len() == length && is_framed(out) => Ok(()),
        _ => {
            out.clear();
            Err(engine(nagi_kv::Error::Corrupt("a compressed record cannot be unpacked".into())))
        }
    }
}

/// The length in the header; zero if it exceeds the largest document.
fn announced(stored: &[u8]) -> usize {
    let length = stored.get(1..).and_then(<[u8]>::first_chunk);
    let length = length.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    if length <= DOC_BYTES_MAX { length } else { 0 }
}

/// A document begins with its own length and ends with a zero.
fn is_framed(doc: &[u8]) -> bool {
    let length = doc.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    length == Some(doc.len()) && doc.last() == Some(&0)
}

/// Unpacks. Returns the length in the header, which is the length of `out` on success.
fn fill(stored: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let (head, packed) = stored.split_at_checked(HEAD_BYTES)?;
    let length = u32::from_le_bytes(*head.get(1..)?.first_chunk()?) as usize;
    if !(PACK_BYTES_MIN..=DOC_BYTES_MAX).contains(&length) {
        return None;
    }
    let compressor = Compressor::by_number(*head.first()?)?;
    // Snappy's own header has the length: a wrong one is detected before memory is allocated.
    if compressor == Compressor::Snappy && snap::raw::decompress_len(packed) != Ok(length) {
        return None;
    }
    out.resize(length, 0);
    let filled = match compressor {
        Compressor::None => return None,
        Compressor::Snappy => snap::raw::Decoder::new().decompress(packed, out).ok(),
        Compressor::Lz4 => lz4_flex::block::decompress_into(packed, out).ok(),
        Compressor::Zstd => zstd::bulk::decompress_to_buffer(packed, out).ok(),
        Compressor::Zlib => {
            let mut state = Decompress::new(true);
            match state.decompress(packed, out, FlushDecompress::Finish) {
                Ok(Status::StreamEnd) => usize::try_from(state.total_out()).ok(),
                _ => None,
            }
        }
    };
    (filled == Some(length)).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(length: usize, byte: impl Fn(usize) -> u8) -> Vec<u8> {
        let mut doc = (length as u32).to_le_bytes().to_vec();
        doc.extend((4..length - 1).map(byte));
        doc.push(0);
        doc
    }

    const REAL: [Compressor; 4] =
        [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd, Compressor::Lz4];

    #[test]
    fn what_is_packed_comes_back() {
        for (compressor, part) in REAL.into_iter().zip([20, 100, 1000, 200]) {
            for length in [PACK_BYTES_MIN, 1_000_000, DOC_BYTES_MAX] {
                let doc = doc(length, |at| b'0' + (at % 10) as u8);
                let (mut out, mut back) = (b"x".to_vec(), vec![7]);
                assert!(pack(&doc, compressor, 3, &mut out));
                assert!(out.len() < length / part + 100, "{compressor:?} {}", out.len());
                unpack(&out[1..], &mut back).unwrap();
                assert!(back == doc);
            }
        }
    }

    #[test]
    fn what_is_unpacked_is_asked_for() {
        let doc = doc(8_000_000, |at| b'0' + (at % 10) as u8);
        let (mut out, mut back) = (Vec::new(), Vec::new());
        assert!(pack(&doc, Compressor::Lz4, 3, &mut out));
        let budget = nagi_budget::Budget::new(6 << 20);
        let request = nagi_budget::Metering::begin(&budget);
        let error = unpack(&out, &mut back).unwrap_err();
        assert_eq!(error.code(), nagi_error::Code::EXCEEDED_MEMORY_LIMIT, "{error}");
        drop(request);
        unpack(&out, &mut back).unwrap();
        assert!(back == doc && budget.demand() == 0);
        // The buffer has the capacity already.
        let _request = nagi_budget::Metering::begin(&budget);
        unpack(&out, &mut back).unwrap();
    }

    #[test]
    fn noise_stays_as_it_is() {
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let doc = doc(100_000, |at| noise[at]);
        for compressor in Compressor::ALL {
            let mut out = b"x".to_vec();
            assert!(!pack(&doc, compressor, 3, &mut out), "{compressor:?}");
            assert_eq!(out, b"x");
        }
    }

    #[test]
    fn damage_is_an_error() {
        let doc = doc(50_000, |at| (at * at % 251 % 17) as u8);
        let mut back = Vec::new();
        for compressor in REAL {
            let mut out = Vec::new();
            assert!(pack(&doc, compressor, 3, &mut out));
            for cut in [0, 1, 4, 5, 6, out.len() / 2, out.len() - 1] {
                assert!(unpack(&out[..cut], &mut back).is_err(), "{compressor:?} {cut}");
            }
            // Wrong lengths: one less, zero, too large, far too large.
            for length in [49_999_u32, 0, 60_000, u32::MAX] {
                let mut bad = out.clone();
                bad[1..5].copy_from_slice(&length.to_le_bytes());
                assert!(unpack(&bad, &mut back).is_err(), "{compressor:?} {length}");
            }
            for number in [0, 5, 255] {
                let mut bad = out.clone();
                bad[0] = number;
                assert!(unpack(&bad, &mut back).is_err());
            }
            // Any flipped byte is an error or gives a framed document, but never a panic.
            for at in (0..out.len()).step_by(out.len() / 97 + 1) {
                let mut bad = out.clone();
                bad[at] ^= 0x55;
                if unpack(&bad, &mut back).is_ok() {
                    assert!(is_framed(&back));
                }
            }
            assert!(back.capacity() <= DOC_BYTES_MAX);
        }
    }
}
