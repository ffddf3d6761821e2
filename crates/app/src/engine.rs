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
            let engine_options = nagi_kv_rocks::Options {
                cache_bytes: block_cache_bytes,
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
