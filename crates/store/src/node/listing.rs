//! The order of the change log where stamps are known only after the commit: each node writes its entries in its
//! commits, and lists the commits afterwards, with their stamps.
//!
//! ```text
//!   a commit     begins (bound)  -->  entries under bucket | seat | bound | number, in the commit  -->  stamp
//!   each 100 ms  a list of the commits that have ended, and the horizon: all commits up to it are listed
//!   readers      the commits up to the least horizon of all nodes, in the order of their stamps
//! ```
//!
//! Invariants
//! - The stamp of a commit is greater than its bound: the snapshot of its transaction or, if that is older, the newest
//!   promise. A promise is a stamp up to which no commit of this node will be any more; the commit is told to be
//!   after it (`Txn::order_after`).
//! - A horizon is promised before it is written, and is not greater than the bound of any commit in flight. So each
//!   commit that is not listed has a bound that is not less than the stored horizon.
//! - Lists and horizons are written in transactions of the node, with a fence: a node that is out writes none.
//! - A node without commits to list, and without any in flight, is idle: its horizon holds no reader up. It writes a
//!   horizon before its next commit, which is then after the stamp of that write.
//! - Who declares a node dead lists what it has not listed, in the transaction that ends its seat ([`finish`]).
//!
//! The stamp of a commit whose outcome was found out later, or by another node, is not known exactly: it is listed
//! right behind its bound. What it has read is before that, and who has seen it has a greater bound. See decision 111.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use nagi_kv::{
    CommitStamp, Durability, Engine, Error, Read, Result, Space, Txn,
    sync::{
        Condvar, Instant, Mutex, MutexGuard,
        thread::{Builder, JoinHandle},
    },
};

use super::{
    enter::begin,
    lease::Lease,
    log_keys::{self, Horizon, Listed},
    txn::NodeTxn,
};

/// How often commits are listed.
const PERIOD: Duration = Duration::from_millis(100);
/// A node without commits for so long is idle. Its next commit takes some round trips more.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// With more commits to list, the next one lists them first.
const WAITING_MAX: usize = 1 << 16;
/// Attempts to write a list: a conflict is one of fences.
const ATTEMPTS: usize = 5;

/// See the module's header.
#[derive(Default)]
pub(super) struct Listing {
    state: Mutex<State>,
    /// Held by the one who writes.
    writing: Mutex<Written>,
    stops: Mutex<bool>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    /// A horizon is stored, or being written: commits may begin.
    is_active: bool,
    promised: u64,
    /// Commits in flight: their bounds and numbers.
    open: BTreeSet<(u64, u64)>,
    waiting: Vec<Listed>,
    /// Those in flight whose outcome is to be found out.
    doubtful: Vec<Listed>,
    numbers: u64,
    last: Option<Instant>,
}

/// What was written.
#[derive(Default)]
struct Written {
    /// The snapshot of the last list: the next horizon, so that transactions that began meanwhile are after it.
    snapshot: u64,
    /// The horizon, unless it is that of an idle node.
    horizon: Option<u64>,
}

/// A commit in flight. Unless told otherwise, its outcome is to be found out.
#[must_use]
pub(super) struct InFlight<'l> {
    listing: &'l Listing,
    commit: Option<Listed>,
}

