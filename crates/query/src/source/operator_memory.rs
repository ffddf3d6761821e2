//! The memory charge of an operator that holds documents: sort, group and others.

use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Error, err};

use super::Cx;

/// Step of a charge. Every operator may hold this much without a charge, so that it does not spill single
/// documents.
const STEP: u64 = 1 << 20;

/// The fraction of the pool for an operator that builds one document from everything it holds.
const ONE_PART: u64 = 8;

/// The operator's charge in the execution pool. Nothing is charged before the first call.
#[derive(Default)]
pub(crate) struct OperatorMemory(Option<Charge>);

impl OperatorMemory {
    const FULL: &str = "the memory for running queries is used up by other requests, and \
        this one did not opt in to writing temporary files. Pass allowDiskUse:true to opt in.";

    /// The error of an operator that finds no capacity and may not spill; it counts as refused.
    pub(crate) fn full(&self) -> Error {
        if let Some(charge) = &self.0 {
            charge.note_refused();
        }
        err!(Code::EXCEEDED_MEMORY_LIMIT, "{}", OperatorMemory::FULL)
    }

    /// Returns true if the operator may hold `bytes`; if not, it has to spill, or to fail with
    /// [`OperatorMemory::full`].
    pub(crate) fn fits(&mut self, cx: &Cx<'_>, bytes: usize) -> bool {
        let bytes = bytes as u64;
        if bytes < STEP {
            return true;
        }
        let new = || Charge::empty(cx.store.budget(), Pool::Execution);
        self.0.get_or_insert_with(new).try_cover(bytes, STEP)
    }

    /// Like [`OperatorMemory::fits`], for an operator that builds one document from everything it holds. With the
    /// result and its growing buffer it needs several times as much memory, so it gets only a fraction of the pool.
    pub(crate) fn fits_as_one(&mut self, cx: &Cx<'_>, bytes: usize) -> bool {
        let limit = cx.store.budget().limit(Pool::Execution) / ONE_PART;
        ((bytes as u64) < STEP || bytes as u64 <= limit) && self.fits(cx, bytes)
    }

    /// Reduces the charge to `bytes`.
    pub(crate) fn keep(&mut self, bytes: usize) {
        if let Some(charge) = &mut self.0 {
            charge.shrink_to(bytes as u64);
        }
    }

    /// The cursor is parked until a getMore.
    pub(crate) fn park(&mut self) {
        self.move_to(Pool::Cursors);
    }

    /// The cursor continues.
    pub(crate) fn resume(&mut self) {
        self.move_to(Pool::Execution);
    }

    fn move_to(&mut self, pool: Pool) {
        if let Some(charge) = &mut self.0 {
            charge.move_to(pool);
        }
    }
}
