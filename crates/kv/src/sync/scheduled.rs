//! The same names over `shuttle`. A wait with a time limit takes one turn: the waiting thread yields to the other
//! threads and checks again, as if the limit had expired. Time advances with the number of turns, so it is the same
//! each time a schedule is run.

use std::{
    ops::{Deref, DerefMut},
    sync::PoisonError,
    time::Duration,
};

/// Simulated duration of a turn.
const TURN: Duration = Duration::from_micros(50);

/// Hashes are the same in every process, so that a schedule can be repeated.
pub type HashState = foldhash::fast::FixedState;

pub use shuttle::sync::mpsc::{Sender, channel};

pub mod atomic {
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}

pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, Thread, current, spawn, yield_now};

    /// Yields to other threads.
    pub fn park_timeout(_: std::time::Duration) {
        yield_now();
    }

    /// Yields to other threads.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

/// See `std::time::Instant`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Instant {
        let turns = u32::try_from(shuttle::current::context_switches()).unwrap_or(u32::MAX);
        Instant(TURN * turns)
    }

    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }

    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, after: Duration) -> Instant {
        Instant(self.0.saturating_add(after))
    }
}

/// See the function of the same name in `real`.
pub fn point() {
    shuttle::thread::yield_now();
}

/// See `parking_lot::Mutex`.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { mutex: &self.0, held: Some(held) }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = self.0.try_lock().ok()?;
        Some(MutexGuard { mutex: &self.0, held: Some(held) })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `held` is empty only while the thread waits.
#[derive(Debug)]
pub struct MutexGuard<'m, T> {
    mutex: &'m shuttle::sync::Mutex<T>,
    held: Option<shuttle::sync::MutexGuard<'m, T>>,
}

const HELD: &str = "let go of in a wait only";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

/// See `parking_lot::Condvar`; every wait has a limit.
#[derive(Debug, Default)]
pub struct Condvar;

/// The result of a wait: true if its time limit has expired.
pub struct TimedOut(bool);

impl TimedOut {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar
    }

    pub fn notify_all(&self) {
        shuttle::thread::yield_now();
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> TimedOut {
        guard.held = None;
        shuttle::thread::yield_now();
        guard.held = Some(guard.mutex.lock().unwrap_or_else(PoisonError::into_inner));
        TimedOut(true)
    }

    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> TimedOut {
        self.wait_for(guard, TURN);
        TimedOut(Instant::now() >= until)
    }
}

pub type RwLockReadGuard<'l, T> = shuttle::sync::RwLockReadGuard<'l, T>;
/// See `parking_lot::RwLockWriteGuard`.
pub type RwLockWriteGuard<'l, T> = shuttle::sync::RwLockWriteGuard<'l, T>;

/// See `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