impl InFlight<'_> {
    /// The commit has to be after this stamp.
    pub(super) fn bound(&self) -> u64 {
        self.commit.map_or(0, |commit| commit.bound)
    }

    /// Stages the entries.
    pub(super) fn put<'e>(
        &mut self,
        txn: &mut dyn Txn,
        entries: impl Iterator<Item = &'e [u8]>,
    ) -> Result<()> {
        let Some(commit) = &mut self.commit else { return Ok(()) };
        for (part, value) in log_keys::parts(entries)?.iter().enumerate() {
            txn.put_new(Space::Changes, &commit.key(part as u16), value)?;
            commit.parts += 1;
            commit.bytes =
                commit.bytes.saturating_add(u32::try_from(value.len()).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// It took effect: at this stamp, or at one that is not known.
    pub(super) fn committed(mut self, stamp: Option<u64>) {
        let Some(commit) = self.commit.take() else { return };
        let mut state = self.listing.state.lock();
        state.open.remove(&(commit.bound, commit.number));
        state.waiting.push(Listed { stamp: stamp.unwrap_or(commit.bound + 1), ..commit });
    }

    /// It did not.
    pub(super) fn failed(mut self) {
        let Some(commit) = self.commit.take() else { return };
        self.listing.state.lock().open.remove(&(commit.bound, commit.number));
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(commit) = self.commit.take() {
            self.listing.state.lock().doubtful.push(commit);
        }
    }
}

impl Listing {
    /// Begins the commit of a transaction with this snapshot. A node that was idle writes its horizon first.
    pub(super) fn begin(&self, lease: &Arc<Lease>, read_stamp: u64) -> Result<InFlight<'_>> {
        loop {
            let mut state = self.state.lock();
            if state.is_active && state.waiting.len() < WAITING_MAX {
                state.numbers += 1;
                state.last = Some(Instant::now());
                let (bound, number) = (read_stamp.max(state.promised), state.numbers);
                state.open.insert((bound, number));
                let (stamp, seat) = (0, lease.seat_number());
                let commit = Listed { stamp, bound, seat, number, parts: 0, bytes: 0 };
                return Ok(InFlight { listing: self, commit: Some(commit) });
            }
            let is_active = state.is_active;
            drop(state);
            let done = if is_active { self.list(lease, false) } else { self.wake(lease) };
            // Nothing of the caller's was written.
            done.map_err(|error| match error {
                Error::Undetermined => Error::Conflict,
                other => other,
            })?;
        }
    }

    fn wake(&self, lease: &Arc<Lease>) -> Result<()> {
        let mut written = self.writing.lock();
        if self.state.lock().is_active {
            return Ok(());
        }
        // If the outcome stays unknown, it has to be written again that this node is idle.
        written.horizon = Some(0);
        let (snapshot, committed) = write(lease, None, &mut [])?;
        *written = Written { snapshot, horizon: Some(snapshot) };
        let mut state = self.state.lock();
        // Others have seen it idle up to the commit.
        state.promised = state.promised.max(committed);
        (state.is_active, state.last) = (true, Some(Instant::now()));
        Ok(())
    }

    /// Writes what is to be listed, and a horizon. `ends`: the node is idle from now on, if it can be.
    fn list(&self, lease: &Arc<Lease>, ends: bool) -> Result<()> {
        let mut written = self.writing.lock();
        self.settle(lease);
        let (mut items, horizon) = {
            let mut state = self.state.lock();
            if !state.is_active && written.horizon.is_none() {
                return Ok(());
            }
            let is_quiet = state.last.is_none_or(|last| last.elapsed() > IDLE_AFTER);
            if (ends || is_quiet) && state.open.is_empty() && state.waiting.is_empty() {
                state.is_active = false;
            }
            let least = state.open.first().map_or(u64::MAX, |(bound, _)| *bound);
            state.promised = state.promised.max(written.snapshot.min(least));
            let horizon = match state.is_active {
                true => Horizon::At(state.promised),
                false => Horizon::Idle,
            };
            (std::mem::take(&mut state.waiting), horizon)
        };
        if items.is_empty() && written.horizon.map(Horizon::At) == Some(horizon) {
            return Ok(());
        }
        match write(lease, Some(horizon), &mut items) {
            Ok((snapshot, _)) => {
                let stored = if let Horizon::At(stamp) = horizon { Some(stamp) } else { None };
                *written = Written { snapshot, horizon: stored };
                Ok(())
            }
            Err(error) => {
                // Perhaps they were: readers pass over those that are listed twice.
                self.state.lock().waiting.extend(items);
                Err(error)
            }
        }
    }

    /// Finds out the outcome of commits: one that took effect has entries.
    fn settle(&self, lease: &Lease) {
        let doubtful = std::mem::take(&mut self.state.lock().doubtful);
        for commit in doubtful {
            let mut buf = Vec::new();
            let found = lease.engine.snapshot().and_then(|snapshot| {
                let found = snapshot.get(Space::Changes, &commit.key(0), &mut buf)?;
                Ok(found.is_some())
            });
            let mut state = self.state.lock();
            match found {
                Ok(is_there) => {
                    state.open.remove(&(commit.bound, commit.number));
                    if is_there {
                        state.waiting.push(Listed { stamp: commit.bound + 1, ..commit });
                    }
                }
                Err(_) => state.doubtful.push(commit),
            }
        }
    }

    /// Starts the thread that lists until [`Listing::stop`].
    pub(super) fn keep(lease: &Arc<Lease>) -> Option<JoinHandle<()>> {
        let lease = Arc::clone(lease);
        Builder::new().name("nodeChanges".into()).spawn(move || lease.listing.run(&lease)).ok()
    }

    fn run(&self, lease: &Arc<Lease>) {
        let mut is_late = false;
        loop {
            let mut stops: MutexGuard<'_, bool> = self.stops.lock();
            let until = Instant::now() + PERIOD;
            while !*stops && Instant::now() < until {
                self.stopped.wait_until(&mut stops, until);
            }
            if *stops || lease.is_over() {
                return;
            }
            drop(stops);
            match self.list(lease, false) {
                Ok(()) => is_late = false,
                Err(error) if !is_late => {
                    is_late = true;
                    log::debug!(target: "STORAGE", id = 8_200_442, error:% = error;
                        "The commits of this node cannot be listed for change streams; retrying");
                }
                Err(_) => {}
            }
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        *self.stops.lock() = true;
        self.stopped.notify_all();
    }

    /// Lists everything. If that fails, the one who ends the seat does it.
    pub(super) fn end(&self, lease: &Arc<Lease>) {
        if lease.is_over() || !lease.is_current() {
            return;
        }
        // The second one writes that it is idle.
        let _ = self.list(lease, true).and_then(|()| self.list(lease, true));
    }
}

/// Writes lists and a horizon; without one that of the transaction's own snapshot. Returns the stamps of snapshot and
/// commit.
fn write(lease: &Arc<Lease>, horizon: Option<Horizon>, items: &mut [Listed]) -> Result<(u64, u64)> {
    for attempt in 1.. {
        let mut txn = NodeTxn::new(begin(&*lease.engine)?, lease);
        let snapshot = txn.read_stamp()?.0;
        let seat = lease.seat_number();
        for (key, value) in log_keys::lists(seat, snapshot, items) {
            txn.put_new(Space::Changes, &key, &value)?;
        }
        txn.put_horizon(seat, horizon.unwrap_or(Horizon::At(snapshot)))?;
        match Box::new(txn).commit(Durability::Synced) {
            Err(Error::Conflict) if attempt < ATTEMPTS => {}
            done => return done.map(|CommitStamp(committed)| (snapshot, committed)),
        }
    }
    Err(Error::Conflict)
}

/// Lists what the node of a seat has not listed, in the transaction that makes its later commits conflicts; `txn` is
/// one of the engine. So does a node for what it has not listed itself when it leaves.
pub(super) fn finish(txn: &mut dyn Txn, seat: u16) -> Result<()> {
    let (key, mut buf) = (log_keys::horizon_key(seat), Vec::new());
    let stored = txn.get(Space::Counters, &key, &mut buf)?.map(Horizon::parse).transpose()?;
    let Some(Horizon::At(horizon)) = stored else { return Ok(()) };
    let listed = listed_from(&*txn, seat, horizon)?;
    let mut items: Vec<Listed> = Vec::new();
    for ((bound, number), (parts, bytes)) in entries_from(&*txn, seat, horizon)? {
        if !listed.contains(&(bound, number)) {
            items.push(Listed { stamp: bound + 1, bound, seat, number, parts, bytes });
        }
    }
    let written = txn.read_stamp()?.0;
    for (key, value) in log_keys::lists(seat, written, &mut items) {
        txn.put_new(Space::Changes, &key, &value)?;
    }
    txn.delete(Space::Counters, &key)
}

/// The commits of a seat in lists from this stamp on: their bounds and numbers.
fn listed_from(read: &(impl Read + ?Sized), seat: u16, stamp: u64) -> Result<BTreeSet<(u64, u64)>> {
    let range = log_keys::lists_from(stamp);
    let mut cursor = read.cursor(Space::Changes, &range.start, &range.end)?;
    let (mut some, mut all) = (Vec::new(), BTreeSet::new());
    let mut found = cursor.seek(&range.start)?;
    while found {
        log_keys::read_list((cursor.key(), cursor.value()), &mut some)?;
        let of_seat = some.drain(..).filter(|item| item.seat == seat);
        all.extend(of_seat.map(|item| (item.bound, item.number)));
        found = cursor.next()?;
    }
    Ok(all)
}

/// The commits of a seat with entries and a bound from this stamp on: the numbers of their parts, and bytes.
fn entries_from(
    read: &(impl Read + ?Sized),
    seat: u16,
    bound: u64,
) -> Result<BTreeMap<(u64, u64), (u16, u32)>> {
    let mut all: BTreeMap<(u64, u64), (u16, u32)> = BTreeMap::new();
    for range in log_keys::entries_from(seat, bound) {
        let mut cursor = read.cursor(Space::Changes, &range.start, &range.end)?;
        let mut found = cursor.seek(&range.start)?;
        while found {
            let (_, bound, number) = log_keys::commit_of(cursor.key())?;
            let (parts, bytes) = all.entry((bound, number)).or_default();
            *parts += 1;
            *bytes = bytes.saturating_add(u32::try_from(cursor.value().len()).unwrap_or(u32::MAX));
            found = cursor.next()?;
        }
    }
    Ok(all)
}

/// The space of the change log, and where its parts begin to which commits of one moment are distributed.
pub(crate) fn log_parts() -> (Space, Vec<Vec<u8>>) {
    (Space::Changes, log_keys::starts())
}

/// Begins the log, if there is none yet. `on`: the engine as this node sees it.
pub(crate) fn begin_log(on: &dyn Engine) -> Result<()> {
    let key = log_keys::first_key();
    for attempt in 1.. {
        let mut txn = begin(on)?;
        let read_stamp = txn.read_stamp()?.0;
        if log_keys::status(&*txn, read_stamp)?.first.is_some() {
            return Ok(());
        }
        txn.put(Space::Counters, &key, &log_keys::first_value(read_stamp + 1))?;
        match txn.commit(Durability::Synced) {
            Err(Error::Conflict) if attempt < ATTEMPTS => {}
            done => return done.map(drop),
        }
    }
    Err(Error::Conflict)
}

#[cfg(test)]
mod tests {
    use nagi_kv::Minimal;

    use super::*;
    use crate::node::{NodeMode, NodeOptions};

    fn now(on: &Minimal) -> u64 {
        on.snapshot().expect("a snapshot").stamp().0
    }

    fn horizon(on: &Minimal) -> u64 {
        let snapshot = on.snapshot().expect("a snapshot");
        log_keys::status(&*snapshot, snapshot.stamp().0).expect("reads").horizon
    }

    fn listed(on: &Minimal) -> Vec<(u64, u64)> {
        let snapshot = on.snapshot().expect("a snapshot");
        listed_from(&*snapshot, 0, 0).expect("reads").into_iter().collect()
    }

    #[test]
    fn a_horizon_does_not_pass_a_commit_in_flight() {
        let engine = Arc::new(Minimal::new());
        let options = NodeOptions { mode: NodeMode::Member, ..NodeOptions::default() };
        let on: Arc<dyn Engine> = engine.clone();
        let lease = Arc::new(Lease::acquire(on, &options).expect("a lease"));
        let listing = &lease.listing;
        let list = || listing.list(&lease, false).expect("lists");
        let old = now(&engine);
        let first = listing.begin(&lease, now(&engine)).expect("begins");
        let second = listing.begin(&lease, now(&engine)).expect("begins");
        let bounds = (first.bound(), second.bound());
        (0..3).for_each(|_| list());
        assert!(bounds.0 < bounds.1 && horizon(&engine) <= bounds.0);
        second.committed(Some(now(&engine)));
        (0..3).for_each(|_| list());
        assert_eq!(listed(&engine), [(bounds.1, 2)]);
        assert!(horizon(&engine) <= bounds.0);
        first.committed(Some(now(&engine)));
        let before = now(&engine);
        (0..3).for_each(|_| list());
        assert_eq!(listed(&engine), [(bounds.0, 1), (bounds.1, 2)]);
        assert!(horizon(&engine) >= before);
        // A transaction with an old snapshot is after what was promised, and so is one of a node that was idle.
        let late = listing.begin(&lease, old).expect("begins");
        assert!(late.bound() >= horizon(&engine));
        late.failed();
        listing.end(&lease);
        let seen = now(&engine);
        assert!(horizon(&engine) > seen, "it is idle");
        let awake = listing.begin(&lease, old).expect("begins");
        assert!(awake.bound() > seen && horizon(&engine) <= awake.bound());
        // One whose outcome is not known: without entries it did not take effect.
        let bound = awake.bound();
        drop(awake);
        (0..3).for_each(|_| list());
        assert!(horizon(&engine) > bound && listed(&engine).len() == 2);
    }
}
