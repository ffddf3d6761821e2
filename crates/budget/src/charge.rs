//! Charged memory, which is released when the charge is dropped.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Budget, Pool, line::Asking, meter};

/// The memory that one holder has charged to a pool.
pub struct Charge {
    budget: Arc<Budget>,
    pool: Pool,
    bytes: u64,
    /// Its number in [`crate::line::Holders`], if its request holds memory.
    held_since: Option<u64>,
}

impl Charge {
    /// An empty charge.
    pub fn empty(budget: &Arc<Budget>, pool: Pool) -> Charge {
        Charge { budget: Arc::clone(budget), pool, bytes: 0, held_since: None }
    }

    /// Bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges `bytes` more. Returns false if there is no capacity.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let taken = self.budget.take(self.pool, bytes, self.bytes);
        if taken {
            self.note_taken(bytes);
        }
        taken
    }

    /// Like [`Charge::try_grow`], but never beyond the limit of all pools together, even for a charge that is larger
    /// than its pool and alone in it.
    pub(crate) fn try_grow_strictly(&mut self, bytes: u64) -> bool {
        let taken = self.try_grow_within_all(bytes);
        if taken && self.held_since.is_none() {
            self.held_since = Some(self.budget.holders.join());
        }
        taken
    }

    /// Like [`Charge::try_grow_strictly`], for a holder that is not a request: it does not count among those of which
    /// the youngest ends.
    pub(crate) fn try_grow_within_all(&mut self, bytes: u64) -> bool {
        let fits = self.budget.demand().checked_add(bytes);
        fits.is_some_and(|sum| sum <= self.budget.demand_max_for(bytes)) && self.try_grow(bytes)
    }

    /// Like [`Charge::try_grow_strictly`], but does not overtake requests that wait.
    pub(crate) fn try_grow_in_turn(&mut self, bytes: u64) -> bool {
        !self.budget.has_waiting() && self.try_grow_strictly(bytes)
    }

    /// Like [`Charge::try_grow_strictly`], but waits in the queue. Returns false if there was no capacity in time, if
    /// `go_on` returned false, or if all who hold memory wait and this one has held it for the shortest time. See
    /// [`crate::line`].
    pub(crate) fn grow_in_line(
        &mut self,
        bytes: u64,
        go_on: Option<&mut dyn FnMut() -> bool>,
    ) -> bool {
        let budget = Arc::clone(&self.budget);
        let (own, held_since) = (self.bytes, self.held_since.filter(|_| self.bytes > 0));
        let who = Asking { pool: self.pool, bytes, own, held_since, go_on };
        budget.wait_in_line(who, &mut || self.try_grow_strictly(bytes))
    }

    /// Returns true if the engine's background work holds memory.
    pub(crate) fn is_beside_work(&self) -> bool {
        self.budget.pool(Pool::Compactions).used > 0
    }

    pub(crate) fn is_of(&self, budget: &Arc<Budget>) -> bool {
        Arc::ptr_eq(&self.budget, budget)
    }

    /// Has the allocator return free pages to the operating system if this charge is a large part of the budget.
    /// Otherwise the pages of the next holder of this capacity would come on top of them.
    pub(crate) fn purge_if_large(&self) {
        self.budget.purge_after(self.bytes);
    }

    fn note_taken(&mut self, bytes: u64) {
        self.bytes += bytes;
        meter::cover(self.pool, bytes as i64);
    }

    /// Charges up to `bytes` in total, in steps of `step`. Returns false if there is no capacity for the next step: the
    /// holder then fails, and that counts as refused. Cheap as long as the last step is not used up.
    pub fn cover(&mut self, bytes: u64, step: u64) -> bool {
        let covered = self.try_cover(bytes, step);
        if !covered {
            self.budget.note_refused(self.pool);
        }
        covered
    }

    /// Like [`Charge::cover`], for a holder that can do with less: it spills to disk, or gives up what it keeps only to
    /// be fast. So nothing counts as refused.
    pub fn try_cover(&mut self, bytes: u64, step: u64) -> bool {
        bytes <= self.bytes || self.try_grow((bytes - self.bytes).next_multiple_of(step.max(1)))
    }

    /// Counts what [`Charge::try_cover`] did not get as refused, because the holder fails after all.
    pub fn note_refused(&self) {
        self.budget.note_refused(self.pool);
    }

    /// Like [`Charge::cover`] without steps, but waits for capacity, at most `wait`. Returns false if there was none
    /// in time or `go_on` returned false.
    pub fn cover_within(
        &mut self,
        bytes: u64,
        wait: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else { return true };
        let budget = Arc::clone(&self.budget);
        budget
            .wait_within(self.pool, wait, go_on, &mut || self.try_grow(more).then_some(()))
            .is_some()
    }

    /// Charges memory that exists already, regardless of the limit.
    pub fn force(&mut self, bytes: u64) {
        self.budget.force(self.pool, bytes);
        self.note_taken(bytes);
    }

    /// Reduces the charge to `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if bytes < self.bytes {
            self.budget.give(self.pool, self.bytes - bytes);
            meter::cover(self.pool, bytes as i64 - self.bytes as i64);
            self.bytes = bytes;
        }
        if bytes == 0 {
            self.hold_no_more();
        }
    }

    fn hold_no_more(&mut self) {
        if let Some(number) = self.held_since.take() {
            self.budget.holders.leave(number);
        }
    }

    /// Moves the charge to another pool, regardless of its limit, because the memory exists already.
    pub fn move_to(&mut self, pool: Pool) {
        if pool != self.pool {
            self.budget.force(pool, self.bytes);
            self.budget.give(self.pool, self.bytes);
            meter::cover(self.pool, -(self.bytes as i64));
            meter::cover(pool, self.bytes as i64);
            self.pool = pool;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.hold_no_more();
        if self.bytes > 0 {
            self.budget.give(self.pool, self.bytes);
            meter::cover(self.pool, -(self.bytes as i64));
        }
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.pool.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_ahead_and_given_back() {
        let budget = Budget::new(1000 << 20);
        let mut charge = Charge::empty(&budget, Pool::Execution);
        assert!(charge.cover(10, 100) && charge.cover(100, 100));
        assert_eq!(charge.bytes(), 100);
        assert!(charge.cover(101, 100));
        assert_eq!((charge.bytes(), budget.demand()), (200, 200));
        let other = budget.try_charge(Pool::Execution, 1).unwrap();
        let refused = || budget.pool(Pool::Execution).refused;
        assert!(!charge.try_cover(900 << 20, 100));
        assert_eq!(refused(), 0, "its holder spills");
        assert!(!charge.cover(900 << 20, 100));
        assert_eq!(refused(), 1);
        drop(other);
        charge.shrink_to(50);
        charge.move_to(Pool::Cursors);
        assert_eq!(budget.pool(Pool::Cursors).used, 50);
        drop(charge);
        assert_eq!(budget.demand(), 0);
    }
}
