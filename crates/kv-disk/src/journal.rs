//! The thread of the write-ahead log: syncs it to disk at each commit interval, and at once when a commit waits for
//! durability.
//!
//! A commit that must be durable registers the newest stamp it waits for and sleeps. One sync serves all commits
//! that came before it began.
//!
//!   waiters  wanted = max(wanted, stamp), wake the thread, sleep until synced >= stamp
//!   thread   newest = last published stamp; sync; synced = newest; wake all waiters
//!
//! A sync that fails because the disk is full is retried after an interval. Its waiters keep waiting, for at most
//! half a minute: their commits are applied and visible, so an error would be wrong, and a client that repeats the
//! write would apply it twice. After any other failure the log is not trusted any more: see `fatal`.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use nagi_kv::{Error, Result};

use crate::fatal::{self, OnFatal, Trust};

/// How long a commit waits while the disk is too full for a sync. New commits are refused meanwhile, before they
/// change anything.
const FULL_WAIT_MAX: Duration = Duration::from_secs(30);

/// The log that the thread syncs.
pub trait Log: Send + Sync + 'static {
    /// The newest stamp whose writes are in the log.
    fn newest(&self) -> u64;
    /// Syncs the log.
    fn sync_log(&self) -> Result<()>;
    /// Called once when everything is synced and an interval has passed without a commit. A log that stores the
    /// synced stamp in its next record writes an extra record here, because no other one follows.
    fn idle(&self) {}
}

#[derive(Default)]
struct State {
    wanted: u64,
    synced: u64,
    /// Number of attempts so far.
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
    trust: Arc<Trust>,
}

impl Journal {
    pub fn new(newest: u64, on_fatal: OnFatal) -> Journal {
        let journal = Journal { trust: Arc::new(Trust::new(on_fatal)), ..Journal::default() };
        journal.state.lock().synced = newest;
        journal
    }

    /// Whether the log is trusted.
    pub fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Returns once `stamp` is durable.
    ///
    /// # Errors
    /// `Full` if the disk stayed full for long; the commit stays applied. Another error if the log is not trusted.
    pub fn wait(&self, stamp: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.synced >= stamp {
            return Ok(());
        }
        self.trust.check()?;
        // An attempt in progress may have begun before this commit; the next one has not.
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
            self.trust.check()?;
            if state.attempt_count > first + 1
                && let Some(failure) = &state.failure
                && (!matches!(failure, Failure::Full) || begin.elapsed() > FULL_WAIT_MAX)
            {
                return Err(failure.error());
            }
        }
    }

    /// Stops the thread and releases all waiters.
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
            if self.trust.check().is_err() {
                self.done.notify_all();
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
                Err(error) if fatal::is_fatal(&error) => {
                    let _ = self.trust.lose("sync", &error);
                    self.done.notify_all();
                    return;
                }
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

    /// A log that cannot be synced for another reason than a full disk.
    struct Broken(AtomicU64);

    impl Log for Broken {
        fn newest(&self) -> u64 {
            7
        }

        fn sync_log(&self) -> Result<()> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::other("an I/O error")),
                _ => Ok(()),
            }
        }
    }

    /// A later sync that succeeds proves nothing: the pages of the failed one may be gone.
    #[test]
    fn no_sync_is_tried_again_after_a_failed_one() {
        let journal = Arc::new(Journal::new(0, OnFatal::Refuse));
        let log = Arc::new(Broken(AtomicU64::new(0)));
        let thread = start(&journal, Arc::downgrade(&log), Duration::from_millis(1)).unwrap();
        for _ in 0..2 {
            let error = journal.wait(7).unwrap_err();
            assert!(error.to_string().contains("an I/O error"), "{error}");
        }
        assert!(journal.trust().check().is_err());
        thread.join().unwrap();
        assert_eq!(log.0.load(Ordering::SeqCst), 1);
    }

    /// A log whose first syncs fail because the disk is full.
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
        let journal = Arc::new(Journal::new(0, OnFatal::Exit));
        let interval = Duration::from_millis(1);
        let thread = start(&journal, Arc::downgrade(&log), interval).unwrap();
        assert!(journal.wait(7).is_ok());
        assert_eq!(log.attempts.load(Ordering::SeqCst), 21);
        journal.stop();
        thread.join().unwrap();
    }
}
