//! Workers of parallel scans: decides if a request may use a second thread for a part of its reads.
//!
//! A worker may run while a core is free, that is, while requests that work and workers together are fewer than the
//! cores. A request that arrives later finds the core taken for some milliseconds: workers poll
//! [`ParallelWorkers::may_go_on`], and a worker that sees too much work in several consecutive polls stops and hands
//! over what it has read.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::tickets::Tickets;

/// A poll happens every few milliseconds of reading; short requests begin and finish between two polls.
const BUSY_LOOKS_MAX: i64 = 3;

/// The workers of all requests.
pub(crate) struct ParallelWorkers {
    cores: i64,
    out: AtomicI64,
    /// Consecutive polls that found more work than cores.
    busy_looks: AtomicI64,
    /// Workers since the start.
    begun: AtomicI64,
}

impl ParallelWorkers {
    pub(crate) fn new() -> ParallelWorkers {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        ParallelWorkers::with_cores(i64::try_from(cores).unwrap_or(1))
    }

    fn with_cores(cores: i64) -> ParallelWorkers {
        ParallelWorkers {
            cores,
            out: AtomicI64::new(0),
            busy_looks: AtomicI64::new(0),
            begun: AtomicI64::new(0),
        }
    }

    /// Reserves a core for a worker if one is free. The caller's own request already has one.
    pub(crate) fn begin(&self, tickets: &Tickets) -> bool {
        let before = self.out.fetch_add(1, Relaxed);
        if working(tickets).max(1) + before < self.cores {
            self.busy_looks.store(0, Relaxed);
            self.begun.fetch_add(1, Relaxed);
            return true;
        }
        self.end();
        false
    }

    /// Returns true if a worker may continue.
    pub(crate) fn may_go_on(&self, tickets: &Tickets) -> bool {
        if working(tickets) + self.out.load(Relaxed) <= self.cores {
            self.busy_looks.store(0, Relaxed);
            return true;
        }
        self.busy_looks.fetch_add(1, Relaxed) + 1 < BUSY_LOOKS_MAX
    }

    /// Workers at present, and since the start.
    pub(crate) fn counts(&self) -> (i64, i64) {
        (self.out.load(Relaxed), self.begun.load(Relaxed))
    }

    /// Releases a worker's core.
    pub(crate) fn end(&self) {
        self.out.fetch_sub(1, Relaxed);
    }
}

fn working(tickets: &Tickets) -> i64 {
    tickets.read.working() + tickets.write.working()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_what_requests_leave() {
        let (workers, tickets) = (ParallelWorkers::with_cores(2), Tickets::new(8, 8));
        let _own = tickets.read.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
        assert!(workers.begin(&tickets));
        assert!(!workers.begin(&tickets) && workers.may_go_on(&tickets));
        let other = tickets.write.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
        assert!((1..BUSY_LOOKS_MAX).all(|_| workers.may_go_on(&tickets)));
        assert!(!workers.may_go_on(&tickets));
        workers.end();
        assert!(!workers.begin(&tickets));
        drop(other);
        assert!(workers.begin(&tickets));
        assert!(!ParallelWorkers::with_cores(1).begin(&tickets));
    }

    #[test]
    fn one_short_request_drives_nobody_away() {
        let (workers, tickets) = (ParallelWorkers::with_cores(2), Tickets::new(8, 8));
        let _own = tickets.read.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
        assert!(workers.begin(&tickets));
        for _ in 0..10 {
            let other = tickets.read.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
            assert!(workers.may_go_on(&tickets));
            drop(other);
            assert!(workers.may_go_on(&tickets));
        }
    }
}
