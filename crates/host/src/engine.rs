//! Opens, repairs and recognizes storage engines.

use std::path::Path;
use std::sync::Arc;

use nagi_budget::{Budget, meter};
use nagi_kv::Engine;
use nagi_kv_lmdb::Options as MappedOptions;
use nagi_kv_rocks::{Earlier, Examined, Lost, Options as RocksOptions, Repair};

use crate::distributed::{self, Cluster};

/// The storage engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// On disk; `wiredTiger` in an old configuration selects it.
    Embedded,
    /// On disk, mapped into memory.
    Mapped,
    /// In memory only.
    Memory,
    /// In a cluster of TiKV.
    Distributed,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 4] =
        [EngineKind::Embedded, EngineKind::Mapped, EngineKind::Memory, EngineKind::Distributed];

    /// MongoDB's name for it, if it has one.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Embedded => "wiredTiger",
            EngineKind::Mapped => "mmapv1",
            EngineKind::Memory => "inMemory",
            EngineKind::Distributed => "tikv",
        }
    }

    /// The name in the marker of a data directory; `None` if the engine has no data directory.
    pub fn marker(self) -> Option<&'static str> {
        match self {
            EngineKind::Embedded => Some("rocksdb"),
            EngineKind::Mapped => Some("lmdb"),
            EngineKind::Memory => None,
            EngineKind::Distributed => Some("tikv"),
        }
    }
}

/// An engine with its settings.
#[derive(Debug, Clone)]
pub enum EngineSettings {
    /// RocksDB.
    Embedded(RocksOptions),
    /// LMDB.
    Mapped(MappedOptions),
    /// The memory engine, with the maximum size of its data in bytes.
    Memory { bytes_max: u64 },
    /// TiKV.
    Distributed(Cluster),
}

impl EngineSettings {
    /// The same settings; the memory of flushes and compactions is charged to the budget.
    #[must_use]
    pub fn charged_to(self, budget: &Arc<Budget>) -> EngineSettings {
        match self {
            EngineSettings::Embedded(options) => {
                let work_memory = Some(crate::work::work_memory(budget));
                EngineSettings::Embedded(RocksOptions { work_memory, ..options })
            }
            other => other,
        }
    }
}

/// Opens the engine in a data directory, which the memory engine ignores. The caller holds its [`crate::Lock`].
///
/// # Errors
/// `Corrupt` if the data is damaged, `Full` if the disk is, `Io` if the directory belongs to another program, another
/// engine or a newer format, or cannot be read, `Unreachable` if a cluster does not answer.
pub fn open(folder: &Path, settings: &EngineSettings) -> nagi_kv::Result<Arc<dyn Engine>> {
    refuse_without_keys(folder, settings)?;
    match settings {
        EngineSettings::Memory { bytes_max } => {
            let bytes_max = usize::try_from(*bytes_max).unwrap_or(usize::MAX);
            Ok(Arc::new(nagi_kv::Memory::with_limit(bytes_max)))
        }
        EngineSettings::Mapped(options) => nagi_kv_lmdb::open(folder, options),
        EngineSettings::Embedded(options) => {
            nagi_kv_rocks::attach_large_reads(nagi_kv_rocks::Gate {
                read: |bytes, earlier, waits| match earlier {
                    Earlier::Gone => meter::read_large(bytes, waits),
                    Earlier::Kept => meter::read_another(bytes, waits),
                    Earlier::Replaced => meter::read_instead(bytes, waits),
                },
                hold: meter::hold_large,
            });
            let engine = nagi_kv_rocks::open(folder, options)?;
            Ok(engine)
        }
        EngineSettings::Distributed(cluster) => {
            distributed::open(folder, cluster, EngineKind::Distributed.name())
        }
    }
}

/// Returns true if the directory has files of the embedded engine that are encrypted.
pub fn has_encrypted_files(folder: &Path) -> bool {
    let marker = EngineKind::Embedded.marker();
    marker.is_some_and(|name| nagi_encryption::has_encrypted_files(&folder.join(name)))
}

/// Refuses an encrypted directory whose keys are not given: an engine would take its files for damaged, and a repair
/// would remove them.
fn refuse_without_keys(folder: &Path, settings: &EngineSettings) -> nagi_kv::Result<()> {
    let has_keys = match settings {
        EngineSettings::Memory { .. } => return Ok(()),
        EngineSettings::Embedded(options) => options.keys.is_some(),
        EngineSettings::Mapped(_) | EngineSettings::Distributed(_) => false,
    };
    if has_keys {
        return Ok(());
    }
    let path = folder.join(nagi_encryption::FILE_NAME);
    let text = if path.symlink_metadata().is_ok() {
        format!(
            "the data files are encrypted ({} exists): start with --enableEncryption and the place \
             of the master key",
            path.display()
        )
    } else if has_encrypted_files(folder) {
        nagi_encryption::KeysError::Lost(path).to_string()
    } else {
        return Ok(());
    };
    Err(std::io::Error::new(std::io::ErrorKind::InvalidData, text).into())
}

