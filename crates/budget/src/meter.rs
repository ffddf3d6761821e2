//! The meter of a thread: counts the memory of a request that has no other charge.
//!
//! ```text
//!   uncovered = allocated by this thread - freed by it - its charges in pools that cover such memory
//! ```
//!
//! The allocator ([`crate::Metered`]) and the charges update this one number. A request stores it when it begins
//! ([`Metering`]). When more than a first megabyte has been added, the excess is charged to [`Pool::Evaluation`] by
//! the megabyte. That happens where the request calls [`fits`]: at every step of its work, and before it builds
//! something large. So the memory of every operator is limited, also of new ones without charges, and nothing is
//! charged twice. Where another charge moves to another thread, its memory moves too.
//!
//! Without the metering allocator, and on threads without a request, nothing is counted and everything fits.

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    sync::{Arc, OnceLock},
};

use crate::{Budget, Charge, Pool};

/// Bytes that a request may hold without a charge.
pub const FREE_BYTES: i64 = 1 << 20;
const STEP: u64 = 1 << 20;
/// The pools of running requests, which release what they hold when they end. Engines of scripts are kept.
pub(crate) const REQUEST_POOLS: [Pool; 4] =
    [Pool::Evaluation, Pool::Execution, Pool::Replies, Pool::Requests];
/// The charge is reduced when it is too large by this much.
const EASE_BYTES: i64 = 4 << 20;
/// A large value that the engine reads from disk exists twice: in the buffer of the file and as a block.
const READ_COPIES: usize = 2;
/// A request that only reads makes up to this many copies of a large value at the same time.
const OWN_COPIES: usize = 3;

thread_local! {
    static UNCOVERED: Cell<i64> = const { Cell::new(0) };
    /// The value of `UNCOVERED` up to which the request needs no further charge.
    static LIMIT: Cell<i64> = const { Cell::new(i64::MAX) };
    /// Bytes that the next request may hold without a charge of its own, beyond its first megabyte.
    static ALLOWED: Cell<i64> = const { Cell::new(0) };
    /// Bytes that this thread charged to [`REQUEST_POOLS`].
    static OWN: Cell<i64> = const { Cell::new(0) };
    static CHARGE: RefCell<Option<Charge>> = const { RefCell::new(None) };
    static REFUSAL: Cell<Refusal> = const { Cell::new(Refusal::None) };
    /// The last wait for memory was ended in favour of others.
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
    static COPIES: Cell<usize> = const { Cell::new(OWN_COPIES) };
    static READ: Cell<Read> = const { Cell::new(Read { bytes: 0, last: 0, is_old: false }) };
}

/// The large values that the engine holds for the request of this thread, as far as it is known: usually the one that
/// was read last.
#[derive(Clone, Copy, Default)]
struct Read {
    /// Counted for them.
    bytes: i64,
    /// The size of the one that was read last.
    last: i64,
    /// [`ease`] was called since then.
    is_old: bool,
}

/// Returns false if the request of the current thread was interrupted.
static GO_ON: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the interrupt check of requests that wait without one of their own. The first call counts.
pub fn attach_interrupt(go_on: fn() -> bool) {
    // Another server in this process has the same function.
    let _ = GO_ON.set(go_on);
}

