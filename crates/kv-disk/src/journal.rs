//! The thread that syncs the log to disk: each commit interval, and at once when a commit waits.
//!
//! Whoever needs a durable commit tells the newest stamp it waits for and sleeps; one sync serves
//! all who came before it began.
//!
//!   waiters  wanted = max(wanted, stamp), wake the thread, sleep until synced >= stamp
//!   thread   newest = last published stamp; sync; synced = newest; wake everyone
//!
//! A sync that fails for want of room is tried again an interval later. Who waits for it waits on, half a
//! minute at the most: the commits are applied and everybody sees them, so an error would say something
//! else than what has happened, and whoever repeats the write has it twice. Any other failure ends the
//! process: see `fatal`.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use nagi_kv::{Error, Result};

use crate::fatal;

/// How long a commit waits for room to be synced. New ones are refused meanwhile, before they change anything.
const FULL_WAIT_MAX: Duration = Duration::from_secs(30);

/// What the thread syncs.
pub trait Log: Send + Sync + 'static {
    /// The newest stamp whose writes are in the log.
    fn newest(&self) -> u64;
    /// Syncs the log.
    fn sync_log(&self) -> Result<()>;
    /// Everything is synced and an interval went by without a commit: a log that notes what was synced
    /// in its next record has no other one to do it in. Called once, until there are commits again.
    fn idle(&self) {}
}

#[derive(Default)]
struct State {
    wanted: u64,
    synced: u64,
    /// Grows with every attempt.
    attempt_count: u64,
    failure: Option<Failure>,
    stopped: bool,
}

enum Failure {
    Full,
    Other(String),
}

impl Failure {
    fn error(&self) -> Error {
        match self {
            Failure::Full => Error::Full,
            Failure::Other(message) => Error::other(message.clone()),
        }
    }
}

/// See the module's header.
#[derive(Default)]
pub struct Journal {
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
}

impl Journal {
    pub fn new(newest: u64) -> Journal {
        let journal = Journal::default();
        journal.state.lock().synced = newest;
        journal
    }

    /// Returns once `stamp` is durable.
    ///
    /// # Errors
    /// `Full` if it cannot be made durable for want of room, for long; the commit stays applied.
    pub fn wait(&self, stamp: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.synced >= stamp {
            return Ok(());
        }
        // An attempt that is under way may have begun before our commit; the next one did not.
        let (first, begin) = (state.attempt_count, Instant::now());
        state.wanted = state.wanted.max(stamp);
        self.wake.notify_one();
        loop {
            if state.stopped {
                return Err(Error::other("the storage engine is shutting down"));
            }
            self.done.wait(&mut state);
            if state.synced >= stamp {
                return Ok(());
            }
            if state.attempt_count > first + 1
                && let Some(failure) = &state.failure
                && (!matches!(failure, Failure::Full) || begin.elapsed() > FULL_WAIT_MAX)
            {
                return Err(failure.error());
            }
        }
    }

    /// Ends the thread and frees all who wait.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
        self.done.notify_all();
    }

    fn run(&self, log: &Weak<impl Log>, interval: Duration) {
        let mut state = self.state.lock();
        let mut told = state.synced;
        loop {
            let urgent = state.wanted > state.synced && state.failure.is_none();
            if !urgent && !state.stopped {
                self.wake.wait_for(&mut state, interval);
            }
            if state.stopped {
                return;
            }
            let Some(log) = log.upgrade() else { return };
            let newest = log.newest();
            if newest == state.synced && state.wanted <= state.synced {
                if std::mem::replace(&mut told, newest) != newest {
                    drop(state);
                    log.idle();
                    drop(log);
                    state = self.state.lock();
                }
                continue;
            }
            drop(state);
            let result = log.sync_log();
            drop(log);
            state = self.state.lock();
            state.attempt_count += 1;
            state.failure = match result {
                Ok(()) => {
                    state.synced = newest;
                    None
                }
                Err(error) if fatal::is_fatal(&error) => fatal::end("sync", &error),
                Err(error) => {
                    if state.failure.is_none() {
                        log::error!(target: "STORAGE", id = 7_702_004, error:% = error;
                            "The journal cannot be written");
                    }
                    Some(match error {
                        Error::Full => Failure::Full,
                        other => Failure::Other(other.to_string()),
                    })
                }
            };
            self.done.notify_all();
        }
    }
}

/// Starts the thread.
pub fn start<L: Log>(
    journal: &Arc<Journal>,
    log: Weak<L>,
    interval: Duration,
) -> Result<JoinHandle<()>> {
    let journal = Arc::clone(journal);
    let thread = std::thread::Builder::new().name("journal".to_owned());
    Ok(thread.spawn(move || journal.run(&log, interval))?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A log that has no room for its first syncs.
    struct Cramped {
        attempts: AtomicU64,
        full_until: u64,
    }

    impl Log for Cramped {
        fn newest(&self) -> u64 {
            7
        }

        fn sync_log(&self) -> Result<()> {
            match self.attempts.fetch_add(1, Ordering::SeqCst) < self.full_until {
                true => Err(Error::Full),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn a_commit_waits_for_room_and_is_told_nothing_wrong() {
        let log = Arc::new(Cramped { attempts: AtomicU64::new(0), full_until: 20 });
        let journal = Arc::new(Journal::new(0));
        let interval = Duration::from_millis(1);
        let thread = start(&journal, Arc::downgrade(&log), interval).unwrap();
        assert!(journal.wait(7).is_ok());
        assert_eq!(log.attempts.load(Ordering::SeqCst), 21);
        journal.stop();
        thread.join().unwrap();
    }
}
