//! The threads that help requests: one piece of work beside that of the request's own thread.
//!
//! They live until [`end_idle_workers`] is called, if ever, and begin on another processor than that of the request.
//! Without both, the work would wait beside idle processors: Linux starts a new thread on the processor of its parent,
//! and where processors share no cache it wakes a sleeping one there as well, until the next tick moves it (2 ms).

use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// The same stack as connection threads have, because expressions nest.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 };

/// Where threads are used up, each request of a busy server would tell: a message stands for all of this time.
const TOLD_EACH: Duration = Duration::from_mins(1);

/// A thread of its own.
struct Worker {
    pool: ThreadPool,
    processors: processors::Placed,
}

/// The workers without work.
#[derive(Default)]
struct Workers {
    idle: Mutex<Vec<Worker>>,
}

static START: OnceLock<fn()> = OnceLock::new();
static WORKERS: OnceLock<Workers> = OnceLock::new();

/// Sets what each worker calls when it starts: a thread inherits the time slice of the request that starts it, and
/// lives longer. Only the first call counts.
pub fn on_worker_start(run: fn()) {
    let _ = START.set(run);
}

/// Ends the threads of workers that have no work. The next parallel scan starts new ones.
pub fn end_idle_workers() {
    let idle = WORKERS.get().map(|workers| std::mem::take(&mut *workers.idle.lock()));
    drop(idle);
}

/// Runs `own` on this thread and `other` on another one, and waits for both. If no thread can be started, `other` does
/// not run and its result is none. A panic of either is continued after the end of both.
pub(super) fn beside<T, R: Send>(
    own: impl FnOnce() -> T,
    other: impl FnOnce() -> R + Send,
) -> (T, Option<R>) {
    let workers = WORKERS.get_or_init(Workers::default);
    let Some(worker) = workers.take() else { return (own(), None) };
    let mut result = None;
    worker.processors.leave_this();
    let own = worker.pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            worker.processors.allow_all();
            result = Some(other());
        });
        own()
    });
    workers.put_back(worker);
    (own, result)
}

impl Workers {
    fn take(&self) -> Option<Worker> {
        let idle = self.idle.lock().pop();
        idle.or_else(start)
    }

    /// Keeps as many as can be of use at once.
    fn put_back(&self, worker: Worker) {
        static KEPT_MAX: OnceLock<usize> = OnceLock::new();
        let kept_max =
            KEPT_MAX.get_or_init(|| available_parallelism().map_or(1, |count| count.get()));
        let mut idle = self.idle.lock();
        if idle.len() < *kept_max {
            idle.push(worker);
        }
    }
}

fn start() -> Option<Worker> {
    let (tell, told) = std::sync::mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .stack_size(STACK_BYTES)
        .thread_name(|_| "read-helper".to_owned())
        .start_handler(move |_| {
            START.get().inspect(|run| run());
            let _ = tell.send(processors::Placed::of_this_thread());
        })
        .build();
    match pool {
        Ok(pool) => Some(Worker { processors: told.recv().unwrap_or_default(), pool }),
        Err(error) => {
            static FAILURES: Mutex<Failures> = Mutex::new(Failures { told: None, untold: 0 });
            let due = FAILURES.lock().count(Instant::now());
            if let Some(count) = due {
                log::warn!(target: "QUERY", id = 7_702_091, error:% = error, count = count;
                    "No thread can be started that helps to read");
            }
            None
        }
    }
}

/// Failed starts of threads.
struct Failures {
    /// When a message was logged.
    told: Option<Instant>,
    /// The failures since then.
    untold: u64,
}

impl Failures {
    /// Counts a failure. Returns the number of failures that a message is to tell, if one is due.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < TOLD_EACH) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_minute() {
        let mut failures = Failures { told: None, untold: 0 };
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(failures.count(at(0)), Some(1));
        assert!((0..60).all(|second| failures.count(at(second)).is_none()));
        assert_eq!(failures.count(at(60)), Some(61));
        assert_eq!(failures.count(at(61)), None);
    }
}

#[cfg(target_os = "linux")]
mod processors {
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// A thread, and the processors on which it may run.
    #[derive(Default)]
    pub(super) struct Placed {
        thread: Option<(Pid, CpuSet)>,
    }

    impl Placed {
        pub(super) fn of_this_thread() -> Placed {
            let allowed = sched_getaffinity(None);
            Placed { thread: allowed.ok().map(|allowed| (gettid(), allowed)) }
        }

        /// Keeps the thread off the caller's processor until [`Placed::allow_all`]. An error only costs time.
        pub(super) fn leave_this(&self) {
            let Some((thread, allowed)) = &self.thread else { return };
            let (mut others, this) = (*allowed, sched_getcpu());
            if this >= CpuSet::MAX_CPU {
                return;
            }
            others.unset(this);
            if others.count() > 0 {
                let _ = sched_setaffinity(Some(*thread), &others);
            }
        }

        /// Called by the thread itself when it runs: it may be moved again.
        pub(super) fn allow_all(&self) {
            if let Some((_, allowed)) = &self.thread {
                let _ = sched_setaffinity(None, allowed);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod processors {
    /// Other systems choose an idle processor themselves.
    #[derive(Default)]
    pub(super) struct Placed;

    impl Placed {
        pub(super) fn of_this_thread() -> Placed {
            Placed
        }

        pub(super) fn leave_this(&self) {}

        pub(super) fn allow_all(&self) {}
    }
}