/// The requests of this thread from now on may hold `bytes` without a charge of their own: their message was charged
/// for them, see the pool `requests`.
pub fn allow(bytes: usize) {
    ALLOWED.set(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// The engine is about to read `bytes` from disk for one large value, or for several at once. Returns true if the
/// request of this thread may hold them, with the copies that it will make of them; with `waits`, it waits for that.
/// Otherwise the read must fail. The memory is counted until the next large read, and otherwise until some hundred
/// steps later: the engine keeps a block until its cursor moves.
///
/// Threads without a request (flushes, compactions) read at once.
#[must_use]
pub fn read_large(bytes: usize, waits: bool) -> bool {
    if LIMIT.get() == i64::MAX {
        return true;
    }
    forget_read();
    count_read(bytes, waits)
}

/// Like [`read_large`], while the engine keeps the values that it has read before for this request.
#[must_use]
pub fn read_another(bytes: usize, waits: bool) -> bool {
    if LIMIT.get() == i64::MAX {
        return true;
    }
    // The buffer of the last one is free.
    let Read { bytes: counted, last, .. } = READ.get();
    note(-last);
    READ.set(Read { bytes: counted - last, ..Read::default() });
    count_read(bytes, waits)
}

/// Like [`read_large`], for a value that takes the place of one that was read before, while the engine keeps the
/// others.
#[must_use]
pub fn read_instead(bytes: usize, waits: bool) -> bool {
    let counted = READ.get();
    if !counts(bytes) {
        return read_large(bytes, waits);
    }
    READ.set(Read { is_old: false, ..counted });
    true
}

/// Returns true if a value of `bytes` is counted.
fn counts(bytes: usize) -> bool {
    let counted = usize::try_from(READ.get().bytes).unwrap_or(0);
    counted >= bytes.saturating_mul(READ_COPIES)
}

fn count_read(bytes: usize, waits: bool) -> bool {
    let read = bytes.saturating_mul(READ_COPIES);
    if !has(read) {
        // With an empty charge it waits in the order of arrival.
        give_back();
        let step = bytes.saturating_mul(READ_COPIES + COPIES.get());
        let granted = match waits {
            true => fits_in_time(step, None) || fits_in_time(read, None),
            false => fits_in_turn(step),
        };
        if !granted {
            return false;
        }
    }
    let held = i64::try_from(read).unwrap_or(i64::MAX);
    note(held);
    let bytes = READ.get().bytes.saturating_add(held);
    READ.set(Read { bytes, last: held / READ_COPIES as i64, is_old: false });
    true
}

/// Like [`read_large`], for a value of `bytes` that was found in memory, where the request keeps it from eviction.
/// Returns true if that is the value that was read last.
#[must_use]
pub fn hold_large(bytes: usize, waits: bool) -> bool {
    counts(bytes) || read_large(bytes, waits)
}

fn fits_in_turn(more: usize) -> bool {
    if has(more) {
        return true;
    }
    if check_refused() {
        return false;
    }
    let Some(bytes) = missing(more) else { return true };
    with_charge(|charge| charge.try_grow_in_turn(bytes)).unwrap_or(true)
}

/// The request of this thread will make up to `copies` copies of a large document that it reads. It should not have to
/// wait for them when it holds the document.
pub fn expect_copies(copies: usize) {
    if LIMIT.get() != i64::MAX {
        COPIES.set(copies.max(OWN_COPIES));
    }
}

/// The engine holds no large value for the request of this thread any more. Releases the charge for it.
pub fn release_read() {
    if READ.get().bytes != 0 {
        forget_read();
        give_back();
    }
}

/// Like [`release_read`], but the request keeps its charge for the copies that it is going to make.
pub fn end_read() {
    if READ.get().bytes != 0 {
        forget_read();
    }
}

fn forget_read() {
    let read = READ.take();
    note(-read.bytes);
}

/// The state of a refusal by [`must_fit`] on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    None,
    /// The request was refused and has not been notified yet.
    Pending,
    Told,
}

/// Counts memory that was allocated, or freed if negative.
#[inline]
pub(crate) fn note(bytes: i64) {
    UNCOVERED.set(UNCOVERED.get().wrapping_add(bytes));
}

/// Counts `bytes` as if the allocator had given them to this thread, or taken them if negative: for memory that
/// other code takes from the operating system on behalf of the thread.
#[inline]
pub fn count(bytes: i64) {
    note(bytes);
}

/// Counts that a charge covers `bytes` more, or less if negative.
#[inline]
pub(crate) fn cover(pool: Pool, bytes: i64) {
    if REQUEST_POOLS.contains(&pool) {
        OWN.set(OWN.get().wrapping_add(bytes));
    }
    if pool.covers() {
        note(-bytes);
    }
}

/// Bytes that the request of this thread holds of [`REQUEST_POOLS`].
pub(crate) fn own_bytes() -> u64 {
    u64::try_from(OWN.get()).unwrap_or(0)
}

/// Returns true if the request of this thread may hold `more` bytes in addition to its present memory; charges them
/// if required. Costs a few instructions if no charge is required.
#[inline]
#[must_use]
pub fn fits(more: usize) -> bool {
    has(more) || charge(more)
}

/// Like [`fits`], for code that cannot fail: comparisons, hashes. If it returns false, the request must fail: all
/// further requests for memory are refused, [`check_refused`] returns true, and the placeholder result of the
/// caller is discarded.
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

/// Returns true if the request of this thread was refused where it could not fail. It must be called before any
/// result of the request leaves it (a commit, a reply), and a caller that gets true fails the request.
#[inline]
pub fn check_refused() -> bool {
    let refused = REFUSAL.get() != Refusal::None;
    if refused {
        REFUSAL.set(Refusal::Told);
    }
    refused
}

/// Notes how the wait of this thread in the queue ended: in favour of others that hold memory, or otherwise.
pub(crate) fn note_wait(gave_way: bool) {
    GAVE_WAY.set(gave_way);
}

/// Returns true if the last wait of this thread's request ended because all requests that hold memory were waiting, and
/// this one had held it for the shortest time: it may succeed if it is repeated after it has released its memory.
/// Releases the charge of what it has freed.
pub fn take_gave_way() -> bool {
    let gave_way = GAVE_WAY.replace(false);
    if gave_way {
        forget_read();
        give_back();
    }
    gave_way
}

/// Returns true if the request was refused and [`check_refused`] has not been called since.
pub fn is_refusal_pending() -> bool {
    REFUSAL.get() == Refusal::Pending
}

#[cold]
fn charge(more: usize) -> bool {
    if check_refused() {
        return false;
    }
    let Some(bytes) = missing(more) else { return true };
    let granted = with_charge(|charge| charge.try_grow_strictly(bytes)).unwrap_or(true);
    // The engine's background work releases its memory by itself, so that it is worth a wait.
    granted
        || with_charge(|charge| charge.is_beside_work()) == Some(true) && fits_in_time(more, None)
}

/// Returns true if `more` bytes are covered by the charge of this thread's request.
#[inline]
#[must_use]
pub fn has(more: usize) -> bool {
    UNCOVERED.get().saturating_add(more as i64) <= LIMIT.get()
}

/// Like [`fits`], but waits in the queue if there is no capacity. Returns false if there was none in time, if `go_on`
/// returned false, or if all requests that hold memory wait and this one has held it for the shortest time. Without
/// `go_on` the attached check is called ([`attach_interrupt`]); without one the wait is short.
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
    let attached = GO_ON.get().copied();
    let granted = with_charge(|charge| match (go_on, attached) {
        (None, Some(attached)) => charge.grow_in_line(bytes, Some(&mut || attached())),
        (go_on, _) => charge.grow_in_line(bytes, go_on),
    });
    granted.unwrap_or(true)
}

