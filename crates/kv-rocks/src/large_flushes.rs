//! Which spaces get large values, so that their blocks are not put into the cache when they are written.
//!
//! RocksDB copies each block for that. With small memtables a flushed file may have only one document, of the largest
//! size, and the cache little more capacity than that. The policy changes while large values are flushed, and for a
//! minute afterwards.
//!
//! The thread of a flush notes what it has seen; the upkeep thread changes the options.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use nagi_kv::Space;

/// How long after the last flush with a large value a space counts as one that gets them.
const LASTS: Duration = Duration::from_mins(1);

/// The flushes with large values of an open database.
pub(crate) struct LargeFlushes {
    begun: Instant,
    /// Milliseconds since `begun`, plus one, of the last one of each space; 0 for none.
    last_ms: [AtomicU64; Space::ALL.len()],
    /// One bit per space: the cache was told.
    told: AtomicU32,
}

impl Default for LargeFlushes {
    fn default() -> LargeFlushes {
        LargeFlushes {
            begun: Instant::now(),
            last_ms: std::array::from_fn(|_| AtomicU64::new(0)),
            told: AtomicU32::new(0),
        }
    }
}

impl LargeFlushes {
    /// A flush of the space has written a large value.
    pub(crate) fn note(&self, space: Space, now: Instant) {
        let ms = now.saturating_duration_since(self.begun).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX - 1);
        self.last_ms[space as usize].store(ms + 1, Relaxed);
    }

    /// Returns true if [`LargeFlushes::settle`] has something to change at once.
    pub(crate) fn is_due(&self) -> bool {
        let told = self.told.load(Relaxed);
        let is_new = |space: &Space| {
            told & bit(*space) == 0 && self.last_ms[*space as usize].load(Relaxed) != 0
        };
        Space::ALL.iter().any(is_new)
    }

    /// Returns true if the space's blocks are not put into the cache when they are written.
    pub(crate) fn gets_large(&self, space: Space) -> bool {
        self.told.load(Relaxed) & bit(space) != 0
    }

    /// Calls `set` for each space that gets large values from now on (true), or none any more. It returns false if it
    /// failed, and is called again next time.
    pub(crate) fn settle(&self, now: Instant, mut set: impl FnMut(Space, bool) -> bool) {
        for space in Space::ALL {
            let last = &self.last_ms[space as usize];
            let seen = last.load(Relaxed);
            let is_told = self.told.load(Relaxed) & bit(space) != 0;
            let until = self.begun + Duration::from_millis(seen) + LASTS;
            let wants = seen != 0 && now < until;
            if wants == is_told {
                continue;
            }
            if set(space, wants) {
                self.told.fetch_xor(bit(space), Relaxed);
            }
            if !wants {
                // Kept if there was another flush meanwhile.
                let _ = last.compare_exchange(seen, 0, Relaxed, Relaxed);
            }
        }
    }
}

fn bit(space: Space) -> u32 {
    1 << space as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_gets_large_values_for_a_while() {
        let flushes = LargeFlushes::default();
        let at = |seconds| flushes.begun + Duration::from_secs(seconds);
        let settled = |seconds| {
            let mut calls = Vec::new();
            flushes.settle(at(seconds), |space, gets_large| {
                calls.push((space, gets_large));
                true
            });
            calls
        };
        assert!(!flushes.is_due() && settled(0).is_empty());
        flushes.note(Space::Records, at(1));
        assert!(flushes.is_due());
        flushes.settle(at(1), |_, _| false);
        assert!(flushes.is_due(), "it failed");
        assert_eq!(settled(2), [(Space::Records, true)]);
        assert!(!flushes.is_due() && settled(3).is_empty());
        flushes.note(Space::Records, at(50));
        assert!(settled(100).is_empty());
        assert_eq!(settled(112), [(Space::Records, false)]);
        assert!(!flushes.is_due() && settled(113).is_empty());
        flushes.note(Space::Changes, at(200));
        assert_eq!(settled(200), [(Space::Changes, true)]);
    }
}
