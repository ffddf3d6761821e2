//! Requests to the cluster, each with a deadline, repeated while that may help. The only user of the client's API.
//!
//! ```text
//!   one call    attempt -- fails, may help to repeat --> pause --> attempt ... until the deadline of the call
//!               each attempt ends after `ATTEMPT`; pauses double from 5 ms to 500 ms
//! ```
//!
//! The client keeps every value that a snapshot or a transaction of it has read. So each request has a snapshot object
//! of its own, at the same timestamp: nothing accumulates.

use std::{
    cell::Cell,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{Error, Result};
use parking_lot::Mutex;
use tikv_client::{
    BoundRange, CheckLevel, Key, Snapshot, Timestamp, TimestampExt as _, Transaction,
    TransactionClient, TransactionOptions,
    transaction::{HeartbeatOption, ResolveLocksOptions},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout, timeout_at},
};

use crate::{
    calls::{Calls, Count},
    connect::{self, PAUSE_MAX, PAUSE_MIN},
    contact::Contact,
    driver::{self, Least, Tidb},
    error::{Kind, Reason, failure, kind},
    one_phase::OnePhase,
    options::Options,
    outcome::{self, Outcome},
    regions::{Bounds, Regions},
    runtime::{Running, Runtime},
    split,
};

/// Time for one attempt of a read. A request within it has less: `Options::request_timeout`.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Time to find out that a failed commit has not taken effect.
const ROLLBACK: Duration = Duration::from_secs(10);
/// The same for a request that was interrupted: a store that works answers in this time.
const ROLLBACK_LATE: Duration = Duration::from_millis(200);
/// Time to resolve the locks of some dozens of regions.
const RESOLUTION: Duration = Duration::from_secs(60);
/// Locks of a region that are resolved together.
const LOCKS_AT_ONCE: u32 = 1024;
/// Locks of an unfinished commit are valid for 3 seconds at least.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// A stored key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A change of a commit.
pub(crate) enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// No other transaction may write the key between the timestamp of this one and its commit.
    Lock(Vec<u8>),
}

impl Change {
    fn key(&self) -> &[u8] {
        match self {
            Change::Put(key, _) | Change::Delete(key) | Change::Lock(key) => key,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Change::Put(key, value) => key.len() + value.len(),
            Change::Delete(key) | Change::Lock(key) => key.len(),
        }
    }
}

/// A part of a range.
pub(crate) struct Page {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
    /// Entries at most.
    pub(crate) limit: u32,
    /// Begins at the end of the range.
    pub(crate) reverse: bool,
    /// Leaves the values out.
    pub(crate) keys_only: bool,
}

impl Page {
    /// Reduces it to one region. Returns where the rest begins, or if it is read backward ends, if there is one.
    pub(crate) fn cut(&mut self, bounds: &Bounds) -> Option<Vec<u8>> {
        if self.reverse {
            if bounds.start <= self.from {
                return None;
            }
            self.from.clone_from(&bounds.start);
            return Some(bounds.start.clone());
        }
        let end = bounds.end.as_ref().filter(|end| **end < self.to)?;
        self.to.clone_from(end);
        Some(end.clone())
    }
}

/// What was read of the first region of a page.
pub(crate) struct Part {
    pub(crate) found: Vec<Pair>,
    /// See [`Page::cut`].
    pub(crate) rest: Option<Vec<u8>>,
}

/// A transaction of the store that has begun: its timestamp is taken, nothing is written.
pub(crate) struct Begun {
    transaction: Transaction,
    /// It is committed in one phase if all its keys are in one region.
    one_phase: bool,
}

impl Begun {
    pub(crate) fn version(&self) -> u64 {
        self.transaction.start_timestamp().version()
    }
}

/// See the module's header.
pub(crate) struct Client {
    link: Arc<Link>,
    runtime: Runtime,
}

/// What tasks share.
struct Link {
    /// Replaced when the placement drivers do not answer.
    client: Mutex<TransactionClient>,
    regions: Regions,
    options: Options,
    calls: Calls,
    contact: Contact,
    one_phase: OnePhase,
}

