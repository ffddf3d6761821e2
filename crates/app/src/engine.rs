//! The only module that names storage engines: opens, repairs and selects them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nagi_kv::{Compressor, Engine};
use nagi_kv_lmdb::Growth;

use crate::options::{EngineKind, MappedOptions, Options};
use crate::paths;

/// Opens the selected storage engine with `block_cache_bytes` of memory for blocks and memtables.
pub(crate) fn open(options: &Options, block_cache_bytes: u64) -> nagi_kv::Result<Arc<dyn Engine>> {
    match options.engine {
        EngineKind::Memory => {
            let bytes_max = usize::try_from(in_memory_bytes(options)).unwrap_or(usize::MAX);
            Ok(Arc::new(nagi_kv::Memory::with_limit(bytes_max)))
        }
        EngineKind::Mapped => {
            explain_mapped(&options.mapped);
            nagi_kv_lmdb::open(Path::new(&options.db_path), &mapped(options))
        }
        EngineKind::Embedded => {
            let engine_options = rocks_options(options, block_cache_bytes);
            nagi_kv_rocks::attach_large_reads(nagi_kv_rocks::Gate {
                read: nagi_budget::meter::read_large,
                hold: nagi_budget::meter::hold_large,
            });
            let engine = nagi_kv_rocks::open(Path::new(&options.db_path), &engine_options)?;
            Ok(engine)
        }
    }
}

/// Repairs a damaged data directory as far as its data is readable; `None` if the engine has no repair.
pub(crate) fn repair(
    options: &Options,
    block_cache_bytes: u64,
) -> nagi_kv::Result<Option<nagi_kv_rocks::Repair>> {
    match options.engine {
        EngineKind::Embedded => {
            let folder = Path::new(&options.db_path);
            nagi_kv_rocks::repair(folder, &rocks_options(options, block_cache_bytes)).map(Some)
        }
        EngineKind::Mapped => {
            let found = nagi_kv_lmdb::repair(Path::new(&options.db_path), &mapped(options))?;
            Ok(Some(as_ranges(found)))
        }
        EngineKind::Memory => Ok(None),
    }
}

/// Converts single lost keys to ranges from each key to the next possible one.
fn as_ranges(found: nagi_kv_lmdb::Repair) -> nagi_kv_rocks::Repair {
    let lost = found.lost.into_iter().map(|(space, from, error)| {
        let to = Some([from.as_slice(), &[0]].concat());
        nagi_kv_rocks::Lost { space, from, to, saved: 0, error }
    });
    nagi_kv_rocks::Repair {
        findings: found.findings,
        file_list_rebuilt: false,
        kept: found.kept,
        lost: lost.collect(),
        entries: found.entries,
    }
}

fn rocks_options(options: &Options, block_cache_bytes: u64) -> nagi_kv_rocks::Options {
    let (chosen, defaults) = (&options.compression, nagi_kv_rocks::Options::default());
    nagi_kv_rocks::Options {
        cache_bytes: block_cache_bytes,
        commit_interval_ms: options.commit_interval_ms,
        cache_compression: compression(options.cache_compressor.as_deref()),
        direct_reads: options.direct_io,
        warm_up: options.warm_up,
        records_compression: chosen.documents.unwrap_or(defaults.records_compression),
        index_compression: chosen.indexes.unwrap_or(defaults.index_compression),
        journal_compression: chosen.journal == Some(Compressor::Zstd),
        zstd_level: chosen.zstd_level,
        ..defaults
    }
}

fn mapped(options: &Options) -> nagi_kv_lmdb::Options {
    let MappedOptions { prealloc, small_files, .. } = options.mapped;
    nagi_kv_lmdb::Options {
        commit_interval_ms: options.commit_interval_ms,
        sync_period: Duration::from_secs(options.mapped.sync_period_secs),
        growth: match (prealloc, small_files) {
            (true, false) => Growth::Ahead,
            (true, true) => Growth::AheadSmall,
            (false, small) => Growth::AsWritten { small },
        },
        ..nagi_kv_lmdb::Options::default()
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

/// The specified options that the selected engine does not use, grouped by the engines that use them.
fn unused(options: &Options) -> Vec<(String, String)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (key, _) in &options.parsed {
        let fitting = ENGINE_OPTIONS.iter().filter(|(beginning, _)| key.starts_with(beginning));
        let Some((_, engines)) = fitting.max_by_key(|(beginning, _)| beginning.len()) else {
            continue;
        };
        if engines.contains(&options.engine) {
            continue;
        }
        let names = engines.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
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
/// If the directory contains data of another engine than the specified one.
pub(crate) fn settle(options: &Options) -> Result<Options, String> {
    let mut options = options.clone();
    let found = nagi_kv_disk::marker::engine_of(Path::new(&options.db_path))
        .map_err(|error| paths::named(error.to_string(), &options))?;
    let found = found
        .as_deref()
        .and_then(|name| EngineKind::ALL.into_iter().find(|engine| engine.marker() == Some(name)));
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

/// The maximum data of the in-memory engine. The default is mongod's: half of the memory beyond one gigabyte. The limit
/// of a control group counts as the memory.
pub(crate) fn in_memory_bytes(options: &Options) -> u64 {
    const GIB: u64 = 1 << 30;
    options.in_memory_bytes.unwrap_or_else(|| {
        (nagi_proc::memory_bytes().unwrap_or(2 * GIB).saturating_sub(GIB) / 2).max(GIB / 100)
    })
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
        assert_eq!(unused_of("--cacheCompressor lz4 --wiredTigerCacheSizeGB 1"), []);
    }
}
