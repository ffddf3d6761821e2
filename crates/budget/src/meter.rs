//! The meter of a thread: what a request holds that no other charge knows of.
//!
//! ```text
//!   uncovered = allocated by this thread - freed by it - its charges in pools that cover such memory
//! ```
//! The allocator ([`crate::Metered`]) and the charges keep this one number. A request notes it when it
//! begins ([`Metering`]); what is added beyond a first megabyte is charged to [`Pool::Evaluation`], by the
//! megabyte, where the request asks ([`fits`]): at every step of its work, and before it makes something
//! large. So whatever an operator collects is bounded, also by operators that have not been written yet, and
//! nothing is charged twice. Where another charge moves to another thread, its memory does too.
//!
//! Without the allocator nothing is counted and everything fits. So it is on threads without a request.

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    sync::Arc,
};

use crate::{Budget, Charge, Pool};

/// A request may hold so much uncharged; charged at a time.
pub const FREE_BYTES: i64 = 1 << 20;
const STEP: u64 = 1 << 20;
/// A charge that is too large by this is made smaller.
const EASE_BYTES: i64 = 4 << 20;

thread_local! {
    static UNCOVERED: Cell<i64> = const { Cell::new(0) };
    /// What `UNCOVERED` may be before the request asks for more.
    static LIMIT: Cell<i64> = const { Cell::new(i64::MAX) };
    static CHARGE: RefCell<Option<Charge>> = const { RefCell::new(None) };
    static REFUSAL: Cell<Refusal> = const { Cell::new(Refusal::None) };
}

/// Whether [`must_fit`] refused the request of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    None,
    /// It has not yet been told to end.
    Pending,
    Told,
}

/// Memory was taken, or given back if negative.
#[inline]
pub(crate) fn note(bytes: i64) {
    UNCOVERED.set(UNCOVERED.get().wrapping_add(bytes));
}

/// As if the allocator had given so much to this thread, or taken it back if negative: for memory that others
/// take from the system on its behalf.
#[inline]
pub fn count(bytes: i64) {
    note(bytes);
}

/// A charge covers so much more, or less if negative.
#[inline]
pub(crate) fn cover(pool: Pool, bytes: i64) {
    if pool.covers() {
        note(-bytes);
    }
}

/// Whether the request of this thread may hold `more` bytes beside what it has; charges them if need be.
/// Some instructions as long as it need not.
#[inline]
#[must_use]
pub fn fits(more: usize) -> bool {
    has(more) || charge(more)
}

/// As [`fits`], for code that cannot fail: comparisons, hashes. If it does not fit, the request is to end: all
/// that it asks for from now on is refused, [`check_refused`] is true, and what the caller makes up instead of
/// a result goes nowhere.
#[inline]
#[must_use]
pub fn must_fit(more: usize) -> bool {
    fits(more) || refuse()
}

#[cold]
fn refuse() -> bool {
    if REFUSAL.get() == Refusal::None {
        REFUSAL.set(Refusal::Pending);
        LIMIT.set(i64::MIN);
    }
    false
}

/// Whether the request of this thread was refused where it could not fail. To be asked before anything that
/// it made leaves it: a commit, a result. Who asks ends the request.
#[inline]
pub fn check_refused() -> bool {
    let refused = REFUSAL.get() != Refusal::None;
    if refused {
        REFUSAL.set(Refusal::Told);
    }
    refused
}

/// Whether the request was refused and no one has asked since.
pub fn is_refusal_pending() -> bool {
    REFUSAL.get() == Refusal::Pending
}

#[cold]
fn charge(more: usize) -> bool {
    if check_refused() {
        return false;
    }
    let Some(bytes) = missing(more) else { return true };
    with_charge(|charge| charge.try_grow_strictly(bytes)).unwrap_or(true)
}

/// Whether `more` bytes are covered by what the request of this thread has charged already.
#[inline]
#[must_use]
pub fn has(more: usize) -> bool {
    UNCOVERED.get().saturating_add(more as i64) <= LIMIT.get()
}

/// As [`fits`]; if there is no room, stands in line for some. False if there was none in time, if `go_on` said
/// no, or if the request holds something and is not the one that has held longest. Without `go_on` the wait
/// is short.
#[cold]
#[must_use]
pub fn fits_in_time(more: usize, go_on: Option<&mut dyn FnMut() -> bool>) -> bool {
    if has(more) {
        return true;
    }
    if check_refused() {
        return false;
    }
    let Some(bytes) = missing(more) else { return true };
    with_charge(|charge| charge.grow_in_line(bytes, go_on)).unwrap_or(true)
}

/// What has to be charged for `more` bytes, in whole steps; none if nothing.
fn missing(more: usize) -> Option<u64> {
    let over = UNCOVERED.get().saturating_add(more as i64).saturating_sub(LIMIT.get());
    u64::try_from(over).ok().filter(|over| *over > 0).map(|over| over.next_multiple_of(STEP))
}

fn with_charge<T>(work: impl FnOnce(&mut Charge) -> T) -> Option<T> {
    // Taken out meanwhile: `work` may wait, and who it asks on the way may come here.
    let mut charge = CHARGE.take()?;
    let result = work(&mut charge);
    CHARGE.set(Some(charge));
    Some(result)
}

/// Gives back what was charged for memory that has been freed since.
#[inline]
pub fn ease() {
    if UNCOVERED.get() < LIMIT.get().saturating_sub(FREE_BYTES + EASE_BYTES) {
        give_back();
    }
}