impl Client {
    /// Connects to the placement drivers.
    ///
    /// # Errors
    /// If none answers in `Options::connect_timeout`.
    pub(crate) fn connect(options: &Options) -> Result<Client> {
        let runtime = Runtime::start()?;
        let options = options.clone();
        let link = runtime.wait(async move {
            let client = Mutex::new(connect::first(&options).await?);
            let (regions, calls, contact) = (Regions::new(&options), Calls::new(), Contact::new());
            let one_phase = OnePhase::default();
            Ok(Link { client, regions, options, calls, contact, one_phase })
        })?;
        Ok(Client { link: Arc::new(link), runtime })
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.link.calls
    }

    /// A timestamp that is greater than those of all commits that have returned.
    pub(crate) fn timestamp(&self) -> Result<u64> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move { Ok(link.timestamp().await?.version()) })
    }

    /// Waits until timestamps are greater than this one, which should be in the near future.
    pub(crate) fn wait_until(&self, version: u64, most: Duration) -> Result<u64> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move {
            let end = Instant::now() + most;
            loop {
                let now = link.timestamp().await?.version();
                if now > version {
                    return Ok(now);
                }
                if Instant::now() >= end {
                    return Err(Error::other("the clock of the TiKV cluster is behind this one"));
                }
                sleep(PAUSE_MIN).await;
            }
        })
    }

    pub(crate) fn get(&self, version: u64, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move {
            let found = link
                .repeat("a get", Count::Get, || {
                    let (mut snapshot, key) = (link.snapshot(version), key.clone());
                    async move { snapshot.get(key).await }
                })
                .await?;
            // Stored values begin with a mark; some stores answer with an empty value if there is none.
            let found = found.filter(|value| !value.is_empty());
            let bytes = found.as_ref().map_or(0, Vec::len);
            link.calls.add(Count::BytesRead, bytes as u64);
            Ok(found)
        })
    }

    /// The keys that exist, with their values, in any order. The keys are different.
    pub(crate) fn get_many(&self, version: u64, keys: Vec<Vec<u8>>) -> Result<Vec<Pair>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move {
            let found = link
                .repeat("a batch of gets", Count::BatchGet, || {
                    let (mut snapshot, keys) = (link.snapshot(version), keys.clone());
                    async move { Ok(snapshot.batch_get(keys).await?.collect::<Vec<_>>()) }
                })
                .await?;
            let pairs = found.into_iter().map(|pair| (pair.0.into(), pair.1));
            Ok(link.count_read(pairs.collect()))
        })
    }

    /// The entries of a page. The page should be within one region: each region answers with up to `limit` entries.
    pub(crate) fn scan(&self, version: u64, page: Page) -> Result<Vec<Pair>> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move { link.scan(version, page).await })
    }

    /// Begins to read the part of a page that is in the region of its first key, or if it is read backward of its end.
    pub(crate) fn start_scan(&self, version: u64, mut page: Page) -> Result<Running<Part>> {
        let link = Arc::clone(&self.link);
        self.runtime.begin(async move {
            let edge = if page.reverse { &page.to } else { &page.from };
            let bounds = match link.regions.known(edge, page.reverse) {
                Some(bounds) => bounds,
                None => {
                    link.calls.add(Count::Region, 1);
                    link.regions.ask(edge, page.reverse).await?
                }
            };
            let rest = page.cut(&bounds);
            Ok(Part { found: link.scan(version, page).await?, rest })
        })
    }

    /// Ends regions before these stored keys: see `split.rs`.
    pub(crate) fn split_at(&self, keys: Vec<Vec<u8>>) -> Result<usize> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move {
            link.calls.add(Count::Split, keys.len() as u64);
            split::at(&link.regions, keys).await
        })
    }

    /// The bounds of the region of a key, or with `before` of the keys right before it.
    pub(crate) fn bounds(&self, key: &[u8], before: bool) -> Result<Bounds> {
        if let Some(bounds) = self.link.regions.known(key, before) {
            return Ok(bounds);
        }
        self.link.calls.add(Count::Region, 1);
        let (link, key) = (Arc::clone(&self.link), key.to_vec());
        self.runtime.wait(async move { link.regions.ask(&key, before).await })
    }

    /// See [`driver::safe_point`].
    pub(crate) fn safe_point(&self) -> Result<u64> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move { driver::safe_point(&link.regions).await })
    }

    /// See [`driver::advance`].
    pub(crate) fn advance_safe_point(&self, version: u64) -> Result<u64> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move { driver::advance(&link.regions, version).await })
    }

    /// See [`driver::protect`].
    pub(crate) fn protect(&self, service: &str, version: u64, lasts: i64) -> Result<Least> {
        let (link, service) = (Arc::clone(&self.link), service.to_owned());
        self.runtime
            .wait(async move { driver::protect(&link.regions, &service, version, lasts).await })
    }

    /// See [`driver::tidb`].
    pub(crate) fn tidb(&self) -> Result<Tidb> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move { driver::tidb(&link.regions).await })
    }

    /// See [`driver::part`].
    pub(crate) fn regions_from(&self, from: &[u8], most: u32) -> Result<driver::Part> {
        let (link, from) = (Arc::clone(&self.link), from.to_vec());
        self.runtime.wait(async move { driver::part(&link.regions, &from, most).await })
    }

    /// Completes or rolls back all transactions with locks in this range that began up to `version`, also those that
    /// run.
    pub(crate) fn resolve_locks(
        &self,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
        version: u64,
    ) -> Result<()> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move {
            let client = link.client.lock().clone();
            let options =
                ResolveLocksOptions { async_commit_only: false, batch_size: LOCKS_AT_ONCE };
            let version = Timestamp::from_version(version);
            let range: BoundRange = match to {
                Some(to) => (Key::from(from)..Key::from(to)).into(),
                None => (Key::from(from)..).into(),
            };
            let what = "the resolution of locks";
            match timeout(RESOLUTION, client.cleanup_locks(range, &version, options)).await {
                Ok(Ok(done)) => {
                    link.calls.add(Count::LockResolved, done.resolved_locks as u64);
                    Ok(())
                }
                Ok(Err(error)) => Err(failure(what, &error)),
                Err(_) => Err(silent(what)),
            }
        })
    }

    /// Takes a timestamp for reads and a later commit.
    pub(crate) fn begin(&self) -> Result<Begun> {
        let link = Arc::clone(&self.link);
        self.runtime.wait(async move {
            let one_phase = link.one_phase.is_tried();
            let options = if one_phase { link_options().try_one_pc() } else { link_options() };
            let begin = |client: TransactionClient| {
                let options = options.clone();
                async move { client.begin_with_options(options).await }
            };
            Ok(Begun { transaction: link.repeat_timestamp(begin).await?, one_phase })
        })
    }

    /// Commits changes, in one phase if they are small and in one region, otherwise in two. The first change is the
    /// primary one, which decides.
    ///
    /// # Errors
    /// `Conflict` if another transaction has committed one of the keys since `begun`, or if the commit was rolled back
    /// because a part of the cluster was away, for `Options::call_timeout` at most: then it has to be repeated;
    /// `Undetermined` if it is not known whether the changes were committed, also because the caller's request was
    /// interrupted. With any other error they were not.
    pub(crate) fn commit(&self, begun: Begun, changes: Vec<Change>) -> Result<u64> {
        let (link, started) = (Arc::clone(&self.link), Instant::now());
        let most = link.options.call_timeout;
        let committed = self
            .runtime
            .wait_or_stop(|stop| async move { link.commit(begun, changes, stop).await });
        repeated(committed, started, most)
    }
}

