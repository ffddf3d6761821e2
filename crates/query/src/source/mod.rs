//! Sources: iterators over documents. Plan nodes and pipeline stages are both sources.
//!
//! A source has two calls instead of one lending `next()`: `advance` moves, and `doc` lends the current document.
//! So a filter is a plain loop over its input, and a caller may write to the database while the document is still
//! lent.
//!
//!   scan / index scan -> fetch -> filter -> sort -> skip -> limit -> projection -> stages ...
//!
//! The life of a source:
//!
//! ```text
//!   open      reads nothing
//!   advance   true: `doc`, `meta`, `record_id` are valid until the next call; false: exhausted
//!   save      the request ends: cursors of the engine are closed, the position is kept
//!   restore   the next request, on a newer snapshot: cursors are opened again after the last entry
//!   advance   ...
//! ```
//!
//! # Invariants
//! - Leaf sources call [`Cx::tick`] for every entry they examine, so that every plan can be cancelled. Sources that
//!   read all their input first call [`Cx::pass`] for every document that they pass on afterwards, and sort with
//!   [`nagi_lang::ordered::order`].
//! - After `save` a source holds no cursor of the engine. Documents lent by `doc` are invalid after `save`.
//! - Metadata stays with its document through every source that keeps or reshapes documents. It exists only if the
//!   pipeline uses it (`nagi_lang::expr::MetaSet`).
//! - After `advance` has returned false it returns false again, unless its leaf gets its documents in portions.
//! - The source returned by `split` yields exactly what would have followed, in the same order.

use nagi_bson::{Doc, DocWriter};
use nagi_error::Result;
use nagi_store::{RecordId, RecordKey, Spill};

/// The default implementation of a source over one input: record, end and input are passed on.
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

/// Splits a source over one input, which has nothing of its own between two documents: `over` makes the same source
/// over another input.
macro_rules! splits_with_input {
    () => {
        fn split(&mut self, cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
            let later = self.input.split(cx)?;
            Ok(later.map(|later| Box::new(self.over(later)) as Box<dyn Source>))
        }

        fn splits_late(&self) -> bool {
            self.input.splits_late()
        }

        fn afresh(&self) -> Option<Box<dyn Source>> {
            Some(Box::new(self.over(self.input.afresh()?)))
        }
    };
}
pub(crate) use splits_with_input;

/// Forks a source over one input, which has nothing of its own between two documents and derives at most one from
/// each record. `over` is that of [`splits_with_input`].
macro_rules! forks_with_input {
    () => {
        fn forks(&self) -> bool {
            self.input.forks()
        }

        fn fork(&mut self, records: i64, cx: &Cx<'_>) -> Result<Option<$crate::source::Fork>> {
            let fork = self.input.fork(records, cx)?;
            let over = |later| Box::new(self.over(later)) as Box<dyn Source>;
            Ok(fork.map(|fork| $crate::source::Fork { later: over(fork.later), ..fork }))
        }

        fn rejoin(&mut self, behind: Option<nagi_store::RecordId>, examined: u64) {
            self.input.rejoin(behind, examined);
        }

        fn place(&self) -> Option<$crate::source::Placed> {
            self.input.place()
        }
    };
}
pub(crate) use forks_with_input;

mod ahead;
mod beside;
mod counted;
mod cx;
mod deep;
mod fetch;
mod filter;
mod from_key;
mod ids;
mod index_scan;
mod intersection;
mod key_layout;
mod key_test;
mod limit;
mod materialized;
mod memory;
mod nearest;
mod operator_memory;
mod parallel_batch;
mod parallel_scan;
mod partition;
mod pick;
mod plan_root;
mod portion;
mod queue;
mod random;
mod runs;
mod scan;
mod seen;
mod serialized;
mod shallow;
mod shape;
mod sort;
mod started;
mod stats;
mod text;
mod unwritten;
pub(crate) mod work;
mod workers;

