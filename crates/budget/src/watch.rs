//! The decision of the watcher about resident memory: one step, without clock and thread.
//!
//! ```text
//!   calm      below `purge_at`         caches grow back slowly, per step by a 64th of the squeeze
//!   tight     above `purge_at`         the allocator returns its free pages at once
//!   over      still above `squeeze_at` the caches shrink by the excess
//! ```
//!
//! The thresholds are below the bound by the memory that may be added within one step.

use crate::bound;

/// The action that a step requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Return free pages to the operating system, then read the resident memory again.
    Purge,
}

/// State of the watcher.
#[derive(Debug)]
pub struct Watch {
    purge_at: u64,
    squeeze_at: u64,
    bound: u64,
    squeezed: u64,
    /// Peak of the resident memory.
    pub peak: u64,
    pub purge_count: u64,
    pub squeeze_count: u64,
    /// Number of steps that found the bound exceeded.
    pub over_count: u64,
}

impl Watch {
    /// The watcher of a budget.
    pub fn new(budget_bytes: u64) -> Watch {
        let bound = bound(budget_bytes);
        let margin = budget_bytes / 16 + (24 << 20);
        Watch {
            purge_at: bound - margin - margin / 2,
            squeeze_at: bound - margin,
            bound,
            squeezed: 0,
            peak: 0,
            purge_count: 0,
            squeeze_count: 0,
            over_count: 0,
        }
    }

    /// The bound of resident memory.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Begins a step with the current resident memory.
    pub fn look(&mut self, resident: u64) -> Action {
        self.peak = self.peak.max(resident);
        self.over_count += u64::from(resident > self.bound);
        match resident >= self.purge_at {
            true => {
                self.purge_count += 1;
                Action::Purge
            }
            false => Action::Nothing,
        }
    }

    /// Finishes a step. Returns the new squeeze of the caches beyond the charges, if it has changed.
    pub fn squeeze(&mut self, resident: u64, squeeze_max: u64) -> Option<u64> {
        let before = self.squeezed;
        if resident > self.squeeze_at {
            self.squeeze_count += 1;
            self.squeezed = (before + (resident - self.squeeze_at)).min(squeeze_max);
        } else if resident < self.purge_at {
            let room = (self.purge_at - resident) / 4;
            self.squeezed = before.saturating_sub((before / 64).max(64 << 10).min(room));
        }
        (self.squeezed != before).then_some(self.squeezed)
    }

    /// Returns true if the next step should come soon.
    pub fn is_tight(&self, resident: u64) -> bool {
        resident >= self.purge_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_purges_then_squeezes_then_lets_go() {
        let mut watch = Watch::new(1024 * MIB);
        let max = 700 * MIB;
        assert_eq!(watch.look(500 * MIB), Action::Nothing);
        assert_eq!(watch.squeeze(500 * MIB, max), None);
        let high = watch.bound() - 20 * MIB;
        assert_eq!(watch.look(high), Action::Purge);
        let taken = watch.squeeze(high, max).unwrap();
        assert!(taken > 40 * MIB && taken < 100 * MIB, "{taken}");
        assert!(watch.squeeze(watch.bound() * 9, max) == Some(max));
        let mut left = max;
        for _ in 0..2000 {
            left = watch.squeeze(500 * MIB, max).unwrap_or(0);
        }
        assert_eq!((left, watch.squeeze_count, watch.over_count), (0, 2, 0));
    }

    #[test]
    fn a_small_budget_has_thresholds_too() {
        let watch = Watch::new(256 * MIB);
        assert!(watch.purge_at > 256 * MIB && watch.squeeze_at < watch.bound);
        let watch = Watch::new(10 * MIB);
        assert!(watch.purge_at > 30 * MIB);
    }
}
