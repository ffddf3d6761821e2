//! The times of commits: who keeps a clock is told of each commit, and can take a state together with
//! its time.
//!
//!   commit:            | shared lock | engine commits, catalog is published | clock ticks | unlock |
//!   state with a time: | lock alone  | state is taken                       | clock ticks | unlock |
//!
//! So a state has every commit whose time is smaller than its own, and none whose time is greater.
//! Without a clock (a standalone server) a commit costs one load more.

use std::{sync::OnceLock, time::Duration};

use nagi_error::Result;
use nagi_kv::sync::{RwLock, RwLockReadGuard};

use crate::Store;

/// How long commits are held up at most before those under way are given a chance to be over.
const PATIENCE: Duration = Duration::from_millis(20);

type Tick = Box<dyn Fn() + Send + Sync>;

/// See the module's header.
#[derive(Default)]
pub(crate) struct Times {
    tick: OnceLock<Tick>,
    step: RwLock<()>,
}

/// A commit under way.
pub(crate) struct Step<'t>(Option<(RwLockReadGuard<'t, ()>, &'t Tick)>);

impl Times {
    /// Begins a commit. Not to be nested.
    pub(crate) fn begin(&self) -> Step<'_> {
        Step(self.tick.get().map(|tick| (self.step.read(), tick)))
    }
}

impl Step<'_> {
    /// What was committed is visible.
    pub(crate) fn done(self) {
        if let Some((_held, tick)) = self.0 {
            tick();
        }
    }
}

impl Store {
    /// Has `tick` called after each commit that clients may see, before it is acknowledged. For the
    /// one clock of the process; a second call changes nothing.
    pub fn follow_commits(&self, tick: impl Fn() + Send + Sync + 'static) {
        let _ = self.times.tick.set(Box::new(tick));
    }

    /// Runs `take` at a moment when every commit is either visible with its time taken, or not begun.
    /// `interrupt` is checked while it waits for commits under way.
    pub fn between_commits<T>(
        &self,
        interrupt: &dyn Fn() -> Result<()>,
        take: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        loop {
            if let Some(_alone) = self.times.step.try_write_for(PATIENCE) {
                return take();
            }
            interrupt()?;
        }
    }
}
