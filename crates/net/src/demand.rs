//! The least rate of a peer whose message or reply holds memory that other requests wait for.
//!
//! A peer on a slow line may take its time while no request waits. A byte now and then is not enough while one does:
//! otherwise a few peers that have not even logged in keep all memory of large messages for ten minutes.

use std::time::{Duration, Instant};

/// What such a peer must transfer in [`crate::NetConfig::crowded_time_max`]. So the last bytes of a message must
/// arrive within this time, too.
const CROWDED_BYTES_MIN: i64 = 256 << 10;

/// Watches the transfer of one message or reply.
#[derive(Debug)]
pub(crate) struct Demand {
    time_max: Duration,
    /// The bytes that were transferred when the count of `crowded` began.
    mark: i64,
    /// The time since then in which other requests waited. Time in which none does is the peer's own.
    crowded: Duration,
    looked: Instant,
}

impl Demand {
    /// Begins at `bytes`.
    pub(crate) fn begin(time_max: Duration, bytes: i64, now: Instant) -> Demand {
        Demand { time_max, mark: bytes, crowded: Duration::ZERO, looked: now }
    }

    /// How often [`Demand::is_failed`] must be called.
    pub(crate) fn look_every(time_max: Duration) -> Duration {
        time_max / 5
    }

    /// Returns true if the peer has transferred too little while others waited. `waiting`: others wait now.
    pub(crate) fn is_failed(&mut self, bytes: i64, waiting: bool, now: Instant) -> bool {
        // A thread that did not run for a while counts as one look: this was not the peer's fault.
        let since = (now - self.looked).min(Demand::look_every(self.time_max));
        self.looked = now;
        if bytes - self.mark >= CROWDED_BYTES_MIN {
            (self.mark, self.crowded) = (bytes, Duration::ZERO);
        }
        if waiting {
            self.crowded += since;
        }
        self.crowded >= self.time_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_MAX: Duration = Duration::from_secs(5);

    /// Looks each 100 ms at a peer that transfers `step` bytes each time, while others wait if `waiting` says so.
    /// Returns when it failed, in looks.
    fn failed_after(looks: u32, step: i64, waiting: impl Fn(u32) -> bool) -> Option<u32> {
        let begun = Instant::now();
        let mut demand = Demand::begin(TIME_MAX, 0, begun);
        (1..=looks).find(|look| {
            let now = begun + *look * Duration::from_millis(100);
            demand.is_failed(i64::from(*look) * step, waiting(*look), now)
        })
    }

    #[test]
    fn a_byte_now_and_then_is_too_little_while_others_wait() {
        assert_eq!(failed_after(10_000, 1, |_| true), Some(50));
        assert_eq!(failed_after(10_000, 0, |_| true), Some(50));
        assert_eq!(failed_after(10_000, 5_000, |_| true), Some(50));
        assert_eq!(failed_after(10_000, 6_000, |_| true), None);
    }

    #[test]
    fn only_the_time_of_others_counts() {
        assert_eq!(failed_after(10_000, 1, |_| false), None);
        assert_eq!(failed_after(10_000, 1, |look| look > 1000), Some(1050));
        // Waits that end and begin again do not begin the count anew.
        assert_eq!(failed_after(10_000, 1, |look| look % 2 == 0), Some(100));
        assert_eq!(failed_after(10_000, 3_000, |look| look % 2 == 0), None);
    }

    #[test]
    fn a_thread_that_did_not_run_is_not_the_fault_of_the_peer() {
        let begun = Instant::now();
        let mut demand = Demand::begin(TIME_MAX, 0, begun);
        assert!(!demand.is_failed(1, true, begun + Duration::from_secs(60)));
        assert!(!demand.is_failed(2, true, begun + Duration::from_secs(120)));
    }
}
