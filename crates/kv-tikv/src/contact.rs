//! Whether the cluster answers, said in the log when that changes: once for all requests that wait for it.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use nagi_kv::Error;

/// What passes in this time is not worth a line: a region that moves, a store that restarts under another leader.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// See the module's header.
pub(crate) struct Contact {
    origin: Instant,
    /// When it was lost, in milliseconds since the origin, plus 1; 0 if it was not.
    lost: AtomicU64,
}

impl Contact {
    pub(crate) fn new() -> Contact {
        Contact { origin: Instant::now(), lost: AtomicU64::new(0) }
    }

    /// A request that was begun at `begun` was not answered yet.
    pub(crate) fn failed(&self, begun: Instant, error: &Error) {
        if begun.elapsed() < SILENT_FOR {
            return;
        }
        let since = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1;
        if self.lost.compare_exchange(0, since, SeqCst, SeqCst).is_ok() {
            log::warn!(target: "STORAGE", id = 8_200_410, error:% = error;
                "The TiKV cluster does not answer; requests are repeated");
        }
    }

    /// A request was answered. One load, as long as the contact is not lost.
    pub(crate) fn answered(&self) {
        if self.lost.load(SeqCst) == 0 {
            return;
        }
        let since = self.lost.swap(0, SeqCst);
        if since > 0 {
            let now = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
            log::info!(target: "STORAGE", id = 8_200_411, afterMillis = now.saturating_sub(since - 1);
                "The TiKV cluster answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_lost_after_a_while_and_regained_by_an_answer() {
        let contact = Contact::new();
        let is_lost = |contact: &Contact| contact.lost.load(SeqCst) > 0;
        let error = Error::Unreachable("a get on TiKV failed: no leader".into());
        contact.failed(Instant::now(), &error);
        assert!(!is_lost(&contact), "it may pass");
        let long_ago = Instant::now().checked_sub(SILENT_FOR * 2).expect("the machine runs");
        contact.failed(long_ago, &error);
        assert!(is_lost(&contact));
        contact.answered();
        assert!(!is_lost(&contact));
    }
}
