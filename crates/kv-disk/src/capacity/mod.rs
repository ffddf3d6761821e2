//! Disk space admission: refuses writes while there is still enough space for those accepted before.
//!
//! An engine cannot continue after its log could not be written or a memtable could not be flushed. So it refuses
//! writes earlier: when less is free than a reserve plus the disk space that the memtables will need. Reads
//! continue. Writes that only remove or describe (no new document) may use most of the reserve, so that an operator
//! can delete and drop.
//!
//! Free space is checked after every few megabytes written and, while it is short, at every write: that costs about
//! a microsecond.

mod ffi;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use nagi_kv::{Error, Result};

const LOOK_EACH_BYTES: u64 = 2 << 20;

/// The effect of a write on the amount of data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Grows,
    Shrinks,
}

pub struct Capacity {
    dir: PathBuf,
    reserve: u64,
    since_look: AtomicU64,
    short: AtomicBool,
}

impl Capacity {
    /// `log_bytes`: the allocation size of a new log file. `reserve`: space that stays free in addition; if none,
    /// it depends on the file system's size.
    pub fn new(dir: &Path, log_bytes: u64, reserve: Option<u64>) -> Capacity {
        let (_, total) = ffi::space(dir).unwrap_or((0, 0));
        let share = (total / 32).clamp(2 << 20, 128 << 20);
        let reserve = reserve.unwrap_or(share + log_bytes);
        Capacity {
            dir: dir.to_owned(),
            reserve,
            since_look: AtomicU64::new(u64::MAX / 2),
            short: AtomicBool::new(false),
        }
    }

    /// Returns `Full` if `bytes` more should not be accepted. `pending`: bytes that are accepted but not at their
    /// final place yet; called only if it matters.
    pub fn check(&self, bytes: u64, kind: Kind, pending: impl FnOnce() -> u64) -> Result<()> {
        let since = self.since_look.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if since < LOOK_EACH_BYTES && !self.short.load(Relaxed) {
            return Ok(());
        }
        let Some((free, _)) = ffi::space(&self.dir) else { return Ok(()) };
        let need = pending() + bytes * 2;
        let short = free < self.reserve + need;
        self.since_look.store(0, Relaxed);
        if self.short.swap(short, Relaxed) != short {
            match short {
                true => {
                    log::warn!(target: "STORAGE", id = 7_702_001, free_bytes = free,
                    reserve_bytes = self.reserve;
                    "Disk is nearly full, writes are refused")
                }
                false => log::info!(target: "STORAGE", id = 7_702_002, free_bytes = free;
                    "Disk has free space again, writes are accepted"),
            }
        }
        let refused = match kind {
            Kind::Grows => short,
            Kind::Shrinks => free < self.reserve / 4 + bytes * 2,
        };
        if refused { Err(Error::Full) } else { Ok(()) }
    }

    /// Free and total bytes of the file system.
    pub fn space(&self) -> (u64, u64) {
        ffi::space(&self.dir).unwrap_or((0, 0))
    }
}

/// Bytes available to this process, and total bytes, of the file system of `dir`.
pub fn space(dir: &Path) -> Option<(u64, u64)> {
    ffi::space(dir)
}
