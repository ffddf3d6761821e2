//! From the options to the storage engine: its settings, and the engine of a data directory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nagi_budget::Budget;
use nagi_host::{EngineKind, EngineSettings, Growth, Repair};
use nagi_kv::{Compressor, Engine};

use crate::options::{MappedOptions, Options, missing_cluster};
use crate::paths;

/// Opens the selected storage engine with `block_cache_bytes` of memory for blocks and memtables.
pub(crate) fn open(options: &Options, block_cache_bytes: u64) -> nagi_kv::Result<Arc<dyn Engine>> {
    open_with(options, &settings(options, block_cache_bytes))
}

/// Like [`open`]; the memory of flushes and compactions is charged to the budget.
pub(crate) fn open_charged(
    options: &Options,
    block_cache_bytes: u64,
    budget: &Arc<Budget>,
) -> nagi_kv::Result<Arc<dyn Engine>> {
    open_with(options, &settings(options, block_cache_bytes).charged_to(budget))
}

fn open_with(options: &Options, settings: &EngineSettings) -> nagi_kv::Result<Arc<dyn Engine>> {
    if options.engine == EngineKind::Mapped {
        explain_mapped(&options.mapped);
    }
    nagi_host::open(Path::new(&options.db_path), settings)
}

/// Repairs a damaged data directory as far as its data is readable; `None` if the engine has no repair.
pub(crate) fn repair(options: &Options, block_cache_bytes: u64) -> nagi_kv::Result<Option<Repair>> {
    nagi_host::repair(Path::new(&options.db_path), &settings(options, block_cache_bytes))
}

fn settings(options: &Options, block_cache_bytes: u64) -> EngineSettings {
    match options.engine {
        EngineKind::Memory => EngineSettings::Memory { bytes_max: in_memory_bytes(options) },
        EngineKind::Mapped => EngineSettings::Mapped(mapped(options)),
        EngineKind::Embedded => EngineSettings::Embedded(rocks_options(options, block_cache_bytes)),
        EngineKind::Distributed => {
            EngineSettings::Distributed(options.cluster.clone().unwrap_or_default())
        }
    }
}

fn rocks_options(options: &Options, block_cache_bytes: u64) -> nagi_host::RocksOptions {
    let (chosen, defaults) = (&options.compression, nagi_host::RocksOptions::default());
    nagi_host::RocksOptions {
        cache_bytes: block_cache_bytes,
        commit_interval_ms: options.commit_interval_ms,
        cache_compression: compression(options.cache_compressor.as_deref()),
        direct_reads: options.direct_io,
        warm_up: options.warm_up,
        records_compression: chosen.documents.unwrap_or(defaults.records_compression),
        index_compression: chosen.indexes.unwrap_or(defaults.index_compression),
        journal_compression: chosen.journal == Some(Compressor::Zstd),
        zstd_level: chosen.zstd_level,
        keys: options.keys.clone(),
        ..defaults
    }
}

/// With this period, only full layers and a shutdown write the data file.
const UNLIMITED: Duration = Duration::from_secs(u32::MAX as u64);

fn mapped(options: &Options) -> nagi_host::MappedOptions {
    let MappedOptions { prealloc, small_files, .. } = options.mapped;
    nagi_host::MappedOptions {
        commit_interval_ms: options.commit_interval_ms,
        sync_period: match options.mapped.sync_period_secs {
            0 => UNLIMITED,
            seconds => Duration::from_secs(seconds),
        },
        growth: match (prealloc, small_files) {
            (true, false) => Growth::Ahead,
            (true, true) => Growth::AheadSmall,
            (false, small) => Growth::AsWritten { small },
        },
        ..nagi_host::MappedOptions::default()
    }
}

/// Logs an option of MMAPv1 that has no effect.
fn explain_mapped(options: &MappedOptions) {
    if let Some(size) = options.ns_size_mb {
        log::info!(target: "STORAGE", id = 8_200_030, nsSizeMB = size;
            "storage.mmapv1.nsSize has no effect: there are no namespace files, and no limit of \
             collections that it would move");
    }
}

/// Options that only some engines use, by the prefix of their keys; the longest matching prefix applies.
const ENGINE_OPTIONS: &[(&str, &[EngineKind])] = {
    use EngineKind::{Embedded, Mapped, Memory};
    &[
        ("storage.cacheCompressor", &[Embedded]),
        ("storage.cacheWarmUp", &[Embedded]),
        ("storage.directIO", &[Embedded]),
        ("storage.inMemory.", &[Memory]),
        ("storage.journal.commitIntervalMs", &[Embedded, Mapped]),
        ("storage.mmapv1.", &[Mapped]),
        ("storage.mmapv1.journal.commitIntervalMs", &[Embedded, Mapped]),
        ("storage.syncPeriodSecs", &[Mapped]),
        ("storage.wiredTiger.collectionConfig.", &[Embedded]),
        ("storage.wiredTiger.engineConfig.journalCompressor", &[Embedded]),
        ("storage.wiredTiger.indexConfig.configString", &[Embedded]),
    ]
};