#[cold]
fn give_back() {
    let spare = LIMIT.get().saturating_sub(FREE_BYTES + UNCOVERED.get());
    with_charge(|charge| {
        let spare = u64::try_from(spare).unwrap_or(0);
        charge.shrink_to(charge.bytes().saturating_sub(spare));
    });
}

/// Bytes that this thread holds and no charge but the request's own knows of; only differences mean
/// something.
pub fn held() -> i64 {
    UNCOVERED.get().saturating_add(with_charge(|charge| charge.bytes()).unwrap_or(0) as i64)
}

/// A request of this thread; what it has charged is given back when this is dropped, after the freed pages
/// went back to the system if they are many. Requests within a request are part of it.
#[derive(Debug)]
pub struct Metering {
    /// The limit of the request around.
    outer: i64,
    _of_this_thread: PhantomData<*const ()>,
}

impl Metering {
    /// Begins a request on this thread.
    pub fn begin(budget: &Arc<Budget>) -> Metering {
        let outer = LIMIT.get();
        if outer == i64::MAX {
            CHARGE.with_borrow_mut(|charge| {
                if charge.as_ref().is_none_or(|charge| !charge.is_of(budget)) {
                    *charge = Some(Charge::empty(budget, Pool::Evaluation));
                }
            });
            LIMIT.set(UNCOVERED.get().saturating_add(FREE_BYTES));
        }
        Metering { outer, _of_this_thread: PhantomData }
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        if self.outer != i64::MAX {
            return;
        }
        LIMIT.set(i64::MAX);
        REFUSAL.set(Refusal::None);
        with_charge(|charge| {
            if charge.bytes() > 0 {
                charge.purge_if_large();
                charge.shrink_to(0);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metered;

    /// As in the program.
    #[global_allocator]
    static ALLOCATOR: Metered<std::alloc::System> = Metered(std::alloc::System);

    const MIB: usize = 1 << 20;

    #[test]
    fn a_request_is_charged_for_what_it_holds_and_refused_at_the_limit() {
        let budget = Budget::new(100 * MIB as u64);
        let limit = budget.limit(Pool::Evaluation) as usize;
        let request = Metering::begin(&budget);
        let mut held: Vec<Vec<u8>> = Vec::new();
        while fits(MIB) {
            held.push(Vec::with_capacity(MIB));
            assert!(held.len() * MIB <= budget.demand_max() as usize + 2 * MIB);
        }
        assert!(held.len() * MIB >= limit, "{}", held.len());
        assert!(budget.pool(Pool::Evaluation).used as usize >= (held.len() - 2) * MIB);
        held.truncate(4);
        ease();
        assert!(budget.pool(Pool::Evaluation).used as usize <= 5 * MIB);
        assert!(fits(MIB));
        drop(held);
        drop(request);
        assert_eq!(budget.demand(), 0);
        assert!(fits(usize::MAX / 4), "no request, no limit");
    }

    #[test]
    fn what_another_charge_covers_is_not_charged_again() {
        let budget = Budget::new(1000 * MIB as u64);
        let _request = Metering::begin(&budget);
        let charge = budget.try_charge(Pool::Requests, 50 * MIB as u64).unwrap();
        let message = Vec::<u8>::with_capacity(50 * MIB);
        assert!(fits(0));
        assert_eq!(budget.pool(Pool::Evaluation).used, 0);
        drop(charge);
        assert!(fits(0));
        assert!(budget.pool(Pool::Evaluation).used >= 49 * MIB as u64);
        drop(message);
    }

    #[test]
    fn who_cannot_fail_has_the_request_end() {
        let budget = Budget::new(100 * MIB as u64);
        let request = Metering::begin(&budget);
        assert!(must_fit(MIB) && !check_refused());
        assert!(!must_fit(1000 * MIB));
        assert!(is_refusal_pending());
        let inner = Metering::begin(&budget);
        assert!(!fits(0) && !is_refusal_pending(), "it has been told");
        assert!(!fits_in_time(0, Some(&mut || panic!("nothing to wait for"))));
        drop(inner);
        assert!(check_refused(), "until the request ends");
        drop(request);
        assert!(!check_refused() && fits(1000 * MIB));
        assert_eq!(budget.demand(), 0);
        let _next = Metering::begin(&budget);
        assert!(fits(MIB) && !check_refused());
    }

    #[test]
    fn the_first_charge_waits_and_a_later_one_only_behind_nobody() {
        let budget = Budget::new(100 * MIB as u64);
        let full = budget.limit(Pool::Evaluation);
        let other = budget.try_charge(Pool::Evaluation, full).unwrap();
        let _request = Metering::begin(&budget);
        let (gone, seen) = std::sync::mpsc::channel();
        let holder = std::thread::spawn(move || {
            seen.recv().unwrap();
            drop(other);
        });
        assert!(fits_in_time(
            5 * MIB,
            Some(&mut || {
                // The other thread has gone once it was told.
                let _ = gone.send(());
                true
            })
        ));
        holder.join().unwrap();
        let others = Arc::clone(&budget);
        // Another request that came later: it holds something and does not wait for what this one has.
        let later = std::thread::spawn(move || {
            let _request = Metering::begin(&others);
            assert!(fits_in_time(5 * MIB, None));
            let go_on: &mut dyn FnMut() -> bool =
                &mut || panic!("it holds something, it must not wait");
            fits_in_time(30 * MIB, Some(go_on))
        });
        assert!(!later.join().unwrap());
        assert!(budget.pool(Pool::Evaluation).refused > 0);
    }
}
