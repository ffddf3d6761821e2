//! The locks, atomics and threads of this crate and of `store`.
//!
//! They are those of `parking_lot` and of the standard library under other names. With the feature `shuttle`, which
//! only the schedule tests enable, they belong to a scheduler that runs one thread at a time and decides at each of
//! these calls, from a seed, which thread runs next. So a test can explore many interleavings, and repeat one of
//! them.
//!
//! All state shared between threads uses these types. Other primitives (a lock of another crate, a `OnceLock`) may
//! be used only if nothing from this module is called while they are held.

#[cfg(feature = "shuttle")]
mod scheduled;
#[cfg(feature = "shuttle")]
pub use scheduled::{
    Condvar, HashState, Instant, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Sender, atomic, channel, point, thread,
};

#[cfg(not(feature = "shuttle"))]
mod real {
    pub use std::sync::atomic;
    pub use std::sync::mpsc::{Sender, channel};
    pub use std::thread;
    pub use std::time::Instant;

    pub use foldhash::fast::RandomState as HashState;
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// A scheduling point without a lock or an atomic.
    #[inline(always)]
    pub fn point() {}
}
#[cfg(not(feature = "shuttle"))]
pub use real::{
    Condvar, HashState, Instant, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Sender, atomic, channel, point, thread,
};
