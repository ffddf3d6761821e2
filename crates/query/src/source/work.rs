//! What a request's statements looked at and did, beside their outcomes: for the log of slow operations, the
//! profiler and the counters of `serverStatus`.
//!
//! Reads give their figures back with their results. Writes run many statements over one [`Env`], each perhaps
//! several times after conflicts: what each attempt did is added up in the `Env`, so that no write can forget it.

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
    /// Attempts that began again because another write came first.
    pub write_conflicts: u64,
    /// Times a statement let go of what it held (snapshot, transaction) and took it again.
    pub yields: u64,
    /// Transactions begun.
    pub transactions: u64,
}

impl Work {
    /// Adds what another statement did.
    pub fn add(&mut self, other: &Work) {
        self.stats.add(&other.stats);
        self.keys_inserted += other.keys_inserted;
        self.keys_deleted += other.keys_deleted;
        self.write_conflicts += other.write_conflicts;
        self.yields += other.yields;
        self.transactions += other.transactions;
    }
}

/// Where an [`Env`] keeps it.
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
    /// What the statements of this request did so far.
    pub fn work(&self) -> Work {
        self.noted().work.get()
    }

    /// The stages of the plan that ran last, as explain shows them, if the interrupt wants them.
    pub fn take_stages(&self) -> Option<DocBuf> {
        self.noted().stages.take()
    }

    /// Adds one attempt of a transaction.
    pub(crate) fn note_attempt(&self, is_again: bool, keys: KeysWritten) {
        if is_again {
            self.interrupt().yielded(true);
        }
        self.noted().change(|work| {
            work.transactions += 1;
            work.write_conflicts += u64::from(is_again);
            work.yields += u64::from(is_again);
            // What an attempt wrote that began again is not written.
            work.keys_inserted += keys.inserted;
            work.keys_deleted += keys.deleted;
        });
    }

    /// A statement on many has read this many records again to change them. Those that its plan had looked at
    /// already since `before` count once.
    pub(crate) fn note_reread(&self, before: u64, read: u64) {
        self.noted().change(|work| {
            let docs = &mut work.stats.docs_examined;
            *docs = (*docs).max(before + read);
        });
    }

    /// The statement let go of its snapshot or transaction, and continues with another one.
    pub(crate) fn note_yield(&self) {
        self.interrupt().yielded(false);
        self.noted().change(|work| work.yields += 1);
    }

    /// The stage of the write continues top of the stages that found the documents.
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