/// Repairs a damaged data directory as far as its data is readable; `None` if the engine has no repair.
///
/// # Errors
/// If the directory cannot be read or written.
pub fn repair(folder: &Path, settings: &EngineSettings) -> nagi_kv::Result<Option<Repair>> {
    refuse_without_keys(folder, settings)?;
    match settings {
        EngineSettings::Embedded(options) => nagi_kv_rocks::repair(folder, options).map(Some),
        EngineSettings::Mapped(options) => {
            nagi_kv_lmdb::repair(folder, options).map(|found| Some(as_ranges(found)))
        }
        EngineSettings::Memory { .. } | EngineSettings::Distributed(_) => Ok(None),
    }
}

/// Converts single lost keys to ranges from each key to the next possible one.
fn as_ranges(found: nagi_kv_lmdb::Repair) -> Repair {
    let lost = found.lost.into_iter().map(|(space, from, error)| {
        let to = Some([from.as_slice(), &[0]].concat());
        Lost { space, from, to, saved: 0, error }
    });
    Repair {
        findings: found.findings,
        file_list_rebuilt: false,
        kept: found.kept,
        lost: lost.collect(),
        entries: found.entries,
    }
}

/// The engine whose data a directory contains; `None` if it contains no data of an engine.
///
/// # Errors
/// `Io` if the marker cannot be read.
pub fn found_in(folder: &Path) -> nagi_kv::Result<Option<EngineKind>> {
    let found = nagi_kv_disk::marker::engine_of(folder)?;
    Ok(found
        .as_deref()
        .and_then(|name| EngineKind::ALL.into_iter().find(|engine| engine.marker() == Some(name))))
}

/// What is known of the files of a data directory without opening its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataFiles {
    /// See [`nagi_kv_rocks::examine`].
    Examined(Examined),
    /// A process uses the directory: its files change.
    InUse,
    /// There is no data, or that of an engine which records nothing when it is closed.
    NoRecord,
}

/// Makes the checks of a start that need neither the log nor keys; changes nothing. Reads the list of files, and the
/// sizes of all others.
///
/// # Errors
/// `Io` if the directory cannot be read.
pub fn examine(folder: &Path) -> nagi_kv::Result<DataFiles> {
    if crate::lock::is_held(folder) {
        return Ok(DataFiles::InUse);
    }
    nagi_kv_disk::refuse_special(folder)?;
    let embedded = EngineKind::Embedded;
    // Without a marker a start takes the files of this engine for its own.
    let is_embedded = match found_in(folder)? {
        Some(engine) => engine == embedded,
        None => embedded.marker().is_some_and(|name| folder.join(name).exists()),
    };
    if !is_embedded {
        return Ok(DataFiles::NoRecord);
    }
    let examined = nagi_kv_rocks::examine(folder)?;
    // A server that has started meanwhile has removed the record, and changes the files.
    Ok(if crate::lock::is_held(folder) { DataFiles::InUse } else { DataFiles::Examined(examined) })
}

/// The default maximum of the in-memory engine's data, which is mongod's: half of the memory beyond one gigabyte. The
/// limit of a control group counts as the memory.
pub fn in_memory_bytes_default() -> u64 {
    const GIB: u64 = 1 << 30;
    (nagi_proc::memory_bytes().unwrap_or(2 * GIB).saturating_sub(GIB) / 2).max(GIB / 100)
}

#[cfg(test)]
mod tests {
    use nagi_encryption::{Keys, MasterKey};

    use super::*;

    #[test]
    fn an_encrypted_directory_needs_its_keys() {
        let folder = nagi_testkit::Scratch::new();
        std::fs::create_dir_all(folder.path()).expect("it can be created");
        let master = MasterKey::from_bytes(&[7; 32], "").expect("the length is allowed");
        let keys = Keys::open(folder.path(), &master, true).expect("it is empty");
        let plain = EngineSettings::Embedded(RocksOptions::default());
        let mapped = EngineSettings::Mapped(MappedOptions::default());
        for settings in [&plain, &mapped] {
            for refused in
                [open(folder.path(), settings).err(), repair(folder.path(), settings).err()]
            {
                let error = refused.expect("it is encrypted").to_string();
                assert!(error.contains("encryption.keys exists"), "{error}");
            }
        }
        // Without the file of the keys, the files themselves tell it.
        let lost = nagi_testkit::Scratch::new();
        let files = lost.path().join("rocksdb");
        std::fs::create_dir_all(&files).expect("it can be created");
        std::fs::write(files.join("CURRENT"), b"NagiFile").expect("it can be written");
        for refused in [open(lost.path(), &plain).err(), repair(lost.path(), &plain).err()] {
            let error = refused.expect("it is encrypted").to_string();
            assert!(error.contains("encryption.keys is missing: restore it"), "{error}");
        }
        assert_eq!(std::fs::read_dir(lost.path()).expect("it is there").count(), 1);
        let options = RocksOptions { keys: Some(Arc::new(keys)), ..RocksOptions::default() };
        refuse_without_keys(folder.path(), &EngineSettings::Embedded(options))
            .expect("it has them");
    }
}
