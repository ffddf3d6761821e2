//! Records events over time: operations and their worst latency in slots of a tenth of a second, and every
//! stall.
//!
//! A long run keeps a few kilobytes per minute. Stalls are kept individually up to a bound, which is reported.
use std::time::{Duration, Instant};

const SLOT: Duration = Duration::from_millis(100);
/// Number of stalls kept with their time; further ones are only counted.
const STALLS_MAX: usize = 10_000;

/// One slot.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    pub(crate) count: u64,
    pub(crate) worst_ns: u64,
}

/// An operation that took too long.
#[derive(Clone, Copy)]
pub(crate) struct Stall {
    /// The time at which it began, since the beginning of the run.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
}

pub(crate) struct Timeline {
    begin: Instant,
    limit: Duration,
    slots: Vec<Slot>,
    stalls: Vec<Stall>,
    stall_count: usize,
}

impl Timeline {
    /// Operations that take longer than `limit` are stalls.
    pub(crate) fn new(begin: Instant, limit: Duration) -> Timeline {
        Timeline { begin, limit, slots: Vec::new(), stalls: Vec::new(), stall_count: 0 }
    }

    /// Records an operation that began at `begin` and took `took`, in the slot in which it finished.
    pub(crate) fn record(&mut self, begin: Instant, took: Duration) {
        let at = begin.saturating_duration_since(self.begin);
        let slot = ((at + took).as_nanos() / SLOT.as_nanos()) as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, Slot::default());
        }
        let slot = &mut self.slots[slot];
        slot.count += 1;
        slot.worst_ns = slot.worst_ns.max(took.as_nanos() as u64);
        if took > self.limit {
            self.stall_count += 1;
            if self.stalls.len() < STALLS_MAX {
                self.stalls.push(Stall { at, took });
            }
        }
    }

    /// Adds the records of another client with the same beginning.
    pub(crate) fn merge(&mut self, other: &Timeline) {
        let length = self.slots.len().max(other.slots.len());
        self.slots.resize(length, Slot::default());
        for (slot, more) in self.slots.iter_mut().zip(&other.slots) {
            slot.count += more.count;
            slot.worst_ns = slot.worst_ns.max(more.worst_ns);
        }
        self.stall_count += other.stall_count;
        let room = STALLS_MAX - self.stalls.len().min(STALLS_MAX);
        self.stalls.extend(other.stalls.iter().take(room));
        self.stalls.sort_by_key(|stall| stall.at);
    }

    /// The slots with fewer operations than this share of the median slot, without the first and the last slot:
    /// the time at which each began, and its share.
    pub(crate) fn slots_below(&self, share: f64) -> Vec<(Duration, f64)> {
        let Some(inner) = self.slots.get(1..self.slots.len().saturating_sub(1)) else {
            return Vec::new();
        };
        let mut counts: Vec<u64> = inner.iter().map(|slot| slot.count).collect();
        counts.sort_unstable();
        let median = counts.get(counts.len() / 2).copied().unwrap_or(0).max(1) as f64;
        let parts = inner.iter().zip(1_u32..).map(|(s, n)| (SLOT * n, s.count as f64 / median));
        parts.filter(|(_, part)| *part < share).collect()
    }

    /// Operations per second in the median slot.
    pub(crate) fn median_per_second(&self) -> f64 {
        let mut counts: Vec<u64> = self.slots.iter().map(|slot| slot.count).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().unwrap_or(0) as f64 / SLOT.as_secs_f64()
    }

    pub(crate) fn stalls(&self) -> &[Stall] {
        &self.stalls
    }

    /// Number of stalls, including those not kept.
    pub(crate) fn stall_count(&self) -> usize {
        self.stall_count
    }

    /// Triples of seconds since the beginning, operations per second, and worst latency in milliseconds.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let width = SLOT.as_secs_f64();
        self.slots.iter().enumerate().map(move |(index, slot)| {
            (index as f64 * width, slot.count as f64 / width, slot.worst_ns as f64 / 1e6)
        })
    }

    /// The fewest operations in a complete slot, as a share of the median slot. The last slot is incomplete and
    /// is left out.
    pub(crate) fn slowest_share(&self) -> Option<f64> {
        let whole = &self.slots[..self.slots.len().checked_sub(1)?];
        let mut counts: Vec<u64> = whole.iter().map(|slot| slot.count).collect();
        counts.sort_unstable();
        let median = *counts.get(counts.len() / 2)?;
        Some(*counts.first()? as f64 / median.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_stalls() {
        let begin = Instant::now();
        let mut line = Timeline::new(begin, Duration::from_millis(50));
        for ms in [1, 2, 110, 120, 250] {
            line.record(begin + Duration::from_millis(ms), Duration::from_millis(1));
        }
        line.record(begin + Duration::from_millis(150), Duration::from_millis(60));
        let points: Vec<_> = line.points().collect();
        assert_eq!(points.len(), 3);
        assert_eq!((points[0].1, points[1].1, points[2].1), (20.0, 20.0, 20.0));
        assert_eq!(points[2].2, 60.0);
        assert_eq!((line.stall_count(), line.stalls()[0].at.as_millis()), (1, 150));
        assert_eq!(line.slowest_share(), Some(1.0));
    }

    #[test]
    fn clients_add_up_and_slow_slots_are_found() {
        let begin = Instant::now();
        let mut both = Timeline::new(begin, Duration::from_millis(50));
        for _ in 0..2 {
            let mut line = Timeline::new(begin, Duration::from_millis(50));
            for ms in (0..1000).step_by(10).filter(|ms| !(300..390).contains(ms)) {
                line.record(begin + Duration::from_millis(ms), Duration::from_micros(100));
            }
            line.record(begin + Duration::from_millis(900), Duration::from_millis(60));
            both.merge(&line);
        }
        assert_eq!((both.stall_count(), both.stalls().len()), (2, 2));
        assert_eq!(both.median_per_second(), 200.0);
        let below = both.slots_below(0.5);
        assert_eq!(below, [(Duration::from_millis(300), 0.1)]);
        assert!(Timeline::new(begin, SLOT).slots_below(0.5).is_empty());
    }

    #[test]
    fn an_empty_run_has_no_slowest_slot() {
        assert_eq!(Timeline::new(Instant::now(), SLOT).slowest_share(), None);
    }
}