thread_local! {
    /// The beginning of the first commit of this thread that could not reach the cluster, of those since one that ended
    /// otherwise, and the end of the last one.
    static FAILING: Cell<Option<(Instant, Instant)>> = const { Cell::new(None) };
}

/// A commit that could not reach the cluster and was rolled back is one that has to be repeated, as after a conflict,
/// until this has lasted for `most`. Callers repeat in their own thread.
fn repeated(committed: Result<u64>, started: Instant, most: Duration) -> Result<u64> {
    let earlier = FAILING.take().filter(|(_, last)| started.duration_since(*last) < most);
    let first = earlier.map_or(started, |(first, _)| first.min(started));
    match committed {
        Err(Error::Unreachable(_)) if first.elapsed() < most => {
            FAILING.set(Some((first, Instant::now())));
            Err(Error::Conflict)
        }
        other => other,
    }
}

/// The transactions of the client find conflicts at the commit, and end silently when they are dropped.
fn link_options() -> TransactionOptions {
    TransactionOptions::new_optimistic()
        .drop_check(CheckLevel::None)
        .heartbeat_option(HeartbeatOption::FixedTime(HEARTBEAT))
}

async fn scan(
    mut snapshot: Snapshot,
    range: std::ops::Range<Key>,
    limit: u32,
    (reverse, keys_only): (bool, bool),
) -> tikv_client::Result<Vec<Pair>> {
    let pair = |pair: tikv_client::KvPair| (pair.0.into(), pair.1);
    let alone = |key: Key| (key.into(), Vec::new());
    Ok(match (reverse, keys_only) {
        (false, false) => snapshot.scan(range, limit).await?.map(pair).collect(),
        (true, false) => snapshot.scan_reverse(range, limit).await?.map(pair).collect(),
        (false, true) => snapshot.scan_keys(range, limit).await?.map(alone).collect(),
        (true, true) => snapshot.scan_keys_reverse(range, limit).await?.map(alone).collect(),
    })
}

