//! Whether commits are tried in one phase: the only request to the store writes the values at once, without locks.
//!
//! It is possible if all keys are in one region, and few enough for one request; the client looks at that. A store may
//! still answer that it has begun an ordinary commit, which the client cannot continue. That is not known to happen
//! with the limits that are set here, but if it does, one attempt in a while has to suffice.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const PAUSE: Duration = Duration::from_secs(60);

/// See the module's header.
#[derive(Default)]
pub(crate) struct OnePhase {
    /// Not before then.
    paused_until: Mutex<Option<Instant>>,
}

impl OnePhase {
    pub(crate) fn is_tried(&self) -> bool {
        self.paused_until.lock().is_none_or(|until| Instant::now() >= until)
    }

    /// A store has not done it.
    pub(crate) fn pause(&self) {
        *self.paused_until.lock() = Some(Instant::now() + PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pauses_after_a_failure() {
        let one_phase = OnePhase::default();
        assert!(one_phase.is_tried());
        one_phase.pause();
        assert!(!one_phase.is_tried());
        *one_phase.paused_until.lock() = Instant::now().checked_sub(PAUSE);
        assert!(one_phase.is_tried());
    }
}
