//! The clock of a simulation, and what is waited for in it: events in the order of their times, and stations that
//! serve jobs in the order of their arrival.
//!
//! Events at the same time come in the order in which they were planned, so the same seed gives the same run.
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Nanoseconds since the beginning of the simulation, or a length of time.
pub(super) type Ns = u64;

pub(super) const US: Ns = 1000;
pub(super) const MS: Ns = 1_000_000;
pub(super) const SECOND: Ns = 1_000_000_000;

/// What happens, by time.
pub(super) struct Events<W> {
    heap: BinaryHeap<Reverse<(Ns, u64, W)>>,
    planned: u64,
    now: Ns,
}

impl<W: Ord> Events<W> {
    pub(super) fn new() -> Events<W> {
        Events { heap: BinaryHeap::new(), planned: 0, now: 0 }
    }

    pub(super) fn now(&self) -> Ns {
        self.now
    }

    /// The number of events that were planned so far.
    pub(super) fn planned(&self) -> u64 {
        self.planned
    }

    /// Plans an event. A time that has passed is now.
    pub(super) fn at(&mut self, time: Ns, what: W) {
        self.planned += 1;
        self.heap.push(Reverse((time.max(self.now), self.planned, what)));
    }

    pub(super) fn after(&mut self, wait: Ns, what: W) {
        self.at(self.now + wait, what);
    }

    /// The next event; the clock is at its time then.
    pub(super) fn next(&mut self) -> Option<W> {
        let Reverse((time, _, what)) = self.heap.pop()?;
        self.now = time;
        Some(what)
    }
}

/// Equal servers, such as the cores of a machine, and one queue before them. As jobs arrive in the order of time, the
/// end of a job is known when it arrives.
pub(super) struct Station {
    /// When each server has done what it was given.
    free: BinaryHeap<Reverse<Ns>>,
    given: Ns,
}

impl Station {
    pub(super) fn new(servers: usize) -> Station {
        Station { free: (0..servers.max(1)).map(|_| Reverse(0)).collect(), given: 0 }
    }

    /// Gives it a job, which arrives now and takes `work`. Returns when it is done.
    pub(super) fn serve(&mut self, now: Ns, work: Ns) -> Ns {
        let Reverse(free) = self.free.pop().unwrap_or(Reverse(0));
        let done = free.max(now) + work;
        self.free.push(Reverse(done));
        self.given += work;
        done
    }

    /// The time that all servers together have worked until now.
    pub(super) fn worked(&self, now: Ns) -> Ns {
        let left: Ns = self.free.iter().map(|Reverse(free)| free.saturating_sub(now)).sum();
        self.given - left
    }

    pub(super) fn servers(&self) -> usize {
        self.free.len()
    }
}

/// One job at a time: the commands of a region, which one thread appends to its log. The caller says when a job ends.
#[derive(Default)]
pub(super) struct Turns {
    waiting: VecDeque<u32>,
    since: Option<Ns>,
    worked: Ns,
}

impl Turns {
    /// True if the job may begin now; otherwise it waits for [`Turns::end`].
    pub(super) fn begin(&mut self, now: Ns, job: u32) -> bool {
        if self.since.is_some() {
            self.waiting.push_back(job);
            return false;
        }
        self.since = Some(now);
        true
    }

    /// The running job has ended. Returns the next one, which begins now.
    pub(super) fn end(&mut self, now: Ns) -> Option<u32> {
        self.worked += self.since.take().map_or(0, |since| now - since);
        let next = self.waiting.pop_front();
        self.since = next.map(|_| now);
        next
    }

    pub(super) fn worked(&self, now: Ns) -> Ns {
        self.worked + self.since.map_or(0, |since| now - since)
    }
}

/// A log whose writes are synced together: what arrives during a sync is in the next one.
#[derive(Default)]
pub(super) struct Log {
    waiting: Vec<(u32, u64)>,
    syncing: Vec<u32>,
}

impl Log {
    /// Adds a write of so many bytes. Returns the bytes of the sync that begins now, if one begins.
    pub(super) fn add(&mut self, write: u32, bytes: u64) -> Option<u64> {
        self.waiting.push((write, bytes));
        if self.syncing.is_empty() { self.start() } else { None }
    }

    fn start(&mut self) -> Option<u64> {
        let bytes = self.waiting.iter().map(|(_, bytes)| bytes).sum();
        self.syncing.extend(self.waiting.drain(..).map(|(write, _)| write));
        (bytes > 0).then_some(bytes)
    }

    /// The sync has ended: hands out its writes, in order, and returns the bytes of the next one, if one begins.
    pub(super) fn end(&mut self, synced: &mut Vec<u32>) -> Option<u64> {
        synced.append(&mut self.syncing);
        self.start()
    }
}

/// A length with this mean and the exponential distribution, at most 20 times the mean.
pub(super) fn exponential(random: &mut Random, mean: Ns) -> Ns {
    let share = ((random.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-share.ln().max(-20.0) * mean as f64) as Ns
}
