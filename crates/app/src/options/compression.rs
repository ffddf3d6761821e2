//! The compressors of documents, indexes and the write-ahead log, from options and from configuration strings of
//! WiredTiger.

use nagi_kv::Compressor;
use nagi_store::{engine_config, table_config};

use super::Settings;

/// The configured compressors; `None` where none is configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Compression {
    /// The compressor of documents whose collection specifies none.
    pub(crate) documents: Option<Compressor>,
    pub(crate) indexes: Option<Compressor>,
    pub(crate) journal: Option<Compressor>,
    pub(crate) zstd_level: Option<i32>,
    /// The `cache_size` in the engine's configuration string.
    pub(crate) cache_bytes: Option<u64>,
}

const PREFIX: &str = "storage.wiredTiger.";

/// Reads the options. A configuration string takes precedence over an option, as in WiredTiger, which reads it last.
pub(super) fn from_settings(settings: &Settings) -> Result<Compression, String> {
    let text = |key: &str| settings.get(&format!("{PREFIX}{key}"));
    let named = |key: &str| text(key).and_then(Compressor::by_name);
    let table = |key: &str| {
        let config = table_config(text(key).unwrap_or("")).map_err(|error| bad(key, &error))?;
        Ok::<_, String>(config.compressor)
    };
    let key = "engineConfig.configString";
    let engine = engine_config(text(key).unwrap_or("")).map_err(|error| bad(key, &error))?;
    let level = text("engineConfig.zstdCompressionLevel").and_then(|level| level.parse().ok());
    Ok(Compression {
        documents: table("collectionConfig.configString")?
            .or(named("collectionConfig.blockCompressor")),
        indexes: table("indexConfig.configString")?,
        journal: engine.journal_compressor.or(named("engineConfig.journalCompressor")),
        zstd_level: engine.zstd_level.or(level),
        cache_bytes: engine.cache_bytes,
    })
}

fn bad(key: &str, error: &dyn std::fmt::Display) -> String {
    format!("BadValue: bad value for {PREFIX}{key}: {error}")
}
