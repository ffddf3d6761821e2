//! When samples are taken: at multiples of the period since 1970, as mongod does, so that the samples of several
//! servers fit together.

use std::time::Duration;

/// Changes of the parameters take effect within this time.
const PAUSE_MS_MAX: i64 = 1000;

#[derive(Default)]
pub(super) struct Schedule {
    period_ms: i64,
    next_ms: i64,
}

impl Schedule {
    /// True if a sample is due. A sample that is missed is not made up for.
    pub(super) fn is_due(&mut self, now_ms: i64, period_ms: i64) -> bool {
        let is_new = self.period_ms != period_ms;
        // The clock may be set back.
        let is_far = self.next_ms - now_ms > period_ms;
        let due = !is_new && !is_far && now_ms >= self.next_ms;
        if due || is_new || is_far {
            self.period_ms = period_ms;
            self.next_ms = now_ms - now_ms.rem_euclid(period_ms) + period_ms;
        }
        due
    }

    /// How long to wait before the next question.
    pub(super) fn pause(&self, now_ms: i64) -> Duration {
        let pause_ms = (self.next_ms - now_ms).clamp(1, PAUSE_MS_MAX);
        Duration::from_millis(pause_ms.unsigned_abs())
    }
}

#[test]
fn samples_are_due_at_multiples_of_the_period() {
    let mut schedule = Schedule::default();
    assert!(!schedule.is_due(10_250, 1000), "the first one is at a multiple too");
    assert_eq!(schedule.pause(10_250), Duration::from_millis(750));
    assert!(!schedule.is_due(10_999, 1000) && schedule.is_due(11_003, 1000));
    assert!(!schedule.is_due(11_003, 1000) && schedule.is_due(14_100, 1000));
    assert!(!schedule.is_due(14_999, 1000), "missed ones are left out");
    assert!(!schedule.is_due(14_999, 3_600_000));
    assert_eq!(schedule.pause(14_999), Duration::from_secs(1), "a new period is seen soon");
    assert!(!schedule.is_due(15_050, 100) && schedule.is_due(15_100, 100));
    assert!(!schedule.is_due(4, 100) && schedule.is_due(100, 100), "the clock was set back");
}