impl Link {
    fn snapshot(&self, version: u64) -> Snapshot {
        let client = self.client.lock().clone();
        client.snapshot(Timestamp::from_version(version), link_options())
    }

    async fn scan(&self, version: u64, page: Page) -> Result<Vec<Pair>> {
        let found = self
            .repeat("a scan", Count::Scan, || {
                let snapshot = self.snapshot(version);
                let range = Key::from(page.from.clone())..Key::from(page.to.clone());
                scan(snapshot, range, page.limit, (page.reverse, page.keys_only))
            })
            .await?;
        Ok(self.count_read(found))
    }

    fn count_read(&self, pairs: Vec<Pair>) -> Vec<Pair> {
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.calls.add(Count::BytesRead, bytes as u64);
        pairs
    }

    async fn timestamp(&self) -> Result<Timestamp> {
        self.repeat_timestamp(|client| async move { client.current_timestamp().await }).await
    }

    /// A request to the placement drivers. The client waits without an end if their connection is silent, so after a
    /// time-out it is replaced.
    async fn repeat_timestamp<T, F: Future<Output = tikv_client::Result<T>>>(
        &self,
        attempt: impl Fn(TransactionClient) -> F,
    ) -> Result<T> {
        let again = || {
            let attempted = attempt(self.client.lock().clone());
            async move {
                if let Ok(result) = timeout(self.options.request_timeout, attempted).await {
                    return result;
                }
                self.calls.add(Count::Reconnect, 1);
                if let Ok(fresh) = connect::once(&self.options).await {
                    *self.client.lock() = fresh;
                }
                let message = "the placement driver is silent".into();
                Err(tikv_client::Error::InternalError { message })
            }
        };
        self.repeat("a timestamp", Count::Timestamp, again).await
    }

