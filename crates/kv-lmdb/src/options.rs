//! Settings of the operator, and the sizes derived from them.

use std::{path::Path, time::Duration};

use nagi_kv_disk::fatal::OnFatal;

/// The growth of the data file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// A thread allocates ahead, in steps of 64 MB, 128 MB, ... 2 GB.
    Ahead,
    /// Like `Ahead`, in steps of 16 MB, 32 MB, ... 512 MB (`smallFiles`).
    AheadSmall,
    /// The file grows as it is written (`preallocDataFiles: false`). With `smallFiles`, log segments are small,
    /// too.
    AsWritten { small: bool },
}

/// Options for opening the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interval at which the log is synced (`storage.journal.commitIntervalMs`).
    pub commit_interval_ms: u32,
    /// The maximum delay until a commit is applied to the data file (`storage.syncPeriodSecs`).
    pub sync_period: Duration,
    /// Size of the commits in memory at which they are written to the data file. Meanwhile the next layer may take
    /// as much again; beyond that commits slow down, and at three times this size they wait.
    pub layer_bytes: u64,
    /// See `Growth`.
    pub growth: Growth,
    /// Size of a log segment; none: derived from `growth` and the disk's size.
    pub segment_bytes: Option<u64>,
    /// Address space of the data file, and so its largest size; none: derived from the disk's size.
    pub map_bytes: Option<u64>,
    /// Disk space that stays free; none: derived from the file system's size.
    pub reserve_bytes: Option<u64>,
    /// Opens a data directory whose log is damaged; records after the damage are given up.
    pub salvage: bool,
    /// What happens when the log cannot be written for another reason than a full disk.
    pub on_fatal: OnFatal,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            commit_interval_ms: 100,
            sync_period: Duration::from_secs(60),
            layer_bytes: 64 << 20,
            growth: Growth::Ahead,
            segment_bytes: None,
            map_bytes: None,
            reserve_bytes: None,
            salvage: false,
            on_fatal: OnFatal::Exit,
        }
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Options {
    /// Smallest and largest step of the data file's growth; none if it grows as it is written.
    pub(crate) fn steps(&self) -> Option<(u64, u64)> {
        match self.growth {
            Growth::Ahead => Some((64 * MIB, 2 * GIB)),
            Growth::AheadSmall => Some((16 * MIB, 512 * MIB)),
            Growth::AsWritten { .. } => None,
        }
    }

    /// Size of a log segment in the folder `dir`.
    pub(crate) fn segment(&self, dir: &Path) -> u64 {
        let small = matches!(self.growth, Growth::AheadSmall | Growth::AsWritten { small: true });
        let usual = if small { 16 * MIB } else { 64 * MIB };
        let fits = (disk_bytes(dir) / 64).max(MIB);
        self.segment_bytes.unwrap_or(usual).min(fits)
    }

    /// Bytes of commits in memory before they are written to the data file of the folder `dir`.
    pub(crate) fn layer(&self, dir: &Path) -> usize {
        let fits = (disk_bytes(dir) / 32).max(MIB);
        usize::try_from(self.layer_bytes.min(fits)).unwrap_or(usize::MAX)
    }

    /// Address space: twice the disk's size, so that the disk may grow. Unused address space costs nothing.
    pub(crate) fn map(&self, dir: &Path) -> u64 {
        let whole = disk_bytes(dir).saturating_mul(2).clamp(64 * GIB, 16 << 40);
        self.map_bytes.unwrap_or(whole).next_multiple_of(GIB)
    }
}

fn disk_bytes(dir: &Path) -> u64 {
    nagi_kv_disk::capacity::space(dir).map_or(u64::MAX / 4, |(_, total)| total)
}
