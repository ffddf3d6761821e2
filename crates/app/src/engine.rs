//! The one place that names engines.

use std::path::Path;
use std::sync::Arc;

use nagi_kv::{Compressor, Engine};

use crate::options::{EngineKind, Options};

/// Share of the cache that holds whole documents instead of blocks: one in this many parts.
const RECORD_CACHE_PART: u64 = 4;

/// Opens the storage engine of the options.
pub(crate) fn open(options: &Options) -> nagi_kv::Result<Arc<dyn Engine>> {
    match options.engine {
        EngineKind::Memory => Ok(Arc::new(nagi_kv::Memory::new())),
        EngineKind::Embedded => {
            let total = options.cache_bytes.unwrap_or_else(default_cache_bytes);
            let engine_options = nagi_kv_rocks::Options {
                cache_bytes: total - total / RECORD_CACHE_PART,
                commit_interval_ms: options.commit_interval_ms,
                direct_reads: options.direct_io,
                records_compression: compression(options.block_compressor.as_deref()),
                ..nagi_kv_rocks::Options::default()
            };
            let engine = nagi_kv_rocks::open(Path::new(&options.db_path), &engine_options)?;
            Ok(engine)
        }
    }
}

/// Of documents. LZ4 if nobody chose: the least CPU for nearly what snappy saves.
fn compression(name: Option<&str>) -> Compressor {
    name.and_then(Compressor::by_name).unwrap_or(Compressor::Lz4)
}

/// Memory for whole documents.
pub(crate) fn record_cache_bytes(options: &Options) -> usize {
    let total = options.cache_bytes.unwrap_or_else(default_cache_bytes);
    usize::try_from(total / RECORD_CACHE_PART).unwrap_or(usize::MAX)
}

/// mongod's rule: half of the memory beyond one gigabyte, at least 256 MB. A control group's limit
/// counts as the memory.
fn default_cache_bytes() -> u64 {
    const GIB: u64 = 1 << 30;
    (nagi_doctor::memory_bytes().unwrap_or(2 * GIB).saturating_sub(GIB) / 2).max(GIB / 4)
}
