//! The one place that names engines.

use std::path::Path;
use std::sync::Arc;

use nagi_kv::{Compressor, Engine};

use crate::options::{EngineKind, Options};

/// Opens the storage engine of the options with so much memory for blocks and memtables.
pub(crate) fn open(options: &Options, block_cache_bytes: u64) -> nagi_kv::Result<Arc<dyn Engine>> {
    match options.engine {
        EngineKind::Memory => Ok(Arc::new(nagi_kv::Memory::new())),
        EngineKind::Embedded => {
            let engine_options = rocks_options(options, block_cache_bytes);
            let engine = nagi_kv_rocks::open(Path::new(&options.db_path), &engine_options)?;
            Ok(engine)
        }
    }
}

/// Saves what can be read of a damaged folder; none if the engine has no repair.
pub(crate) fn repair(
    options: &Options,
    block_cache_bytes: u64,
) -> nagi_kv::Result<Option<nagi_kv_rocks::Repair>> {
    match options.engine {
        EngineKind::Embedded => {
            let folder = Path::new(&options.db_path);
            nagi_kv_rocks::repair(folder, &rocks_options(options, block_cache_bytes)).map(Some)
        }
        EngineKind::Memory => Ok(None),
    }
}

fn rocks_options(options: &Options, block_cache_bytes: u64) -> nagi_kv_rocks::Options {
    let (chosen, defaults) = (&options.compression, nagi_kv_rocks::Options::default());
    nagi_kv_rocks::Options {
        cache_bytes: block_cache_bytes,
        commit_interval_ms: options.commit_interval_ms,
        cache_compression: compression(options.cache_compressor.as_deref()),
        direct_reads: options.direct_io,
        records_compression: chosen.documents.unwrap_or(defaults.records_compression),
        index_compression: chosen.indexes.unwrap_or(defaults.index_compression),
        journal_compression: chosen.journal == Some(Compressor::Zstd),
        zstd_level: chosen.zstd_level,
        ..defaults
    }
}

/// Of blocks pushed out of the cache. LZ4 if nobody chose: the least CPU for nearly
/// what snappy saves.
fn compression(name: Option<&str>) -> Compressor {
    name.and_then(Compressor::by_name).unwrap_or(Compressor::Lz4)
}
