//! Locks, atomics and threads of this crate and of `store`.
//!
//! They are those of `parking_lot` and of the standard library, under other names. With the feature
//! `shuttle`, which only the tests of schedules switch on, they are those of a scheduler that runs one
//! thread at a time and decides at each of them, from a seed, which one is next. So a test can go through
//! many interleavings, and through one of them again.
//!
//! Whatever threads meet at is taken from here. What is not (a lock of another crate, a `OnceLock`) may
//! be used as long as nothing from here is called while it is held.

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

    /// A place where another thread may come in between although there is no lock and no atomic.
    #[inline(always)]
    pub fn point() {}
}
#[cfg(not(feature = "shuttle"))]
pub use real::{
    Condvar, HashState, Instant, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Sender, atomic, channel, point, thread,
};