/// The engines that use an option; `None` if all do.
fn engines_of(key: &str) -> Option<&'static [EngineKind]> {
    let fitting = ENGINE_OPTIONS.iter().filter(|(beginning, _)| key.starts_with(beginning));
    fitting.max_by_key(|(beginning, _)| beginning.len()).map(|(_, engines)| *engines)
}

/// The names of the engines that use an option, for the help; `None` if all do.
pub(crate) fn users_of(key: &str) -> Option<String> {
    engines_of(key).map(names)
}

fn names(engines: &[EngineKind]) -> String {
    engines.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ")
}

/// The specified options that the selected engine does not use, grouped by the engines that use them.
fn unused(options: &Options) -> Vec<(String, String)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (key, _) in &options.parsed {
        let Some(engines) = engines_of(key) else { continue };
        if engines.contains(&options.engine) {
            continue;
        }
        let names = names(engines);
        match found.iter_mut().find(|(engines, _)| *engines == names) {
            Some((_, keys)) => keys.push(key),
            None => found.push((names, vec![key])),
        }
    }
    found.into_iter().map(|(engines, keys)| (keys.join(", "), engines)).collect()
}

/// Warns of options that have no effect with the selected engine.
fn explain_unused(options: &Options) {
    for (names, effective_with) in unused(options) {
        log::warn!(target: "STORAGE", id = 8_200_031, options = names, effectiveWith = effective_with,
            storageEngine = options.engine.name();
            "These options have no effect with this storage engine");
    }
}

/// Selects the engine for the data directory: the one whose data it contains, unless the operator specified one.
///
/// # Errors
/// If the directory contains data of another engine than the specified one, or is that of a server whose data are in a
/// cluster, and no address was specified.
pub(crate) fn settle(options: &Options) -> Result<Options, String> {
    let mut options = options.clone();
    let found = nagi_host::found_in(Path::new(&options.db_path))
        .map_err(|error| paths::named(error.to_string(), &options))?;
    if let Some(found) = found.filter(|found| *found != options.engine) {
        if options.engine_chosen {
            let said = options.parsed.iter().find(|(key, _)| key == "storage.engine");
            let said = said.map_or(options.engine.name(), |(_, name)| name);
            return Err(format!(
                "Location28662: Cannot start server. Detected data files in {} created by the '{}' \
                 storage engine, but the specified storage engine was '{said}'.",
                options.db_path,
                found.name(),
            ));
        }
        options.engine = found;
    }
    if options.engine == EngineKind::Distributed && options.cluster.is_none() {
        let what = format!("the server of the data directory {}, over TiKV,", options.db_path);
        return Err(missing_cluster(&what));
    }
    if let Some(found) = found.filter(|_| !options.engine_chosen) {
        log::info!(target: "STORAGE", id = 22270, dbpath = options.db_path,
            storageEngine = found.name(); "Storage engine to use detected by data files");
    }
    explain_unused(&options);
    Ok(options)
}

/// The compressor of blocks evicted from the cache. The default is LZ4, which needs the least CPU time and saves nearly
/// as much as snappy.
fn compression(name: Option<&str>) -> Compressor {
    name.and_then(Compressor::by_name).unwrap_or(Compressor::Lz4)
}

/// The maximum data of the in-memory engine.
pub(crate) fn in_memory_bytes(options: &Options) -> u64 {
    options.in_memory_bytes.unwrap_or_else(nagi_host::in_memory_bytes_default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{self, Request};

    fn unused_of(args: &str) -> Vec<(String, String)> {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        let Ok(Request::Serve(options)) = options::read(&args) else { panic!("{args:?}") };
        unused(&options)
    }

    #[test]
    fn options_of_other_engines_are_named() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            unused_of(
                "--storageEngine mmapv1 --cacheCompressor zstd --directIO true --smallfiles \
                 --wiredTigerCollectionBlockCompressor zlib --journalCommitInterval 50"
            ),
            [pair(
                "storage.cacheCompressor, storage.directIO, \
                 storage.wiredTiger.collectionConfig.blockCompressor",
                "wiredTiger"
            )]
        );
        assert_eq!(
            unused_of("--storageEngine wiredTiger --smallfiles --syncdelay 5 --inMemorySizeGB 1"),
            [
                pair("storage.inMemory.engineConfig.inMemorySizeGB", "inMemory"),
                pair("storage.mmapv1.smallFiles, storage.syncPeriodSecs", "mmapv1"),
            ]
        );
        assert_eq!(
            unused_of("--storageEngine inMemory --journalCommitInterval 50"),
            [pair("storage.journal.commitIntervalMs", "wiredTiger, mmapv1")]
        );
        #[cfg(feature = "tikv")]
        assert_eq!(
            unused_of("--storageEngine tikv --storageUri tikv://pd --directIO false --syncdelay 5"),
            [pair("storage.directIO", "wiredTiger"), pair("storage.syncPeriodSecs", "mmapv1")]
        );
        assert_eq!(unused_of("--cacheCompressor lz4 --wiredTigerCacheSizeGB 1"), []);
    }
}
