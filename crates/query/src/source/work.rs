//! The work of a request's statements, in addition to their outcomes: for the log of slow operations, the profiler
//! and the counters of `serverStatus`.
//!
//! Reads return their statistics with their results. Writes run many statements over one [`Env`], each perhaps
//! several times after conflicts. The work of each attempt is summed in the `Env`, so that every write is counted.

use std::cell::{Cell, RefCell};

use nagi_bson::DocBuf;
use nagi_store::KeysWritten;

use crate::{Env, ExecutionStats};

/// The sum over the statements of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    pub stats: ExecutionStats,
    pub keys_inserted: u64,
    pub keys_deleted: u64,
    /// Attempts that were repeated because another write came first.
    pub write_conflicts: u64,
    /// Number of times that a statement released its snapshot or transaction and took a new one.
    pub yields: u64,
    /// Transactions begun.
    pub transactions: u64,
    /// Plans of statements that read the whole collection.
    pub collection_scans: u64,
}

impl Work {
    /// Adds the work of another statement.
    pub fn add(&mut self, other: &Work) {
        self.stats.add(&other.stats);
        self.keys_inserted += other.keys_inserted;
        self.keys_deleted += other.keys_deleted;
        self.write_conflicts += other.write_conflicts;
        self.yields += other.yields;
        self.transactions += other.transactions;
        self.collection_scans += other.collection_scans;
    }
}

/// The place where an [`Env`] keeps it.
#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) work: Cell<Work>,
    pub(crate) stages: RefCell<Option<DocBuf>>,
}

impl Noted {
    pub(crate) fn change(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.work.get();
        change(&mut work);
        self.work.set(work);
    }
}

impl Env<'_> {
    /// The work of this request's statements so far.
    pub fn work(&self) -> Work {
        self.noted().work.get()
    }

    /// The stages of the last plan, as explain shows them, if the interrupt wants them.
    pub fn take_stages(&self) -> Option<DocBuf> {
        self.noted().stages.take()
    }

    /// Adds one attempt of a transaction. `conflicted`: it has to be repeated, because another write came first.
    pub(crate) fn note_attempt(&self, conflicted: bool, keys: KeysWritten) {
        if conflicted {
            self.interrupt().yielded(true);
        }
        self.noted().change(|work| {
            work.transactions += 1;
            work.write_conflicts += u64::from(conflicted);
            work.yields += u64::from(conflicted);
            // The writes of an attempt that is repeated do not count.
            work.keys_inserted += keys.inserted;
            work.keys_deleted += keys.deleted;
        });
    }

    /// A multi-document statement has read this many records again in order to change them. Records that its plan
    /// had examined since `before` count once.
    pub(crate) fn note_reread(&self, before: u64, read: u64) {
        self.noted().change(|work| {
            let docs = &mut work.stats.docs_examined;
            *docs = (*docs).max(before + read);
        });
    }

    /// Counts documents that statements by `_id` have found together.
    pub(crate) fn note_lookups(&self, count: u64) {
        self.interrupt().examined(count, count);
        self.noted().change(|work| {
            work.stats.keys_examined += count;
            work.stats.docs_examined += count;
        });
    }

    /// Counts that the statement released its snapshot or transaction and continues with another one.
    pub(crate) fn note_yield(&self) {
        self.interrupt().yielded(false);
        self.noted().change(|work| work.yields += 1);
    }

    /// Puts the stage of the write on top of the stages that found the documents.
    pub(crate) fn top_stages(&self, name: &str, counts: &[(&str, u64)]) {
        let mut stages = self.noted().stages.borrow_mut();
        if let Some(input) = stages.take() {
            *stages = Some(DocBuf::build(|out| {
                out.put("stage", name);
                out.put("nReturned", 0);
                counts.iter().for_each(|(name, n)| {
                    out.put(name, i32::try_from(*n).unwrap_or(i32::MAX));
                });
                out.put("inputStage", &input);
            }));
        }
    }
}
