//! The upkeep thread, which adapts the engine to its data every few seconds.
//!
//! It checks if the data fits into the cache. While it does, compactions put their output into the cache, so that reads
//! find no cold blocks, and scans of any size add their blocks; otherwise part of the cache is given to compressed
//! blocks. What was dropped does not count, although it stays in files for a while.
//!
//! With small memtables it lets compactions merge few files at once where large values are written.
//!
//! It flushes memtables with many deletions, suspends compactions of spaces in which damage was met, and notices when
//! another program has removed the write-ahead ring buffer.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_kv::{Result, Space};
use parking_lot::{Condvar, Mutex};

use crate::{
    Options,
    db::{Db, Warm},
    reclaim::Reclaim,
    ring_buffer::RingBuffer,
    stats::unflushed_bytes,
    tier::{self, Sizes},
};

const LOOK_EACH: Duration = Duration::from_secs(5);

/// So many take a scan half a millisecond.
const FLUSHED_DELETIONS_MIN: u64 = 2000;
/// Fewer among other entries wait for these: small files with entries of all collections are expensive to merge.
const FLUSHED_DELETIONS_PART: u64 = 4;

/// What the thread depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The share of compressed blocks in the cache, if it adapts to the data.
    pub(crate) tier: Option<u32>,
    /// See [`crate::Options::has_small_memtables`].
    pub(crate) small_memtables: bool,
}

impl Settings {
    pub(crate) fn of(options: &Options) -> Settings {
        Settings {
            tier: options.tier_percent().filter(|_| options.tier_adapts()),
            small_memtables: options.has_small_memtables(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Upkeep {
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Upkeep {
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
    }

    /// Looks at once, because much of the data is gone.
    pub(crate) fn wake(&self) {
        self.wake.notify_all();
    }

    fn run(&self, db: &Weak<Db>, ring: &Weak<RingBuffer>, reclaim: &Reclaim, settings: Settings) {
        let (mut warm, mut tier) = (Warm::All, settings.tier);
        loop {
            let mut stopped = self.stopped.lock();
            if !*stopped {
                self.wake.wait_for(&mut stopped, LOOK_EACH);
            }
            if *stopped {
                return;
            }
            drop(stopped);
            let Some(db) = db.upgrade() else { return };
            if let Some(ring) = ring.upgrade() {
                ring.warn_if_removed();
                ring.touch();
            }
            db.damaged().settle(&db);
            if settings.small_memtables {
                spare_for_large(&db, warm);
            }
            flush_deletions(&db);
            let sizes = cached_sizes(&db, reclaim);
            let fits = tier::all_fits(sizes, db.cache_capacity());
            db.data.set(sizes.raw, fits);
            warm = keep_warm(&db, sizes, warm);
            tier = tier.map(|percent| fit_tier(&db, sizes, percent));
            db.data.set_density(tier::density(sizes, tier.unwrap_or(0)));
            let blocks = db.cache_capacity().saturating_sub(unflushed_bytes(&db));
            db.reuse().set_reads(db.block_reads());
            db.reuse().set_capacity((blocks as f64 * db.data.density()) as u64);
        }
    }
}

/// Returns true if clients read the space repeatedly.
fn is_cached(space: Space) -> bool {
    space.is_records() || [Space::Index, Space::Changes].contains(&space)
}

/// The sizes of all data that clients read repeatedly, without what was dropped.
fn cached_sizes(db: &Db, reclaim: &Reclaim) -> Sizes {
    let mut sizes = Sizes::default();
    db.spaces().filter(|space| is_cached(*space)).for_each(|space| db.add_sizes(space, &mut sizes));
    let dropped = reclaim.ranges().into_iter().filter(|(space, ..)| is_cached(*space));
    let packed = dropped
        .map(|(space, start, end)| db.approximate_file_size(space, &start, &end).unwrap_or(0));
    sizes.without(packed.sum())
}

/// Leaves blocks with large values out of the cache when they are written.
fn spare_for_large(db: &Db, warm: Warm) {
    let spaces: Vec<Space> = db.spaces().collect();
    db.damaged().large_flushes.settle(Instant::now(), |space, gets_large| {
        spaces.contains(&space) && warm_up_to(db, space, if gets_large { Warm::None } else { warm })
    });
}

/// Returns false if it failed.
fn warm_up_to(db: &Db, space: Space, warm: Warm) -> bool {
    match db.set_warm(space, warm) {
        Ok(()) => true,
        Err(error) => {
            log::warn!(target: "STORAGE", id = 7_702_005, error:% = error;
                "The cache's policy cannot be changed");
            false
        }
    }
}

/// Flushes memtables with many deletions: each scan steps over them, and a compaction removes them together with what
/// they delete once they are in a file. Without it they would stay as long as nothing else is written.
fn flush_deletions(db: &Db) {
    let full = |space: &Space| {
        let deletions = db.property(*space, c"rocksdb.num-deletes-active-mem-table");
        let entries = db.property(*space, c"rocksdb.num-entries-active-mem-table");
        is_cached(*space)
            && deletions >= FLUSHED_DELETIONS_MIN
            && deletions >= entries / FLUSHED_DELETIONS_PART
    };
    let spaces: Vec<Space> = db.spaces().filter(full).collect();
    if !spaces.is_empty() {
        // Whoever commits next meets the error.
        let _ = db.flush(spaces.into_iter(), false);
    }
}

/// Adapts the share of compressed blocks in the cache to the data. Returns the new share.
fn fit_tier(db: &Db, sizes: Sizes, percent: u32) -> u32 {
    let wanted = tier::percent(sizes, db.cache_capacity());
    if !tier::differs(percent, wanted) {
        return percent;
    }
    db.set_tier(wanted);
    log::debug!(target: "STORAGE", id = 7_702_012, percent = wanted, data_bytes = sizes.raw,
        stored_bytes = sizes.packed; "Changed the share of compressed blocks in the cache");
    wanted
}

/// Adapts what is put into the cache when it is written.
fn keep_warm(db: &Db, sizes: Sizes, warm: Warm) -> Warm {
    let capacity = db.cache_capacity();
    let wanted = match warm {
        // With a margin, so that it does not change back and forth.
        Warm::All if sizes.raw > capacity => Warm::Flushed,
        Warm::Flushed if tier::all_fits(sizes, capacity) => Warm::All,
        _ => return warm,
    };
    db.set_warm_later(wanted);
    let gets_large = |space: Space| db.damaged().large_flushes.gets_large(space);
    for space in db.spaces().filter(|space| is_cached(*space) && !gets_large(*space)) {
        warm_up_to(db, space, wanted);
    }
    log::debug!(target: "STORAGE", id = 7_702_006, policy:? = wanted, data_bytes = sizes.raw;
        "Changed the cache's admission policy for new blocks");
    wanted
}

/// Starts the thread. `ring`: dangling if there is none.
pub(crate) fn start(
    upkeep: &Arc<Upkeep>,
    (db, ring): (Weak<Db>, Weak<RingBuffer>),
    reclaim: &Arc<Reclaim>,
    settings: Settings,
) -> Result<JoinHandle<()>> {
    let (upkeep, reclaim) = (Arc::clone(upkeep), Arc::clone(reclaim));
    let thread = std::thread::Builder::new().name("upkeep".to_owned());
    Ok(thread.spawn(move || upkeep.run(&db, &ring, &reclaim, settings))?)
}
