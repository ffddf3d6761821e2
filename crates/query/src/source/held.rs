//! The charge of an operator that holds documents: sorts, groups and their like.

use nagi_budget::{Charge, Pool};

use super::Cx;

/// Charged at a time; so much every operator may hold uncharged, lest it spill single documents.
const STEP: u64 = 1 << 20;

/// The part of the pool that an operator may have which makes one document of what it holds.
const ONE_PART: u64 = 8;

/// What an operator has of the execution pool. Nothing before it is first asked.
#[derive(Default)]
pub(crate) struct Held(Option<Charge>);

impl Held {
    /// Why an operator ends that finds no room and may not write to disk.
    pub(crate) const FULL: &str = "the memory for running queries is used up by other requests, and \
        this one did not opt in to writing temporary files. Pass allowDiskUse:true to opt in.";

    /// Whether the operator may hold `bytes`; if not it is to spill, or to end.
    pub(crate) fn fits(&mut self, cx: &Cx<'_>, bytes: usize) -> bool {
        let bytes = bytes as u64;
        if bytes < STEP {
            return true;
        }
        let new = || Charge::empty(cx.store.budget(), Pool::Execution);
        self.0.get_or_insert_with(new).cover(bytes, STEP)
    }

    /// As [`Held::fits`], for an operator that makes one document of all that it holds: with the result and the
    /// buffer that it grows in it is several times as much, so it has a part of the pool.
    pub(crate) fn fits_as_one(&mut self, cx: &Cx<'_>, bytes: usize) -> bool {
        let limit = cx.store.budget().limit(Pool::Execution) / ONE_PART;
        ((bytes as u64) < STEP || bytes as u64 <= limit) && self.fits(cx, bytes)
    }

    /// It holds no more than this now.
    pub(crate) fn keep(&mut self, bytes: usize) {
        if let Some(charge) = &mut self.0 {
            charge.shrink_to(bytes as u64);
        }
    }

    /// Its cursor waits for a getMore.
    pub(crate) fn park(&mut self) {
        self.move_to(Pool::Cursors);
    }

    /// Its cursor continues.
    pub(crate) fn resume(&mut self) {
        self.move_to(Pool::Execution);
    }

    fn move_to(&mut self, pool: Pool) {
        if let Some(charge) = &mut self.0 {
            charge.move_to(pool);
        }
    }
}
