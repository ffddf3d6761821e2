//! Sources: what yields documents, one at a time. Plan nodes and pipeline stages are both sources.
//!
//! Two calls instead of one lending `next()`: `advance` moves, `doc` lends the current document. So
//! a filter loops over its input in plain lines, and a caller may write to the database while the
//! document is still lent.
//!
//!   scan / index scan -> fetch -> filter -> sort -> skip -> limit -> projection -> stages ...
//!
//! Invariants
//! - Leaf sources call [`Cx::tick`] for every entry they look at, so that every plan can be killed.
//!   Sources that read all their input first call [`Cx::pass`] for every document they pass on then,
//!   and sort by [`nagi_lang::ordered::order`].
//! - After `save` a source holds no cursor of the engine; `restore` opens them again, behind the
//!   entry returned last. What `doc` lends is lost by `save`.
//! - Metadata goes with its document through every source that keeps documents or reshapes them; it is
//!   there only if the pipeline asks for it (`nagi_lang::expr::MetaSet`).
//! - After `advance` returned false it returns false again.
//! - What `split` gives away yields exactly what would have followed, in that order.

use nagi_bson::{Doc, DocWriter};
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey, Spill};

/// What a source over one other passes on: the record, the end, the input itself.
macro_rules! over_input {
    () => {
        fn record_id(&self) -> Option<RecordKey<'_>> {
            self.input.record_id()
        }

        fn meta(&self) -> Doc<'_> {
            self.input.meta()
        }

        fn is_at_end(&self) -> bool {
            self.input.is_at_end()
        }

        fn inputs(&mut self) -> &mut [Box<dyn Source>] {
            std::slice::from_mut(&mut self.input)
        }
    };
}

mod ahead;
mod carried;
mod counted;
mod cx;
mod deep;
mod fetch;
mod filter;
mod held;
mod helped;
mod ids;
mod index_scan;
mod intersection;
mod kept;
mod key_test;
mod limit;
mod marked;
mod memory;
mod nearest;
mod partition;
mod pick;
mod queue;
mod random;
mod runs;
mod scan;
mod seen;
mod shallow;
mod shape;
mod sort;
mod started;
mod stats;
mod text;
mod unwritten;
pub(crate) mod work;

pub(crate) use ahead::{Ahead, Taken};
pub(crate) use carried::{carry, document, metadata};
pub(crate) use counted::{Counted, Pass, Staged};
pub use cx::{Cx, Env, Interrupt};
pub(crate) use cx::{read_meta, renew, room};
pub(crate) use deep::Deep;
pub(crate) use fetch::{Fetch, SortMerge, Union};
pub(crate) use filter::Filtered;
pub(crate) use held::Held;
pub(crate) use helped::{Gather, drain};
pub(crate) use ids::Ids;
pub(crate) use index_scan::IndexScan;
pub(crate) use intersection::AndSorted;
pub(crate) use kept::{Kept, KeptDocs};
pub(crate) use limit::{Limit, Skip};
pub(crate) use marked::{CURSOR, mark_plan, plan_root};
pub(crate) use memory::Documents;
pub(crate) use nearest::Nearest;
pub(crate) use partition::{Partition, PartitionReader};
pub(crate) use pick::Pick;
pub(crate) use random::Random;
pub(crate) use runs::Runs;
pub(crate) use scan::{CollScan, Eof, IdLookup, ScanOptions};
pub(crate) use seen::Seen;
pub(crate) use shallow::Shallow;
pub(crate) use shape::{FromKey, KeptKey, Project, RecordIds, put_key};
pub(crate) use sort::{Sort, SortLimits};
pub(crate) use started::{Returned, Started};
pub use stats::ExecutionStats;
pub(crate) use stats::sum_stats;
pub(crate) use text::{TextMatch, TextOr};
pub(crate) use unwritten::Unwritten;

/// Anything that yields documents.
pub(crate) trait Source: Send {
    /// Goes to the next document. False at the end.
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool>;

    /// The current document; only after `advance` returned true.
    fn doc(&self) -> Doc<'_>;

    /// The metadata of the current document, as [`nagi_lang::expr::Metadata`] reads it; empty if it has
    /// none. A source that makes one document of one passes its input's on.
    fn meta(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    /// Which record the current document is, if it is one as it is stored.
    fn record_id(&self) -> Option<RecordKey<'_>> {
        None
    }

