//! The later half of a large read-ahead is read by a worker thread, with the same snapshot.
//!
//! The rules are those of a parallel scan ([`super::super::parallel_scan`]): a worker begins only while a core is
//! free, and polls the request's interrupt. Its records are a millisecond of work, so it does not hand over.

use nagi_budget::{Metering, meter};
use nagi_error::Result;
use nagi_store::{Collection, RecordId};

use super::Ahead;
use crate::source::{Cx, parallel_scan::Lent, workers};

/// Fewer records are read by one thread: starting another one costs as much as some dozens of reads.
const HELPED_MIN: usize = 384;
/// Records whose numbers are that close are read by steps of a cursor, which is faster than two threads that search.
const STEPS_EACH_MAX: i64 = 4;

impl Ahead {
    /// Reads the sorted ids with two threads. Returns false, with nothing read, if that does not pay or a core is not
    /// free.
    pub(super) fn read_by_two(&mut self, collection: &Collection, cx: &Cx<'_>) -> Result<bool> {
        if self.sorted.len() < HELPED_MIN || are_near(&self.sorted) {
            return Ok(false);
        }
        let Some(shared) = cx.reader.share() else { return Ok(false) };
        let interrupt = cx.env.interrupt();
        if !interrupt.begin_help() {
            return Ok(false);
        }
        let _lent = Lent(interrupt);
        self.split = self.sorted.len() / 2;
        let (first, second) = self.sorted.split_at(self.split);
        let (bytes_max, budget) = (self.bytes_max / 2, cx.store.budget());
        let [own, other] = &mut self.parts;
        let own = || own.read((cx.reader, collection), first, bytes_max, interrupt);
        let (read, helped) = workers::beside(own, || {
            let _metering = Metering::begin(budget);
            let read = other.read((shared.reader(), collection), second, bytes_max, interrupt);
            read.is_ok() && !meter::check_refused()
        });
        read?;
        // What the worker did not read is read when it is requested, with its errors.
        if helped != Some(true) {
            other.clear();
        }
        Ok(true)
    }
}

fn are_near(sorted: &[RecordId]) -> bool {
    match (sorted.first(), sorted.last()) {
        (Some(RecordId::Id(first)), Some(RecordId::Id(last))) => {
            last.saturating_sub(*first) < sorted.len() as i64 * STEPS_EACH_MAX
        }
        _ => false,
    }
}
