//! Threads that read a part of what a request has to read, while a core is free.
//!
//! A core is free if fewer requests work on the storage (have tickets) than there are cores, helpers
//! counted. A request that comes later finds the core taken for some milliseconds: helpers look again and
//! again, and one that finds others waiting for several looks on end hands over what it has done.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::tickets::Tickets;

/// A look is some milliseconds of reading; short requests come and go between two of them.
const BUSY_LOOKS_MAX: i64 = 3;

/// Helpers of all requests.
pub(crate) struct Helpers {
    cores: i64,
    out: AtomicI64,
    /// Looks on end that found more work than cores.
    busy_looks: AtomicI64,
}

impl Helpers {
    pub(crate) fn new() -> Helpers {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Helpers::with_cores(i64::try_from(cores).unwrap_or(1))
    }

    fn with_cores(cores: i64) -> Helpers {
        Helpers { cores, out: AtomicI64::new(0), busy_looks: AtomicI64::new(0) }
    }

    /// Takes a core for a helper if one is free; the caller's own request has one already.
    pub(crate) fn begin(&self, tickets: &Tickets) -> bool {
        let before = self.out.fetch_add(1, Relaxed);
        if working(tickets).max(1) + before < self.cores {
            self.busy_looks.store(0, Relaxed);
            return true;
        }
        self.end();
        false
    }

    /// Whether a helper may continue.
    pub(crate) fn may_go_on(&self, tickets: &Tickets) -> bool {
        if working(tickets) + self.out.load(Relaxed) <= self.cores {
            self.busy_looks.store(0, Relaxed);
            return true;
        }
        self.busy_looks.fetch_add(1, Relaxed) + 1 < BUSY_LOOKS_MAX
    }

    /// Gives a core back.
    pub(crate) fn end(&self) {
        self.out.fetch_sub(1, Relaxed);
    }
}

fn working(tickets: &Tickets) -> i64 {
    tickets.read.out() + tickets.write.out()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_have_what_requests_leave() {
        let (helpers, tickets) = (Helpers::with_cores(2), Tickets::new(8, 8));
        let _own = tickets.read.take(&|| Ok(()), &|_| ()).unwrap();
        assert!(helpers.begin(&tickets));
        assert!(!helpers.begin(&tickets) && helpers.may_go_on(&tickets));
        let other = tickets.write.take(&|| Ok(()), &|_| ()).unwrap();
        assert!((1..BUSY_LOOKS_MAX).all(|_| helpers.may_go_on(&tickets)));
        assert!(!helpers.may_go_on(&tickets));
        helpers.end();
        assert!(!helpers.begin(&tickets));
        drop(other);
        assert!(helpers.begin(&tickets));
        assert!(!Helpers::with_cores(1).begin(&tickets));
    }

    #[test]
    fn one_short_request_drives_nobody_away() {
        let (helpers, tickets) = (Helpers::with_cores(2), Tickets::new(8, 8));
        let _own = tickets.read.take(&|| Ok(()), &|_| ()).unwrap();
        assert!(helpers.begin(&tickets));
        for _ in 0..10 {
            let other = tickets.read.take(&|| Ok(()), &|_| ()).unwrap();
            assert!(helpers.may_go_on(&tickets));
            drop(other);
            assert!(helpers.may_go_on(&tickets));
        }
    }
}