pub(crate) use ahead::{Ahead, Place, Taken};
pub(crate) use beside::{Absorber, beside, gathers_portions, join};
pub(crate) use counted::{Counted, Pass, Staged};
pub use cx::{CHANGE_COPIES, Cx, Env, Interrupt};
pub(crate) use cx::{check_memory, read_meta, renew};
pub(crate) use deep::Deep;
pub(crate) use fetch::{Fetch, SortMerge, Union};
pub(crate) use filter::Filtered;
pub(crate) use from_key::{FromKey, put_key};
pub(crate) use ids::Ids;
pub(crate) use index_scan::IndexScan;
pub(crate) use intersection::AndSorted;
pub(crate) use limit::{Limit, Skip};
pub(crate) use materialized::{Materialized, MaterializedScan};
pub(crate) use memory::Documents;
pub(crate) use nearest::{Nearest, geo_metadata};
pub(crate) use operator_memory::OperatorMemory;
pub use parallel_batch::Room;
pub(crate) use parallel_batch::{Answer, Fork, ParallelBatch, Placed, Receiver};
pub(crate) use parallel_scan::{Gather, absorb, drain};
pub(crate) use partition::{Partition, PartitionReader};
pub(crate) use pick::Pick;
pub(crate) use plan_root::{CURSOR, InOrder, mark_plan, plan_root};
pub(crate) use portion::{Absorbed, Portion, PortionReader, PortionSlot};
pub(crate) use random::Random;
pub(crate) use runs::Runs;
pub(crate) use scan::{CollScan, Eof, IdLookup, ScanOptions};
pub(crate) use seen::Seen;
pub(crate) use serialized::{document, metadata, serialize};
pub(crate) use shallow::Shallow;
pub(crate) use shape::{KeptKey, Project, RecordIds};
pub(crate) use sort::{Sort, SortLimits};
pub(crate) use started::{Returned, Started};
pub use stats::ExecutionStats;
pub(crate) use stats::sum_stats;
pub(crate) use text::{TextMatch, TextOr};
pub(crate) use unwritten::Unwritten;
pub use workers::{end_idle_workers, on_worker_start};

/// An iterator over documents.
pub(crate) trait Source: Send {
    /// Moves to the next document. Returns false if there is none.
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool>;

    /// The current document; valid only after `advance` returned true.
    fn doc(&self) -> Doc<'_>;

