//! Sorted runs on disk, for sorts and groups that are larger than their memory.
//!
//!   key of `Space::Spill`:   spill (4) | run (4) | position (8)
//!   value:                   length of key (4, little-endian) | key | value
//!
//! A run keeps the order in which it was written; merging runs is the caller's. Nothing here is
//! logged or durable; what a crash leaves behind is gone at the next start.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use nagi_error::{Error, Result};
use nagi_kv::{Cursor, Engine, Space};

use crate::{Store, engine_error::engine};

/// Fills the next entry's key and value; false at the end of the run.
pub type NextEntry<'f> = dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool> + 'f;

/// Bytes that a run may be ahead of what the figures show.
const COUNTED_AT: u64 = 1 << 20;

/// What all spills of a store come to.
#[derive(Default)]
pub(crate) struct Totals {
    next: AtomicU32,
    open: AtomicU64,
    open_bytes: AtomicU64,
    runs: AtomicU64,
    written_bytes: AtomicU64,
}

/// Spills now and since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillFigures {
    /// Sorts, groups and their like that have something on disk, or are about to.
    pub open: u64,
    /// What these have written: keys and values before compression.
    pub open_bytes: u64,
    /// Runs written since the start.
    pub runs: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Bytes of the files that hold runs; an estimate of the engine.
    pub disk_bytes: u64,
}

impl Totals {
    fn add(&self, bytes: u64) {
        self.open_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The runs of one sort or group. Dropping it gives the space back.
pub struct Spill {
    engine: Arc<dyn Engine>,
    totals: Arc<Totals>,
    ident: u32,
    run_count: u32,
    entries: u64,
    bytes: u64,
}

impl Store {
    /// A place for runs; empty.
    pub fn spill(&self) -> Spill {
        let totals = Arc::clone(&self.spills);
        let ident = totals.next.fetch_add(1, Ordering::Relaxed) & 0x7FFF_FFFF;
        totals.open.fetch_add(1, Ordering::Relaxed);
        Spill {
            engine: Arc::clone(&self.engine),
            totals,
            ident,
            run_count: 0,
            entries: 0,
            bytes: 0,
        }
    }

    /// What is on disk, and what was since the start. Asks the engine for the size of its files.
    pub fn spill_figures(&self) -> SpillFigures {
        let figure = |one: &AtomicU64| one.load(Ordering::Relaxed);
        SpillFigures {
            open: figure(&self.spills.open),
            open_bytes: figure(&self.spills.open_bytes),
            runs: figure(&self.spills.runs),
            written_bytes: figure(&self.spills.written_bytes),
            disk_bytes: self.engine.approximate_size(Space::Spill, &[], &[]).unwrap_or(0),
        }
    }
}

impl Spill {
    /// Writes the next run. One pass, bounded memory.
    ///
    /// # Errors
    /// Those of `next`, and the engine's (14031 if the disk is full).
    pub fn write_run(&mut self, next: &mut NextEntry<'_>) -> Result<()> {
        let run = self.run_count;
        self.run_count += 1;
        let (mut position, mut failed) = (0u64, None);
        let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
        let (bytes, entries) = (&mut self.bytes, &mut self.entries);
        let totals = &*self.totals;
        let mut counted = *bytes;
        let prefix = run_key(self.ident, run);
        let done = self.engine.load(Space::Spill, &mut |key, value| {
            entry_key.clear();
            entry_value.clear();
            match next(&mut entry_key, &mut entry_value) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    failed = Some(error);
                    return Err(nagi_kv::Error::other("the source of a spilled run failed"));
                }
            }
            key.clear();
            key.extend_from_slice(&prefix);
            key.extend_from_slice(&position.to_be_bytes());
            position += 1;
            value.clear();
            value.extend_from_slice(&(entry_key.len() as u32).to_le_bytes());
            value.extend_from_slice(&entry_key);
            value.extend_from_slice(&entry_value);
            *bytes += value.len() as u64;
            *entries += 1;
            if *bytes - counted >= COUNTED_AT {
                totals.add(*bytes - counted);
                counted = *bytes;
            }
            Ok(true)
        });
        totals.add(*bytes - counted);
        totals.runs.fetch_add(1, Ordering::Relaxed);
        match failed {
            Some(error) => Err(error),
            None => done.map_err(engine),
        }
    }

    /// Number of runs written.
    pub fn run_count(&self) -> u32 {
        self.run_count
    }

    /// Entries written, in all runs.
    pub fn entry_count(&self) -> u64 {
        self.entries
    }

    /// Bytes written, keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads a run from its beginning.
    pub fn read_run(&self, run: u32) -> Result<SpillCursor> {
        let (start, end) = (run_key(self.ident, run), run_key(self.ident, run + 1));
        let cursor = self.engine.latest().cursor(Space::Spill, &start, &end).map_err(engine)?;
        Ok(SpillCursor { cursor, start, begun: false })
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if self.run_count > 0 {
            let (start, end) = (run_key(self.ident, 0), run_key(self.ident + 1, 0));
            if let Err(error) = self.engine.drop_range(Space::Spill, &start, &end) {
                log::warn!(target: "STORAGE", id = 9_000_020, error:% = error;
                    "Cannot give back the space of a spilled sort or group");
            }
        }
        self.totals.open_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.totals.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn run_key(ident: u32, run: u32) -> [u8; 8] {
    ((u64::from(ident) << 32) | u64::from(run)).to_be_bytes()
}

/// A walk over a run, in the order in which it was written.
pub struct SpillCursor {
    cursor: Box<dyn Cursor>,
    start: [u8; 8],
    begun: bool,
}

impl SpillCursor {
    /// Goes to the next entry; false at the end.
    pub fn advance(&mut self) -> Result<bool> {
        let moved = match self.begun {
            true => self.cursor.next(),
            false => self.cursor.seek(&self.start),
        };
        self.begun = true;
        moved.map_err(engine)
    }

    /// Key and value of the current entry.
    pub fn entry(&self) -> Result<(&[u8], &[u8])> {
        let split = self
            .cursor
            .value()
            .split_first_chunk::<4>()
            .and_then(|(len, rest)| rest.split_at_checked(u32::from_le_bytes(*len) as usize));
        split.ok_or_else(|| Error::bug("an entry of a spilled run is not what was written"))
    }
}
