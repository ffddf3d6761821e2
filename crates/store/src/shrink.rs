//! What a collection's documents would take on disk with zstd: measured on some of them, for the advisor.
//!
//! Documents are put together into blocks as tables have them, and each block is compressed: with the collection's
//! compressor, and with zstd and a dictionary as tables with zstd have one (docs/compression.md). Keys and the
//! overhead of blocks are not counted: they are alike for both.

use nagi_bson::DocBuf;
use nagi_kv::{Compressor, Space};

use crate::{Collection, Store, pack::packed_bytes};

/// Blocks of the compressors: see docs/compression.md.
const BLOCK_BYTES: usize = 8 << 10;
const ZSTD_BLOCK_BYTES: usize = 4 << 10;
const DICTIONARY_BYTES: usize = 4 << 10;
/// The dictionary is trained on so many bytes.
const TRAINED_BYTES: usize = 64 * DICTIONARY_BYTES;

/// Sizes of some documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shrunk {
    /// The name of the collection's compressor.
    pub compressor: &'static str,
    /// Uncompressed.
    pub bytes: u64,
    /// With the collection's compressor.
    pub present_bytes: u64,
    pub zstd_bytes: u64,
}

impl Store {
    /// The sizes of `docs` with the collection's compressor and with zstd. `None` if that is its compressor already,
    /// or if the engine does not compress. Costs about 10 ms for each megabyte.
    pub fn shrunk(&self, collection: &Collection, docs: &[DocBuf]) -> Option<Shrunk> {
        let present = self.compressor(collection);
        let compresses = self.engine.compressor(Space::RecordsZstd) == Compressor::Zstd;
        if present == Compressor::Zstd || !compresses {
            return None;
        }
        let level = self.zstd_level;
        let mut zstd = ZstdWithDictionary::new(docs, level);
        Some(Shrunk {
            compressor: present.name(),
            bytes: docs.iter().map(|doc| doc.as_doc().len() as u64).sum(),
            present_bytes: in_blocks(docs, BLOCK_BYTES, &mut |block| {
                packed_bytes(block, present, level)
            }),
            zstd_bytes: in_blocks(docs, ZSTD_BLOCK_BYTES, &mut |block| zstd.packed_bytes(block)),
        })
    }
}

/// The sum of the sizes of blocks of documents.
fn in_blocks(docs: &[DocBuf], block_bytes: usize, size: &mut dyn FnMut(&[u8]) -> usize) -> u64 {
    let mut block = Vec::with_capacity(2 * block_bytes);
    let mut sum = 0;
    for doc in docs {
        block.extend_from_slice(doc.as_doc().as_bytes());
        if block.len() >= block_bytes {
            sum += size(&block) as u64;
            block.clear();
        }
    }
    if !block.is_empty() {
        sum += size(&block) as u64;
    }
    sum
}

/// A compressor with a dictionary of the documents; without one if they are too few to make it.
struct ZstdWithDictionary {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    level: i32,
    packed: Vec<u8>,
}

impl ZstdWithDictionary {
    fn new(docs: &[DocBuf], level: i32) -> ZstdWithDictionary {
        let mut bytes = 0;
        let samples: Vec<&[u8]> = docs
            .iter()
            .map(|doc| doc.as_doc().as_bytes())
            .take_while(|doc| {
                bytes += doc.len();
                bytes <= TRAINED_BYTES
            })
            .collect();
        let dictionary = zstd::dict::from_samples(&samples, DICTIONARY_BYTES).ok();
        let compressor = dictionary.and_then(|dictionary| {
            zstd::bulk::Compressor::with_dictionary(level, &dictionary).ok()
        });
        ZstdWithDictionary { compressor, level, packed: Vec::new() }
    }

    fn packed_bytes(&mut self, block: &[u8]) -> usize {
        let Some(compressor) = &mut self.compressor else {
            return packed_bytes(block, Compressor::Zstd, self.level);
        };
        self.packed.resize(block.len(), 0);
        let packed = compressor.compress_to_buffer(block, &mut self.packed);
        packed.map_or(block.len(), |length| length.min(block.len()))
    }
}
