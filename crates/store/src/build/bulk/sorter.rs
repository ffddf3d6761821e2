//! Sorts the keys of one index in bounded memory.
//!
//! Keys fill small segments in memory ([`Segment`]). When the segments of a build reach its memory limit, or the
//! budget has no capacity left, the sorter's segments are merged into a run on disk. At the end segments and runs
//! are merged into one stream; if there are very many runs, groups of them are merged first.

use nagi_budget::{Charge, Pool};
use nagi_error::Result;

use super::{
    merge::{Merge, Source},
    run::{self, BLOCK_BYTES, RunReader},
    segment::Segment,
};
use crate::{RecordKey, Spill, Store, bulk_figures::OpenSpill};

/// Limits of a segment: sorting one takes a few milliseconds.
const SEGMENT_BYTES_MAX: usize = 512 << 10;
const SEGMENT_BYTES_MIN: usize = 16 << 10;
/// Step in which memory is charged.
const CHARGE_BYTES: u64 = 4 << 20;
/// Limits of the number of runs that are merged at a time.
const FAN_IN: (usize, usize) = (8, 128);

/// The memory that all sorters of a build may hold together.
pub(super) struct Allowance {
    charge: Charge,
    /// Limit of each sorter.
    each: usize,
    held: usize,
}

impl Allowance {
    pub(super) fn new(store: &Store, bytes: u64, sorters: usize) -> Allowance {
        let each = usize::try_from(bytes).unwrap_or(usize::MAX) / sorters.max(1);
        let charge = Charge::empty(&store.budget, Pool::IndexBuilds);
        Allowance { charge, each: each.max(4 * SEGMENT_BYTES_MIN), held: 0 }
    }

    fn segment_bytes(&self) -> usize {
        (self.each / 8).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }

    fn fan_in(&self) -> usize {
        (self.each / (4 * BLOCK_BYTES)).clamp(FAN_IN.0, FAN_IN.1)
    }

    /// Returns false if the budget has no capacity.
    fn take(&mut self, bytes: usize) -> bool {
        self.held += bytes;
        self.charge.try_cover(self.held as u64, CHARGE_BYTES)
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        self.held -= bytes;
        self.charge.shrink_to(self.held as u64);
    }
}

/// The keys of one index.
#[derive(Default)]
pub(super) struct Sorter {
    open: Segment,
    full: Vec<Segment>,
    /// Memory of the full segments.
    bytes: usize,
    spill: Option<Spill>,
    counted: Option<OpenSpill>,
    count: u64,
    /// Memory of all segments that were sorted.
    sorted_bytes: u64,
}

/// All keys of an index, in order.
pub(super) struct Sorted {
    pub(super) merge: Merge,
    /// Number of keys.
    pub(super) count: u64,
    /// Memory to be released after reading.
    pub(super) held: usize,
    /// Keeps the runs that the merge reads.
    _spill: Option<Spill>,
    _counted: Option<OpenSpill>,
}

impl Sorter {
    /// Adds a key of a record.
    ///
    /// # Errors
    /// Errors of spilling (14031 if the disk is full), and of `go_on`, which is called from time to time.
    pub(super) fn add(
        &mut self,
        (key, bits): (&[u8], &[u8]),
        id: RecordKey<'_>,
        store: &Store,
        of: &mut Allowance,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        if !self.open.has_room(key.len() + bits.len(), of.segment_bytes()) {
            self.close(store, of, go_on)?;
        }
        self.open.push(key, id, bits);
        self.count += 1;
        Ok(())
    }

    fn close(
        &mut self,
        store: &Store,
        of: &mut Allowance,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        go_on()?;
        let mut segment = std::mem::take(&mut self.open);
        segment.sort();
        let bytes = segment.heap_bytes();
        self.bytes += bytes;
        self.sorted_bytes += bytes as u64;
        self.full.push(segment);
        if !of.take(bytes) || self.bytes + of.segment_bytes() > of.each {
            self.spill_out(store, of, go_on)?;
        }
        Ok(())
    }

    /// Writes the full segments as a run.
    fn spill_out(
        &mut self,
        store: &Store,
        of: &mut Allowance,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut merge = Merge::new(sources(std::mem::take(&mut self.full)));
        let spill = self.spill.get_or_insert_with(|| store.spill());
        self.counted.get_or_insert_with(|| store.bulk_builds.open_spill());
        let before = spill.bytes();
        run::write(spill, &mut merge, go_on)?;
        store.bulk_builds.add_run(self.bytes as u64, spill.bytes() - before);
        drop(merge);
        of.give_back(std::mem::take(&mut self.bytes));
        Ok(())
    }

    /// Finishes the sort and returns all keys in order.
    pub(super) fn finish(
        mut self,
        store: &Store,
        of: &mut Allowance,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Sorted> {
        if !self.open.is_empty() {
            self.close(store, of, go_on)?;
        }
        let mut spill = self.spill.take();
        while let Some(runs) = spill.take_if(|runs| runs.run_count() as usize > of.fan_in()) {
            let mut fewer = store.spill();
            for first in (0..runs.run_count()).step_by(of.fan_in()) {
                let end = (first + of.fan_in() as u32).min(runs.run_count());
                let group = (first..end).map(|run| RunReader::open(&runs, run).map(Source::Disk));
                let mut merge = Merge::new(group.collect::<Result<_>>()?);
                run::write(&mut fewer, &mut merge, go_on)?;
            }
            spill = Some(fewer);
        }
        let mut all = sources(self.full);
        if let Some(runs) = &spill {
            for run in 0..runs.run_count() {
                all.push(Source::Disk(RunReader::open(runs, run)?));
            }
        }
        store.bulk_builds.add_sorted(self.count, self.sorted_bytes);
        Ok(Sorted {
            merge: Merge::new(all),
            count: self.count,
            held: self.bytes,
            _spill: spill,
            _counted: self.counted,
        })
    }
}

fn sources(segments: Vec<Segment>) -> Vec<Source> {
    segments.into_iter().map(|segment| Source::Memory { segment, next: 0 }).collect()
}
