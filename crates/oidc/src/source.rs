//! The keys of one issuer, and their fetches: one at a time, on a thread of its own.
//!
//! ```text
//!   login: unknown key --> begin --+-- a fetch is under way: wait for it
//!                                  +-- the last one was long ago: start one, wait for it
//!                                  +-- else: no keys are fetched, the login is refused at once
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};

use crate::fetch::{self, Place, TIME_MAX};
use crate::key::KeySet;

/// How long a login waits for a fetch: a little longer than one may take.
const WAIT_MAX: Duration = Duration::from_millis(TIME_MAX.as_millis() as u64 + 500);
/// The pause after a fetch that failed, if keys are polled less often.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// What all sources share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Grows after a provider has changed or a key was withdrawn.
    pub(crate) epoch: AtomicU64,
    /// The number of the next key.
    pub(crate) numbers: AtomicU64,
    pub(crate) fetched: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) quiet: AtomicU64,
}

/// The keys of one issuer.
pub(crate) struct Source {
    pub(crate) place: Place,
    poll: Option<Duration>,
    keys: ArcSwap<KeySet>,
    flight: Mutex<Flight>,
    landed: Condvar,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Flight {
    is_under_way: bool,
    /// The number of fetches that have ended.
    ended: u64,
    /// When the last one began.
    last: Option<Instant>,
    /// Why the last one that ended failed.
    error: Option<String>,
    stopped: bool,
}

/// A fetch to wait for: it has ended when `ended` has this value.
pub(crate) struct Ticket(u64);

impl Source {
    pub(crate) fn new(place: Place, poll_secs: u32, shared: Arc<Shared>) -> Arc<Source> {
        let poll = (poll_secs > 0).then(|| Duration::from_secs(poll_secs.into()));
        let (keys, flight) = (ArcSwap::default(), Mutex::default());
        Arc::new(Source { place, poll, keys, flight, landed: Condvar::new(), shared })
    }

    pub(crate) fn has(&self, place: &Place, poll_secs: u32) -> bool {
        self.place == *place && self.poll.map_or(0, |poll| poll.as_secs()) == u64::from(poll_secs)
    }

    /// The keys that were fetched last.
    pub(crate) fn keys(&self) -> Arc<KeySet> {
        self.keys.load_full()
    }

    /// Begins a fetch, or joins the one under way. `None` if the last one began less than `quiet` ago.
    pub(crate) fn begin(self: &Arc<Source>, quiet: Duration) -> Option<Ticket> {
        let mut flight = self.flight.lock();
        let ticket = Ticket(flight.ended + 1);
        if flight.is_under_way {
            return Some(ticket);
        }
        if flight.stopped || flight.last.is_some_and(|last| last.elapsed() < quiet) {
            return None;
        }
        flight.is_under_way = true;
        flight.last = Some(Instant::now());
        drop(flight);
        let source = self.clone();
        let thread = std::thread::Builder::new().name("JWKSRefresh".to_owned());
        let started = thread.stack_size(2 << 20).spawn(move || {
            nagi_server::set_log_context("JWKSRefresh");
            source.fetch();
        });
        if let Err(error) = started {
            self.land(Err(format!("cannot start a thread: {error}")));
        }
        Some(ticket)
    }

    /// Waits for a fetch, seconds at most.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<(), String> {
        let until = Instant::now() + WAIT_MAX;
        let mut flight = self.flight.lock();
        while flight.ended < ticket.0 && !flight.stopped {
            if self.landed.wait_until(&mut flight, until).timed_out() {
                return Err("The keys did not arrive in time".to_owned());
            }
        }
        flight.error.clone().map_or(Ok(()), Err)
    }

    /// Begins a fetch if it is time for one.
    pub(crate) fn poll(self: &Arc<Source>) {
        let Some(poll) = self.poll else { return };
        let failed = self.flight.lock().error.is_some();
        let every = if failed { poll.min(RETRY_AFTER) } else { poll };
        self.begin(every);
    }

    /// Wakes all who wait; no fetch begins any more.
    pub(crate) fn stop(&self) {
        self.flight.lock().stopped = true;
        self.landed.notify_all();
    }

    fn fetch(&self) {
        let before = self.keys();
        let next = || self.shared.numbers.fetch_add(1, Relaxed);
        // A panic of a library must not leave the fetch under way for ever.
        let place = &self.place;
        let fetched = std::panic::catch_unwind(|| fetch::key_set(place));
        let fetched = fetched.unwrap_or_else(|_| Err("the fetch ended unexpectedly".to_owned()));
        self.land(fetched.and_then(|text| KeySet::parse(&text, &before, next)));
    }

    /// Ends a fetch.
    fn land(&self, fetched: Result<KeySet, String>) {
        let issuer = self.place.issuer.as_str();
        let error = match fetched {
            Ok(keys) => {
                let before = self.keys();
                self.shared.fetched.fetch_add(1, Relaxed);
                log::info!(target: "ACCESS", id = 8_200_191, issuer = issuer,
                    keys = keys.keys.len(), unusable = keys.unusable_count;
                    "Fetched the keys of an identity provider");
                if keys.keys.is_empty() {
                    log::warn!(target: "ACCESS", id = 8_200_241, issuer = issuer,
                        unusable = keys.unusable_count, withdrawn = before.keys.len();
                        "The key set of an identity provider has no usable key; its tokens are refused");
                }
                let keeps_all = keys.has_all_of(&before);
                self.keys.store(Arc::new(keys));
                if !keeps_all {
                    self.shared.epoch.fetch_add(1, Release);
                }
                None
            }
            Err(error) => {
                self.shared.failed.fetch_add(1, Relaxed);
                log::warn!(target: "ACCESS", id = 8_200_192, issuer = issuer,
                    error = error.as_str();
                    "Cannot fetch the keys of an identity provider; those fetched before stay");
                Some(error)
            }
        };
        let mut flight = self.flight.lock();
        flight.is_under_way = false;
        flight.ended += 1;
        flight.error = error;
        drop(flight);
        self.landed.notify_all();
    }
}