    /// Repeats a request until it succeeds, its error does not pass, or `Options::call_timeout` is over.
    async fn repeat<T, F: Future<Output = tikv_client::Result<T>>>(
        &self,
        what: &'static str,
        count: Count,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let begun = Instant::now();
        let end = begun + self.options.call_timeout;
        let mut pause = PAUSE_MIN;
        loop {
            self.calls.add(count, 1);
            let left = end.saturating_duration_since(Instant::now());
            let (reason, error) = match timeout(ATTEMPT.min(left), attempt()).await {
                Ok(Ok(result)) => {
                    self.contact.answered();
                    return Ok(result);
                }
                Ok(Err(error)) => match kind(&error) {
                    Kind::Passing(reason) => (reason, failure(what, &error)),
                    _ => return Err(failure(what, &error)),
                },
                Err(_) => (Reason::Timeout, silent(what)),
            };
            // A store with too much to do, or a locked key, is an answer.
            if !matches!(reason, Reason::Busy | Reason::Lock) {
                self.contact.failed(begun, &error);
            }
            if Instant::now() + pause >= end {
                return Err(error);
            }
            self.calls.add(reason.count(), 1);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn commit(
        &self,
        begun: Begun,
        changes: Vec<Change>,
        stop: oneshot::Receiver<()>,
    ) -> Result<u64> {
        let Begun { mut transaction, one_phase } = begun;
        let primary = changes.first().map(|change| change.key().to_vec()).unwrap_or_default();
        let bytes: usize = changes.iter().map(Change::bytes).sum();
        self.calls.add(Count::Commit, 1);
        self.calls.add(Count::BytesWritten, bytes as u64);
        let staged = stage(&mut transaction, changes).await;
        staged.map_err(|error| failure("a write", &error))?;
        let committed = tokio::select! {
            done = timeout(self.options.call_timeout, transaction.commit()) => Some(done),
            _ = stop => None,
        };
        let (error, kind) = match committed {
            Some(Ok(Ok(Some(version)))) => return Ok(version.version()),
            Some(Ok(Ok(None))) => return Err(Error::other("a commit on TiKV without a timestamp")),
            // It was begun in two phases instead, which the client cannot complete: it has to be repeated.
            Some(Ok(Err(tikv_client::Error::OnePcFailure))) => {
                self.one_phase.pause();
                (Error::Conflict, Some(Kind::Conflict))
            }
            Some(Ok(Err(error))) => (failure("a commit", &error), Some(kind(&error))),
            Some(Err(_)) => (silent("a commit"), None),
            None => (Error::Interrupted, None),
        };
        self.settle((transaction, one_phase, primary), kind, error).await
    }

    /// After a failed commit: one that can be rolled back was not committed, and its locks are released.
    async fn settle(
        &self,
        (mut transaction, one_phase, primary): (Transaction, bool, Vec<u8>),
        kind: Option<Kind>,
        error: Error,
    ) -> Result<u64> {
        self.calls.add(Count::Rollback, 1);
        let most = if matches!(error, Error::Interrupted) { ROLLBACK_LATE } else { ROLLBACK };
        let end = tokio::time::Instant::now() + most;
        // The primary key was not committed: in two phases that is not tried after a conflict, and in one phase all
        // keys are committed together, which refuse to be rolled back then. So all may be rolled back at once.
        if kind == Some(Kind::Conflict) {
            let rolled_back = matches!(timeout_at(end, transaction.rollback()).await, Ok(Ok(())));
            if rolled_back || !one_phase {
                self.calls.add(Count::Conflict, 1);
                return Err(error);
            }
            // A commit in one phase that was sent again may have met itself.
        }
        let version = transaction.start_timestamp().version();
        let decided = outcome::decide(&self.regions, &primary, version);
        match timeout_at(end, decided).await {
            Ok(Outcome::Committed(version)) => Ok(version),
            Ok(Outcome::RolledBack) => {
                // Otherwise others would wait until the locks of its other keys end.
                let _ = timeout_at(end, transaction.rollback()).await;
                // A key that another commit holds for longer than the client waits: that one was first.
                let held = matches!(kind, Some(Kind::Passing(Reason::Lock) | Kind::Conflict));
                Err(if held { Error::Conflict } else { error })
            }
            Err(_) => {
                self.calls.add(Count::Undetermined, 1);
                log::warn!(
                    target: "STORAGE", id = 8_200_380, error:% = error;
                    "Outcome of a commit on TiKV is not known"
                );
                Err(Error::Undetermined)
            }
        }
    }
}

fn silent(what: &str) -> Error {
    Error::Unreachable(format!("{what} on TiKV failed: no answer in time"))
}

async fn stage(transaction: &mut Transaction, changes: Vec<Change>) -> tikv_client::Result<()> {
    for change in changes {
        match change {
            Change::Put(key, value) => transaction.put(key, value).await?,
            Change::Delete(key) => transaction.delete(key).await?,
            Change::Lock(key) => transaction.lock_keys([key]).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(20);

    fn away() -> Result<u64> {
        Err(Error::Unreachable("away".into()))
    }

    #[test]
    fn commits_that_are_rolled_back_are_repeated_for_a_time() {
        let now = Instant::now();
        let ago = |seconds| {
            now.checked_sub(Duration::from_secs(seconds)).expect("the machine runs for longer")
        };
        assert!(matches!(repeated(away(), ago(5), MOST), Err(Error::Conflict)));
        assert!(matches!(repeated(away(), now, MOST), Err(Error::Conflict)), "5 seconds in all");
        assert!(
            matches!(repeated(away(), ago(20), MOST), Err(Error::Unreachable(_))),
            "one that has waited"
        );
        // The next one begins anew.
        assert!(matches!(repeated(away(), ago(15), MOST), Err(Error::Conflict)));
        assert!(matches!(repeated(Ok(7), now, MOST), Ok(7)));
        assert!(matches!(repeated(away(), ago(15), MOST), Err(Error::Conflict)));
        FAILING.set(Some((ago(19), now)));
        assert!(
            matches!(repeated(away(), now, Duration::from_secs(19)), Err(Error::Unreachable(_))),
            "too long in all"
        );
        FAILING.set(Some((ago(900), ago(600))));
        assert!(
            matches!(repeated(away(), now, MOST), Err(Error::Conflict)),
            "that was another outage"
        );
        assert!(matches!(repeated(Err(Error::Undetermined), now, MOST), Err(Error::Undetermined)));
    }
}