    /// The index key (and its type bits) that the current entry came from, if there is one.
    fn key(&self) -> Option<(&[u8], &[u8])> {
        None
    }

    /// Adds the records of up to `count` of the entries that `advance` is going to come to, in that
    /// order, as far as a look at so many keys tells; the source does not move. None if it does not
    /// know them. Only `advance` may be called next.
    fn ahead(&mut self, _cx: &mut Cx<'_>, _count: usize, _out: &mut Vec<RecordId>) -> Result<()> {
        Ok(())
    }

    /// The sources it reads from. `save`, `restore` and explain walk it.
    fn inputs(&mut self) -> &mut [Box<dyn Source>];

    /// Lets go of the engine's cursors but remembers the position.
    fn save(&mut self) {
        for input in self.inputs() {
            input.save();
        }
    }

    /// Takes the position up again, reading from `cx`.
    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        for input in self.inputs() {
            input.restore(cx)?;
        }
        Ok(())
    }

    /// Asks before a later state is read whether an index that it walks has met arrays since
    /// [`nagi_store::Index::multikey_changes`] was `noted`: its keys are then not all there is to a value. True if
    /// so. `checked` says that who reads it tests the documents by the whole filter.
    ///
    /// # Errors
    /// 175 where answers are taken from the keys.
    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        let mut changed = false;
        for input in self.inputs() {
            changed |= input.doubt_keys(noted, checked)?;
        }
        Ok(changed)
    }

    /// Whether it is known, without looking, that the next `advance` returns false.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Keeps what it yields first and gives away the later part, for another thread to read. None if
    /// that does not pay or cannot be done.
    fn split(&mut self, _cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    /// The same from its beginning, of what `split` gave away.
    fn afresh(&self) -> Option<Box<dyn Source>> {
        None
    }

    /// Records before this one are not wanted: a source in the order of its records may leave them out.
    fn pass_to(&mut self, _id: RecordKey<'_>) {}

    /// The last record that a collection scan looked at, whether it was returned or not.
    fn position(&mut self) -> Option<RecordId> {
        self.inputs().first_mut().and_then(|input| input.position())
    }

    /// What it counted so far, for explain.
    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    /// Writes what explain shows of a stage's run beside the counters that all have.
    fn show_run(&self, _out: &mut DocWriter<'_>) {}

    /// The place in its pipeline of the stage that it is, if it was opened for explain.
    fn stage_at(&self) -> Option<usize> {
        None
    }
}

/// What a source did, beyond the documents it returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SourceStats {
    /// Calls of `advance` (counted around the source).
    pub works: u64,
    /// Documents returned (counted around the source).
    pub advanced: u64,
    /// Whether it came to its end (counted around the source).
    pub at_end: bool,
    /// Index keys looked at.
    pub keys_examined: u64,
    /// Records looked at.
    pub docs_examined: u64,
    /// Times an index or record cursor was positioned.
    pub seeks: u64,
    /// Index entries that led to a record seen before.
    pub dups_dropped: u64,
    /// Bytes a blocking source held at most.
    pub bytes_held: u64,
    /// Bytes a blocking source wrote to disk.
    pub bytes_spilled: u64,
    /// Runs it wrote them in.
    pub spills: u64,
    /// Documents, or parts of groups, in them.
    pub records_spilled: u64,
    /// Nanoseconds spent in it and below (measured around the source, for explain only).
    pub nanos: u64,
}

impl SourceStats {
    /// Adds what went to disk.
    pub(crate) fn note_spill(&mut self, spill: &Spill) {
        self.bytes_spilled += spill.bytes();
        self.spills += u64::from(spill.run_count());
        self.records_spilled += spill.entry_count();
    }

    /// Writes what went to disk, as stages of a pipeline show it.
    pub(crate) fn show_spills(&self, out: &mut DocWriter<'_>) {
        out.put("usedDisk", self.spills > 0);
        out.put("spills", self.spills as i64);
        out.put("spilledDataStorageSize", self.bytes_spilled as i64);
        out.put("numBytesSpilledEstimate", self.bytes_spilled as i64);
        out.put("spilledRecords", self.records_spilled as i64);
    }
}