/// The bytes to charge for `more` bytes, in whole steps; none if no charge is required.
fn missing(more: usize) -> Option<u64> {
    let over = UNCOVERED.get().saturating_add(more as i64).saturating_sub(LIMIT.get());
    u64::try_from(over).ok().filter(|over| *over > 0).map(|over| over.next_multiple_of(STEP))
}

fn with_charge<T>(work: impl FnOnce(&mut Charge) -> T) -> Option<T> {
    // The charge is taken out meanwhile: `work` may wait, and a callback that it calls may come here again.
    let mut charge = CHARGE.take()?;
    let result = work(&mut charge);
    CHARGE.set(Some(charge));
    Some(result)
}

/// Releases the part of the charge whose memory has been freed.
#[inline]
pub fn ease() {
    if READ.get().bytes != 0 && !age_read() {
        return;
    }
    if UNCOVERED.get() < LIMIT.get().saturating_sub(FREE_BYTES + EASE_BYTES) {
        give_back();
    }
}

/// Forgets the large value at the second call after it was read, because the cursor has moved meanwhile, and returns
/// true. Until then the charge is kept for the copies.
#[cold]
fn age_read() -> bool {
    let read = READ.get();
    match read.is_old {
        true => forget_read(),
        false => READ.set(Read { is_old: true, ..read }),
    }
    read.is_old
}

#[cold]
fn give_back() {
    let spare = LIMIT.get().saturating_sub(FREE_BYTES + UNCOVERED.get());
    // The first megabyte needs no charge.
    with_charge(|charge| {
        let is_free = UNCOVERED.get().saturating_add(charge.bytes() as i64) <= LIMIT.get();
        let spare = if is_free { charge.bytes() } else { u64::try_from(spare).unwrap_or(0) };
        if spare > 0 {
            charge.purge_if_large();
            charge.shrink_to(charge.bytes().saturating_sub(spare));
        }
    });
}

/// Bytes that this thread holds without any charge but the request's own. Only differences of this value are
/// meaningful.
pub fn held() -> i64 {
    let own = UNCOVERED.get().saturating_sub(READ.get().bytes);
    own.saturating_add(with_charge(|charge| charge.bytes()).unwrap_or(0) as i64)
}

/// A request of this thread. When it is dropped, its charge is released, after free pages were returned to the
/// operating system if the charge is large. Requests within a request are part of it.
#[derive(Debug)]
pub struct Metering {
    /// The limit of the enclosing request.
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
            let free = FREE_BYTES.saturating_add(ALLOWED.get());
            LIMIT.set(UNCOVERED.get().saturating_add(free));
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
        GAVE_WAY.set(false);
        COPIES.set(OWN_COPIES);
        forget_read();
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

