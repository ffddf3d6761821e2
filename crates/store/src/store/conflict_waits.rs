//! The time for which the writes of a client wait for others that hold the records or keys they need.
//!
//! A transaction of a client holds them for as long as the client wants, another write until it is committed.

use std::time::Instant;

use nagi_kv::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Who holds what a write waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// A transaction of another client.
    Transaction,
    /// A write outside of transactions.
    Write,
}

/// The waits of one client. Only the thread that runs its request changes them; any thread may read.
pub struct ConflictWaits {
    created: Instant,
    /// When the present wait began, in microseconds after `created`, at least 1; 0 without a wait.
    since: AtomicU64,
    /// The present wait is for a transaction.
    for_transaction: AtomicBool,
    /// Of ended waits: for transactions, and for writes.
    ended_micros: [AtomicU64; 2],
}

impl Default for ConflictWaits {
    fn default() -> ConflictWaits {
        ConflictWaits {
            created: Instant::now(),
            since: AtomicU64::new(0),
            for_transaction: AtomicBool::new(false),
            ended_micros: Default::default(),
        }
    }
}

impl ConflictWaits {
    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    fn holder(&self) -> Holder {
        if self.for_transaction.load(Relaxed) { Holder::Transaction } else { Holder::Write }
    }

    /// A wait begins, or continues with another attempt. Behind another holder it is another wait.
    pub(crate) fn begin(&self, holder: Holder) {
        if self.since.load(Relaxed) > 0 && self.holder() != holder {
            self.end();
        }
        if self.since.load(Relaxed) == 0 {
            self.for_transaction.store(holder == Holder::Transaction, Relaxed);
            self.since.store(self.now(), Relaxed);
        }
    }

    /// The wait is over, if there was one.
    pub(crate) fn end(&self) {
        let since = self.since.swap(0, Relaxed);
        if since > 0 {
            let micros = self.now().saturating_sub(since);
            self.ended_micros[self.holder() as usize].fetch_add(micros, Relaxed);
        }
    }

    /// What it has been waiting for, and for how long in microseconds; `None` if it does not wait.
    pub fn present(&self) -> Option<(Holder, u64)> {
        let since = self.since.load(Relaxed);
        (since > 0).then(|| (self.holder(), self.now().saturating_sub(since)))
    }

    /// The time of all waits for such holders that have ended, in microseconds.
    pub fn ended_micros(&self, holder: Holder) -> u64 {
        self.ended_micros[holder as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longer_than(waits: &ConflictWaits, micros: u64) {
        while waits.present().unwrap().1 < micros {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_wait_of_several_attempts_is_one() {
        let waits = ConflictWaits::default();
        waits.end();
        assert_eq!((waits.present(), waits.ended_micros(Holder::Write)), (None, 0));
        waits.begin(Holder::Transaction);
        let since = waits.since.load(Relaxed);
        longer_than(&waits, 1000);
        waits.begin(Holder::Transaction);
        assert_eq!(waits.since.load(Relaxed), since);
        waits.end();
        assert!(waits.present().is_none() && waits.ended_micros(Holder::Transaction) >= 1000);
    }

    #[test]
    fn behind_another_holder_it_is_another_wait() {
        let waits = ConflictWaits::default();
        waits.begin(Holder::Write);
        longer_than(&waits, 1000);
        waits.begin(Holder::Transaction);
        assert!(waits.ended_micros(Holder::Write) >= 1000);
        longer_than(&waits, 1000);
        assert_eq!(waits.present().unwrap().0, Holder::Transaction);
        waits.end();
        let ended = [Holder::Transaction, Holder::Write].map(|holder| waits.ended_micros(holder));
        assert!(ended[0] >= 1000 && waits.present().is_none(), "{ended:?}");
    }
}