    /// The metadata of the current document, as [`nagi_lang::expr::Metadata`] parses it; empty if it has none. A
    /// source that derives each document from one of its input passes on the input's metadata.
    fn meta(&self) -> Doc<'_> {
        Doc::EMPTY
    }

    /// The record of the current document, if it is a stored record.
    fn record_id(&self) -> Option<RecordKey<'_>> {
        None
    }

    /// The index key (and its type bits) of the current entry, if there is one.
    fn key(&self) -> Option<(&[u8], &[u8])> {
        None
    }

    /// Appends the records of up to `count` of the entries that `advance` will reach, in that order, examining at
    /// most that many keys. The source does not move. It appends none if it does not know them. Only `advance` may
    /// be called next.
    fn ahead(&mut self, _cx: &mut Cx<'_>, _count: usize, _out: &mut Vec<RecordId>) -> Result<()> {
        Ok(())
    }

    /// Reads the documents that its leaf has at present, for a leaf that gets its documents in portions, and tells
    /// what becomes of them. If it `Yields`, nothing was read, and the caller calls `advance` until it returns false.
    fn absorb(&mut self, cx: &mut Cx<'_>) -> Result<Absorbed> {
        match self.inputs() {
            [input] => match input.absorb(cx)? {
                Absorbed::Keeps => Ok(Absorbed::Keeps),
                Absorbed::Yields | Absorbed::Unable => Ok(Absorbed::Unable),
            },
            _ => Ok(Absorbed::Unable),
        }
    }

    /// For a source that keeps its portions: creates a gatherer of later portions, for another thread. None if the
    /// work cannot be shared.
    fn beside(&mut self, cx: &mut Cx<'_>) -> Result<Option<Box<dyn Absorber>>> {
        match self.inputs() {
            [input] => input.beside(cx),
            _ => Ok(None),
        }
    }

    /// [`Gather::complete`] of what it keeps.
    fn complete(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.inputs().iter_mut().try_for_each(|input| input.complete(cx))
    }

    /// Appends what a gatherer created by `beside` has.
    fn join(&mut self, later: Box<dyn Absorber>, cx: &mut Cx<'_>) -> Result<()> {
        match self.inputs() {
            [input] => input.join(later, cx),
            _ => Err(nagi_error::Error::bug("nothing is gathered")),
        }
    }

    /// [`Gather::alone`] of what it keeps.
    fn alone(&mut self) {
        self.inputs().iter_mut().for_each(|input| input.alone());
    }

    /// The sources it reads from. `save`, `restore` and explain visit them.
    fn inputs(&mut self) -> &mut [Box<dyn Source>];

    /// Closes the engine's cursors but keeps the position.
    fn save(&mut self) {
        for input in self.inputs() {
            input.save();
        }
    }

    /// Restores the position, reading from `cx`.
    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        for input in self.inputs() {
            input.restore(cx)?;
        }
        Ok(())
    }

    /// Called before a later snapshot is read. Returns true if an index that it scans got array values since
    /// [`nagi_store::Index::multikey_changes`] was `noted`, because its keys then no longer represent whole values.
    /// `checked` means that the reader tests the documents with the whole filter.
    ///
    /// # Errors
    /// 175 if results are taken from the keys.
    fn doubt_keys(&mut self, noted: u64, checked: bool) -> Result<bool> {
        let mut changed = false;
        for input in self.inputs() {
            changed |= input.doubt_keys(noted, checked)?;
        }
        Ok(changed)
    }

    /// Returns true if it is known without further reading that the next `advance` returns false.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Returns true if, saved and restored from a later snapshot, it never yields a document again that was changed
    /// in the meantime, and misses none. An index scan may meet a changed document a second time, under its new key.
    fn is_steady(&self) -> bool {
        false
    }

    /// True if it yields its documents in the order that the stage above wants, because the plan does. Sources between
    /// the plan and that stage change nothing.
    fn is_in_wanted_order(&mut self) -> bool {
        match self.inputs() {
            [input] => input.is_in_wanted_order(),
            _ => false,
        }
    }

    /// Splits the source: it keeps its first part and returns the later part, for another thread. None if that does
    /// not pay or is not possible.
    fn split(&mut self, _cx: &Cx<'_>) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    /// True if it is to be split only when it has yielded some documents, because most have few, and a split costs as
    /// much as reading some.
    fn splits_late(&self) -> bool {
        false
    }

    /// A copy of a source returned by `split`, restarted from its beginning.
    fn afresh(&self) -> Option<Box<dyn Source>> {
        None
    }

    /// True if `fork` may return a source.
    fn forks(&self) -> bool {
        false
    }

    /// True if a document costs more than a copy of it.
    fn computes(&self) -> bool {
        true
    }

    /// Limits the source to its next `records` records or fewer, and returns one of as many records after them, for
    /// another thread. None if it has too few. Unlike `split`, it lasts only until `rejoin`, and is repeated.
    fn fork(&mut self, _records: i64, _cx: &Cx<'_>) -> Result<Option<Fork>> {
        Ok(None)
    }

    /// Continues to the end that it had before the fork, after `behind` if that is given and else after its own
    /// records. The other source has examined so many.
    fn rejoin(&mut self, _behind: Option<RecordId>, _examined: u64) {}

    /// The record of a collection scan from which the current document was derived.
    fn place(&self) -> Option<Placed> {
        None
    }

    /// Records before `id` are not needed: a source in the order of its records may skip them.
    fn pass_to(&mut self, _id: RecordKey<'_>) {}

    /// The last record that a collection scan examined, returned or not.
    fn position(&mut self) -> Option<RecordId> {
        self.inputs().first_mut().and_then(|input| input.position())
    }

    /// Its counters so far, for explain.
    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    /// Writes the fields that explain shows for a stage's run, in addition to the common counters.
    fn show_run(&self, _out: &mut DocWriter<'_>) {}

    /// The position of this stage in its pipeline, if it was opened for explain.
    fn stage_at(&self) -> Option<usize> {
        None
    }
}

/// Counters of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SourceStats {
    /// Calls of `advance` (counted around the source).
    pub works: u64,
    /// Documents returned (counted around the source).
    pub advanced: u64,
    /// True if it reached its end (counted around the source).
    pub at_end: bool,
    /// Index keys examined.
    pub keys_examined: u64,
    /// Records examined.
    pub docs_examined: u64,
    /// Times an index or record cursor was positioned.
    pub seeks: u64,
    /// Index entries that were dropped because their record had been seen before.
    pub dups_dropped: u64,
    /// Peak of the bytes that a blocking source held.
    pub bytes_held: u64,
    /// Bytes that a blocking source spilled to disk.
    pub bytes_spilled: u64,
    /// Number of spilled runs.
    pub spills: u64,
    /// Number of documents, or parts of groups, in the runs.
    pub records_spilled: u64,
    /// Nanoseconds spent in the source and below (measured around the source, for explain only).
    pub nanos: u64,
}

impl SourceStats {
    /// Adds the counters of a spill.
    pub(crate) fn note_spill(&mut self, spill: &Spill) {
        self.bytes_spilled += spill.bytes();
        self.spills += u64::from(spill.run_count());
        self.records_spilled += spill.entry_count();
    }

    /// Writes the counters of spills in the form in which pipeline stages show them.
    pub(crate) fn show_spills(&self, out: &mut DocWriter<'_>) {
        out.put("usedDisk", self.spills > 0);
        out.put("spills", self.spills as i64);
        out.put("spilledDataStorageSize", self.bytes_spilled as i64);
        out.put("numBytesSpilledEstimate", self.bytes_spilled as i64);
        out.put("spilledRecords", self.records_spilled as i64);
    }
}