    /// The same allocator as in the server.
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
    fn what_the_message_was_charged_for_needs_no_charge() {
        let budget = Budget::new(1000 * MIB as u64);
        let _message = budget.try_charge(Pool::Requests, 50 * MIB as u64).unwrap();
        allow(40 * MIB);
        let request = Metering::begin(&budget);
        assert!(fits(40 * MIB));
        assert_eq!(budget.pool(Pool::Evaluation).used, 0);
        assert!(fits(60 * MIB));
        assert!(budget.pool(Pool::Evaluation).used.abs_diff(19 * MIB as u64) <= MIB as u64);
        drop(request);
        allow(0);
        let _next = Metering::begin(&budget);
        assert!(fits(40 * MIB));
        assert!(budget.pool(Pool::Evaluation).used >= 38 * MIB as u64);
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
    fn a_large_read_is_charged_once_for_a_whole_step() {
        let budget = Budget::new(800 * MIB as u64);
        // In whole megabytes, so one more or less.
        let used = |budget: &Budget, megabytes: usize| {
            budget.pool(Pool::Evaluation).used.abs_diff((megabytes * MIB) as u64) <= MIB as u64
        };
        assert!(read_large(1000 * MIB, true), "not in a request");
        let request = Metering::begin(&budget);
        let before = held();
        assert!(read_large(10 * MIB, false));
        assert!(used(&budget, 49), "the first megabyte is free");
        assert!(held() - before < 64 << 10, "it is not kept by a cursor");
        // The copies of the request, and the next read after they were freed.
        let copies = Vec::<u8>::with_capacity(29 * MIB);
        assert!(has(0) && !has(2 * MIB));
        drop(copies);
        assert!(read_large(10 * MIB, false));
        assert!(hold_large(9 * MIB, false));
        assert!(used(&budget, 49));
        // A larger one, for which the charge for the smaller one is released first.
        assert!(read_large(30 * MIB, false));
        assert!(used(&budget, 149));
        release_read();
        assert!(used(&budget, 0));
        assert!(read_large(10 * MIB, false));
        ease();
        assert!(used(&budget, 49), "the cursor may still be on it");
        ease();
        assert!(used(&budget, 0));
        // The engine keeps both, and the third; then it replaces one.
        assert!(read_large(10 * MIB, false));
        assert!(read_another(10 * MIB, false) && read_another(20 * MIB, false));
        assert!(used(&budget, 119), "two, and a whole step for the third");
        assert!(read_instead(25 * MIB, false));
        assert!(used(&budget, 119));
        release_read();
        assert!(used(&budget, 0));
        expect_copies(5);
        assert!(read_large(10 * MIB, false));
        assert!(used(&budget, 69));
        assert!(!read_large(800 * MIB, true), "more than there is");
        drop(request);
        assert_eq!(budget.demand(), 0);
    }

    #[test]
    fn large_reads_wait_for_each_other() {
        let budget = Budget::new(100 * MIB as u64);
        let (read, seen) = std::sync::mpsc::channel();
        let (go, told) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let budget = &budget;
            scope.spawn(move || {
                let _request = Metering::begin(budget);
                assert!(read_large(10 * MIB, true));
                read.send(()).unwrap();
                told.recv().unwrap();
            });
            seen.recv().unwrap();
            let waiting = scope.spawn(move || {
                let _request = Metering::begin(budget);
                assert!(!read_large(10 * MIB, false), "it would have to wait");
                read_large(10 * MIB, true)
            });
            while !budget.has_waiting() {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            assert!(waiting.join().unwrap());
        });
        assert_eq!(budget.demand(), 0);
    }

    #[test]
    fn a_charge_waits_for_those_of_others() {
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
                // The other thread drops its charge after this.
                let _ = gone.send(());
                true
            })
        ));
        holder.join().unwrap();
        let others = Arc::clone(&budget);
        // Another request that came later holds memory, too, and waits for what this one has.
        let later = std::thread::spawn(move || {
            let _request = Metering::begin(&others);
            assert!(fits_in_time(5 * MIB, None));
            let mut waited = false;
            let go_on: &mut dyn FnMut() -> bool = &mut || {
                waited = true;
                false
            };
            (fits_in_time(30 * MIB, Some(go_on)), waited)
        });
        assert_eq!(later.join().unwrap(), (false, true));
        assert!(budget.pool(Pool::Evaluation).refused > 0);
    }

    #[test]
    fn one_that_gave_its_memory_to_others_succeeds_later() {
        let budget = Budget::new(100 * MIB as u64);
        let _request = Metering::begin(&budget);
        assert!(fits_in_time(15 * MIB, None));
        let elder_held = vec![0_u8; 15 * MIB];
        let (others, (holds, held)) = (Arc::clone(&budget), std::sync::mpsc::channel());
        let younger = std::thread::spawn(move || {
            let _request = Metering::begin(&others);
            assert!(!take_gave_way());
            let first = fits_in_time(14 * MIB, None).then(|| vec![0_u8; 14 * MIB]);
            holds.send(()).unwrap();
            let more = fits_in_time(14 * MIB, None);
            drop(first);
            let told = (more, take_gave_way(), take_gave_way());
            (told, fits_in_time(25 * MIB, None), take_gave_way())
        });
        held.recv().unwrap();
        // Both wait for each other until the younger one gives way.
        assert!(fits_in_time(12 * MIB, None) && !take_gave_way());
        drop(elder_held);
        drop(_request);
        assert_eq!(younger.join().unwrap(), ((false, true, false), true, false));
    }
}
