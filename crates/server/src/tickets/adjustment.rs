//! Adjusts how many of the tickets for writes are used.
//!
//! More concurrent writes help while they wait for something: a disk, a lock. While the processors are busy, more
//! writes only wait for each other inside the engine, in no particular order. With 256 connections that insert, p99.9
//! was 157 ms with 128 tickets, and is 58 ms with the adjustment, at 90 to 96 % of the throughput (docs/measured.md).
//!
//! | each [`LOOK_EACH`] while requests wait for a ticket      | tickets                        |
//! |----------------------------------------------------------|--------------------------------|
//! | the first of the queue has waited for [`STUCK_AFTER`]    | double: the holders are blocked |
//! | a processor was idle                                     | double                         |
//! | all processors were busy                                 | half, to four a processor      |
//!
//! "Busy" is that of the machine: under a quota of a container, processors may seem idle, and all tickets are used.
//!
//! The number set by an administrator is the most. It is used at once when a queue forms after a pause. MongoDB adjusts
//! the number by probing the throughput; with its parameter `storageEngineConcurrencyAdjustmentAlgorithm:
//! fixedConcurrentTransactions` the number does not change, here as well.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use nagi_proc::stat::{MachineTicks, machine};
use parking_lot::Mutex;

/// Ten ticks of `/proc/stat` for each processor.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// Much longer than a request waits while the tickets of the others come back.
const STUCK_AFTER: Duration = Duration::from_millis(250);
/// After a pause of so long without a queue, all tickets are used again, as soon as a queue forms or someone asks for
/// their number.
const FORGET_AFTER: Duration = Duration::from_secs(1);
/// The processors count as busy if they were idle for less than this percentage of the time.
const IDLE_PERCENT_MIN: u64 = 10;
/// Tickets that remain for each processor.
const PER_CORE: i64 = 4;

/// The adjustment of one pool.
pub(super) struct Adjustment {
    /// False while the number of tickets is fixed.
    enabled: AtomicBool,
    last: Mutex<Option<Look>>,
    processors: i64,
}

/// The last look at the machine.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    ticks: MachineTicks,
}

/// What a look has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There was no queue for long.
    New,
    Stuck,
    Idle,
    Busy,
}

impl Adjustment {
    pub(super) fn new() -> Adjustment {
        let processors = available_parallelism().map_or(1, |count| count.get() as i64);
        Adjustment { enabled: AtomicBool::new(true), last: Mutex::new(None), processors }
    }

    pub(super) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Relaxed);
    }

    /// The number of tickets from now on, if it is time to look. `used`: the present number; `total`: that of the
    /// administrator; `since`: when the first of the queue began to wait.
    pub(super) fn look(
        &self,
        (used, total): (i64, i64),
        since: Instant,
        now: Instant,
    ) -> Option<i64> {
        if !self.enabled.load(Relaxed) {
            return (used != total).then_some(total);
        }
        // One looks for all.
        let mut last = self.last.try_lock()?;
        let elapsed = last.map(|last| now.saturating_duration_since(last.at));
        if elapsed.is_some_and(|elapsed| elapsed < LOOK_EACH) {
            return None;
        }
        // Where the kernel does not tell, the number does not change.
        let ticks = machine()?;
        let before = last.replace(Look { at: now, ticks });
        let state = match (before, elapsed) {
            (Some(before), Some(elapsed)) if elapsed < FORGET_AFTER => {
                let stuck = now.saturating_duration_since(since) >= STUCK_AFTER;
                if stuck { State::Stuck } else { state(before.ticks, ticks) }
            }
            _ => State::New,
        };
        let next = next(state, used, total, self.processors * PER_CORE);
        (next != used).then_some(next)
    }

    /// True if no request has waited for so long that all tickets are used again.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let last = self.last.try_lock().and_then(|last| *last);
        last.is_some_and(|last| now.saturating_duration_since(last.at) >= FORGET_AFTER)
    }
}

fn state(before: MachineTicks, after: MachineTicks) -> State {
    let all = after.all.saturating_sub(before.all);
    let idle = all.saturating_sub(after.used.saturating_sub(before.used));
    if idle * 100 >= all * IDLE_PERCENT_MIN { State::Idle } else { State::Busy }
}

fn next(state: State, used: i64, total: i64, floor: i64) -> i64 {
    match state {
        State::New => total,
        State::Stuck | State::Idle => (used * 2).min(total),
        State::Busy => (used / 2).max(floor).min(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_follow_what_writes_wait_for() {
        assert_eq!(next(State::New, 8, 128, 8), 128);
        assert_eq!(next(State::Busy, 128, 128, 8), 64);
        assert_eq!(next(State::Busy, 9, 128, 8), 8);
        assert_eq!(next(State::Busy, 5, 5, 8), 5, "the administrator's number is the most");
        assert_eq!(next(State::Idle, 8, 128, 8), 16);
        assert_eq!(next(State::Stuck, 100, 128, 8), 128);
    }

    #[test]
    fn busy_is_less_than_a_tenth_idle() {
        let ticks = |all, used| MachineTicks { all, used };
        assert_eq!(state(ticks(1000, 500), ticks(1020, 519)), State::Busy);
        assert_eq!(state(ticks(1000, 500), ticks(1020, 518)), State::Idle);
    }

    #[test]
    fn a_look_a_tenth_of_a_second_and_all_tickets_after_a_pause() {
        let adjustment = Adjustment::new();
        let begin = Instant::now();
        let look = |used, ms: u64, waited_ms| {
            let now = begin + Duration::from_millis(ms);
            let since = now.checked_sub(Duration::from_millis(waited_ms)).unwrap();
            adjustment.look((used, 128), since, now)
        };
        assert_eq!(look(8, 1_000, 30), Some(128));
        assert_eq!(look(8, 1_050, 5_000), None);
        assert_eq!(look(8, 1_100, 250), Some(16), "who waits so long waits for blocked writes");
        assert_eq!(look(8, 9_000, 30), Some(128));
        adjustment.enable(false);
        assert_eq!((look(8, 9_001, 30), look(128, 9_002, 30)), (Some(128), None));
    }
}
