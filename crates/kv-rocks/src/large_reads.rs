//! The gate for large values, whose memory is not part of the cache: before their blocks are read from disk, and when a
//! request keeps a cached one from eviction. The engine does not know the budget: the process attaches the functions
//! that wait for memory.

use std::{cell::Cell, sync::OnceLock};

/// Larger values pass the gate.
pub(crate) const LARGE_BYTES: usize = 256 << 10;

/// What becomes of the large values that the thread has read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// They are released.
    Gone,
    /// They are kept: a search backward reads a block of each file.
    Kept,
    /// One of them is released, the others are kept: a step backward reads the next block of a file.
    Replaced,
}

/// Functions that are called on the reading thread with a number of bytes. They return true if the thread may hold
/// them. Each is called without a wait at first, and then with `true`: it may wait.
#[derive(Clone, Copy)]
pub struct Gate {
    /// Before so much is read from disk at once.
    pub read: fn(usize, Earlier, bool) -> bool,
    /// Before the thread continues with a value that was found in memory.
    pub hold: fn(usize, bool) -> bool,
}

static GATE: OnceLock<Gate> = OnceLock::new();

thread_local! {
    static EARLIER: Cell<Earlier> = const { Cell::new(Earlier::Gone) };
    /// The thread has read a large value since `EARLIER` was set.
    static HAS_READ: Cell<bool> = const { Cell::new(false) };
    /// What a thread of the engine's own may still read; none for threads of clients.
    static ALLOWED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Reads of large values by a thread of the engine's own, for which no request is charged, until it is dropped: beyond
/// so many bytes they fail. A search backward keeps a block of each file, of which a small cache has many.
pub(crate) struct Allowance;

impl Allowance {
    pub(crate) fn begin(bytes: usize) -> Allowance {
        ALLOWED.set(Some(bytes));
        Allowance
    }

    fn take(left: usize, bytes: usize) -> bool {
        let rest = left.checked_sub(bytes);
        ALLOWED.set(Some(rest.unwrap_or(0)));
        rest.is_some()
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        ALLOWED.set(None);
    }
}

/// A search or a step backward of this thread, until it is dropped.
pub(crate) struct Backward;

impl Backward {
    /// `earlier`: what it does with the values that it reads itself.
    pub(crate) fn begin(earlier: Earlier) -> Backward {
        EARLIER.set(earlier);
        HAS_READ.set(false);
        Backward
    }
}

impl Drop for Backward {
    fn drop(&mut self) {
        EARLIER.set(Earlier::Gone);
    }
}

/// Sets the gate. A read that it refuses fails with [`nagi_kv::Error::NoMemory`]. The first call counts.
pub fn attach_large_reads(gate: Gate) {
    // A process has one budget for each thread, and one function that knows it.
    let _ = GATE.set(gate);
}

pub(crate) fn may_read(bytes: usize, waits: bool) -> bool {
    if let Some(left) = ALLOWED.get() {
        return Allowance::take(left, bytes);
    }
    let earlier = match EARLIER.get() {
        // A search releases those of the position before.
        Earlier::Kept if !HAS_READ.get() => Earlier::Gone,
        earlier => earlier,
    };
    let may = GATE.get().is_none_or(|gate| (gate.read)(bytes, earlier, waits));
    HAS_READ.set(may || HAS_READ.get());
    may
}

/// Returns true if the thread may hold a value of `bytes`, which the engine does not hold meanwhile; waits for that.
pub(crate) fn wait_to_hold(bytes: usize) -> bool {
    bytes <= LARGE_BYTES || may_hold(bytes, false) || may_hold(bytes, true)
}

pub(crate) fn may_hold(bytes: usize, waits: bool) -> bool {
    GATE.get().is_none_or(|gate| (gate.hold)(bytes, waits))
}
