//! The lease of a node, of the data or of a seat: renewed by a thread, given up at the end. See the module above for
//! why a node without it cannot commit, and `enter.rs` for how it is taken.

use std::{sync::Arc, time::Duration};

use nagi_bson::{Doc, DocBuf};
use nagi_error::Result;
use nagi_kv::{
    Durability, Engine, Error, Read, Snapshot, Txn, interrupt,
    sync::{
        Condvar, Instant, Mutex, MutexGuard,
        atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
        thread::{self, Builder, JoinHandle},
    },
};

use super::{
    NodeOptions, OnLost,
    enter::{self, Taken, begin, end},
    fence::Mark,
    holder::Holder,
    listing::Listing,
    seat::{self, NodeId, Report, Seat},
    slots::{self, Slots},
};

/// Reads end so long before the lease, because the engine's clock may be ahead of this machine's.
const MARGIN: Duration = Duration::from_secs(1);
/// How often a request that waits for the renewal by another one looks at it.
const TURN_POLL: Duration = Duration::from_millis(20);
/// Attempts against other nodes that take or renew the lease at the same moment.
const ATTEMPTS: usize = 10;

/// The lease is held, or perhaps has ended without another node having taken it.
const HELD: u8 = 0;
/// Another node has it.
const LOST: u8 = 1;
/// It was given up.
const LEFT: u8 = 2;

/// See the module's header.
pub(crate) struct Lease {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) slots: Slots,
    /// What this node lists of its commits.
    pub(super) listing: Listing,
    node: NodeId,
    /// The number of its seat; none if the lease is that of the data.
    seat: Option<u16>,
    /// What the entry of the seat says.
    report: Mutex<Report>,
    /// What the server says of itself there.
    about: Mutex<DocBuf>,
    /// When the catalog was last found up to date, in milliseconds since `origin`: a node whose catalog may be older
    /// than a lease does not renew its own.
    fresh_ms: AtomicU64,
    /// The number of the newest commit.
    commits: AtomicU64,
    name: String,
    seconds: u32,
    /// Its end, as a stamp of the engine's clock.
    until: AtomicU64,
    /// Its end by the monotonic clock, in milliseconds since `origin`.
    deadline_ms: AtomicU64,
    origin: Instant,
    state: AtomicU8,
    /// The last failure to renew it.
    renewing: Mutex<Option<Failed>>,
    /// Failures so far: see [`Lease::check`].
    failures: AtomicU64,
    on_lost: OnLost,
    /// True when the thread has to end.
    stops: Mutex<bool>,
    stopped: Condvar,
}

/// Why the lease could not be renewed, for those who waited for that.
struct Failed {
    /// The number of the failure.
    number: u64,
    text: String,
}

impl Lease {
    /// Takes the lease of the data or a seat; waits for that of another node to end if the options say so.
    ///
    /// # Errors
    /// 98 if other nodes have the data. Those of the engine.
    pub(super) fn acquire(on: Arc<dyn Engine>, options: &NodeOptions) -> Result<Lease> {
        let Taken { node, seat, read, committed, begun } = enter::acquire(&*on, options)?;
        let lease = Lease {
            engine: on,
            slots: Slots::new(committed, seat.unwrap_or(0)),
            listing: Listing::default(),
            node,
            seat,
            report: Mutex::default(),
            about: Mutex::default(),
            fresh_ms: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            name: options.name.clone(),
            seconds: enter::seconds(options),
            until: AtomicU64::new(0),
            deadline_ms: AtomicU64::new(0),
            origin: begun,
            state: AtomicU8::new(HELD),
            renewing: Mutex::default(),
            failures: AtomicU64::new(0),
            on_lost: options.on_lost.clone(),
            stops: Mutex::default(),
            stopped: Condvar::new(),
        };
        lease.extend(read, begun);
        Ok(lease)
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The number of its seat; that of a node that has the data alone is 0.
    pub(crate) fn seat_number(&self) -> u16 {
        self.seat.unwrap_or(0)
    }

    /// True if the data are shared with other nodes.
    pub(super) fn is_seat(&self) -> bool {
        self.seat.is_some()
    }

    /// True for the number of a fence of this node, which is that of a part of each counter.
    pub(crate) fn is_own_part(&self, number: u16) -> bool {
        slots::of_seat(self.seat.unwrap_or(0)).contains(&number)
    }

    /// The name of this node.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// All seats, and the stamp of the snapshot that has them.
    pub(crate) fn seats(&self) -> nagi_kv::Result<(Vec<Seat>, u64)> {
        let snapshot: Arc<dyn Snapshot> = self.engine.snapshot()?;
        let read: &dyn Read = &*snapshot;
        Ok((seat::all(read)?, snapshot.stamp().0))
    }

    /// Declares a node dead whose lease has ended: it cannot commit any more. Does nothing if it is back.
    pub(crate) fn clear(&self, dead: &Seat) -> nagi_kv::Result<()> {
        enter::clear(&*self.engine, self.node, dead)
    }

    /// True if another node has taken it over, or it was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(SeqCst) != HELD
    }

    /// The catalog is up to date as of this moment.
    pub(crate) fn note_fresh(&self) {
        self.fresh_ms.fetch_max(self.now_ms(), SeqCst);
    }

    /// Writes what this node says of its catalog; renews the lease.
    pub(crate) fn report(&self, report: &Report) -> nagi_kv::Result<()> {
        if *self.report.lock() == *report {
            return Ok(());
        }
        let mut last = self.renewing.lock();
        let before = std::mem::replace(&mut *self.report.lock(), report.clone());
        let done = self.renew_alone(&mut last);
        if done.is_err() {
            // Perhaps it was written: the next call writes it again.
            *self.report.lock() = before;
        }
        done
    }

    /// Writes what the server says of itself; renews the lease.
    pub(crate) fn describe(&self, about: Doc<'_>) -> nagi_kv::Result<()> {
        *self.about.lock() = about.to_buf();
        self.renew()
    }

    fn now_ms(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.origin);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// The lease was renewed by a transaction with this snapshot, which was begun at `begun`.
    fn extend(&self, read_stamp: u64, begun: Instant) {
        self.until.fetch_max(end(read_stamp, self.seconds), SeqCst);
        let lasts = Duration::from_secs(self.seconds.into()) - MARGIN;
        let deadline = begun.saturating_duration_since(self.origin) + lasts;
        let deadline = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.deadline_ms.fetch_max(deadline, SeqCst);
    }

    pub(super) fn is_current(&self) -> bool {
        self.now_ms() < self.deadline_ms.load(SeqCst)
    }

    fn check_state(&self) -> nagi_kv::Result<()> {
        match self.state.load(SeqCst) {
            HELD => Ok(()),
            LEFT => Err(Error::other("the store is closed")),
            _ => Err(Error::TakenOver),
        }
    }

    /// Before a read: the lease has not ended, or is renewed. Costs a look at the clock.
    ///
    /// # Errors
    /// `TakenOver` if another node has it. Those of the engine.
    pub(super) fn check(&self) -> nagi_kv::Result<()> {
        self.check_state()?;
        if self.is_current() {
            return Ok(());
        }
        self.renew_unless_just_failed()
    }

    /// Renews a lease that has ended. Of the threads that wait for that, one asks a cluster that does not answer, which
    /// takes many seconds; the others get its error.
    fn renew_unless_just_failed(&self) -> nagi_kv::Result<()> {
        let before = self.failures.load(SeqCst);
        let mut last = self.turn()?;
        if self.is_current() {
            return self.check_state();
        }
        if let Some(failed) = last.as_ref().filter(|failed| failed.number > before) {
            self.check_state()?;
            return Err(Error::Unreachable(failed.text.clone()));
        }
        self.renew_alone(&mut last)
    }

    /// Before a commit of a transaction with this snapshot: the lease ends behind it, or is renewed.
    ///
    /// # Errors
    /// Those of [`Lease::check`].
    pub(super) fn cover(&self, read_stamp: u64) -> nagi_kv::Result<()> {
        self.check_state()?;
        if read_stamp <= self.until.load(SeqCst) { Ok(()) } else { self.renew() }
    }

    /// The mark of a new commit.
    pub(super) fn mark(&self) -> Mark {
        Mark { node: self.node, commit: self.commits.fetch_add(1, SeqCst) + 1 }
    }

    pub(super) fn renew(&self) -> nagi_kv::Result<()> {
        let mut last = self.turn()?;
        self.renew_alone(&mut last)
    }

    /// The turn to renew the lease. The one who has it may wait for a cluster that does not answer.
    ///
    /// # Errors
    /// `Interrupted` if the caller's request was interrupted meanwhile.
    fn turn(&self) -> nagi_kv::Result<MutexGuard<'_, Option<Failed>>> {
        loop {
            if let Some(turn) = self.renewing.try_lock() {
                return Ok(turn);
            }
            if !interrupt::go_on() {
                return Err(Error::Interrupted);
            }
            thread::sleep(TURN_POLL);
        }
    }

    /// `last` is what `renewing` protects.
    fn renew_alone(&self, last: &mut Option<Failed>) -> nagi_kv::Result<()> {
        self.check_state()?;
        // Taken before the stamp: whatever became of their commits, it was before it.
        let unknown = self.slots.unknown();
        let begun = Instant::now();
        let mut renewed = self.check_fresh().and_then(|()| self.write(true));
        for _ in 1..ATTEMPTS {
            match renewed {
                Err(Error::Conflict) => renewed = self.write(true),
                _ => break,
            }
        }
        self.slots.settle(unknown, renewed.as_ref().ok().copied());
        match renewed {
            Ok(read_stamp) => {
                self.extend(read_stamp, begun);
                Ok(())
            }
            // Says nothing of the cluster to those who wait for it, too.
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                if matches!(error, Error::TakenOver) && self.state.swap(LOST, SeqCst) == HELD {
                    match self.seat {
                        None => log::error!(target: "STORAGE", id = 8_200_394, node = &*self.name;
                            "Another node has taken over the data: this one answers no requests any more"),
                        Some(_) => {
                            log::error!(target: "STORAGE", id = 8_200_440, node = &*self.name;
                            "The other nodes have given this one up: it answers no requests any more")
                        }
                    }
                    self.on_lost.tell();
                }
                let number = self.failures.fetch_add(1, SeqCst) + 1;
                *last = Some(Failed { number, text: error.to_string() });
                Err(error)
            }
        }
    }

    /// A node with a seat does not renew its lease while its catalog may be older than that: others do not wait for it
    /// any longer.
    fn check_fresh(&self) -> nagi_kv::Result<()> {
        let Some(number) = self.seat else { return Ok(()) };
        if self.now_ms() <= self.fresh_ms.load(SeqCst) + 1000 * u64::from(self.seconds) {
            return Ok(());
        }
        // Perhaps they have not waited.
        let txn = begin(&*self.engine)?;
        txn.read_stamp()?;
        self.check_seat(&*txn, number)?;
        Err(Error::Unreachable("the catalog of this node is older than its lease".into()))
    }

    fn check_seat(&self, txn: &dyn Txn, number: u16) -> nagi_kv::Result<()> {
        match seat::one(txn, number)? {
            Some(seat) if seat.node == self.node => Ok(()),
            _ => Err(Error::TakenOver),
        }
    }

    /// Writes the lease, held from now on or ended. Returns the stamp of the read.
    fn write(&self, held: bool) -> nagi_kv::Result<u64> {
        let mut txn = begin(&*self.engine)?;
        let read_stamp = txn.read_stamp()?.0;
        let until = if held { end(read_stamp, self.seconds) } else { 0 };
        let (node, name) = (self.node, self.name.clone());
        match self.seat {
            None => {
                if enter::stored(&*txn)?.is_none_or(|holder| holder.node != self.node) {
                    return Err(Error::TakenOver);
                }
                enter::put(&mut *txn, &Holder { node, until, name })?;
            }
            Some(number) => {
                self.check_seat(&*txn, number)?;
                match held {
                    true => {
                        let (about, report) =
                            (self.about.lock().clone(), self.report.lock().clone());
                        let seat =
                            Seat { number, node, renewed: read_stamp, until, name, about, report };
                        seat.put(&mut *txn)?;
                    }
                    false => enter::leave(&mut *txn, number, node)?,
                }
            }
        }
        txn.commit(Durability::Synced)?;
        Ok(read_stamp)
    }

    /// The last call: another node may take over at once. Later reads and writes of this one fail.
    pub(super) fn leave(&self) {
        *self.stops.lock() = true;
        self.stopped.notify_all();
        let _one = self.renewing.lock();
        // A lease that could not be renewed in its time has ended: a cluster that does not answer is not waited for.
        if self.state.swap(LEFT, SeqCst) != HELD || !self.is_current() {
            return;
        }
        if let Err(error) = self.write(false) {
            log::warn!(target: "STORAGE", id = 8_200_412, error:% = error;
                "The lease of this node could not be given up: the next start waits until it ends");
        }
    }

    /// Starts the thread that renews it until [`Lease::leave`].
    pub(super) fn keep(self: &Arc<Lease>) -> Option<JoinHandle<()>> {
        let lease = Arc::clone(self);
        Builder::new().name("nodeLease".into()).spawn(move || lease.run()).ok()
    }

    fn run(&self) {
        let (mut pause, mut is_late) = (Duration::from_secs(self.seconds.into()) / 3, false);
        loop {
            let mut stops = self.stops.lock();
            let until = Instant::now() + pause;
            while !*stops && Instant::now() < until {
                self.stopped.wait_until(&mut stops, until);
            }
            if *stops {
                return;
            }
            drop(stops);
            pause = Duration::from_secs(self.seconds.into()) / 3;
            match self.renew() {
                Ok(()) if is_late => {
                    is_late = false;
                    log::info!(target: "STORAGE", id = 8_200_413; "The lease of this node is renewed again");
                }
                Ok(()) => {}
                Err(Error::TakenOver) => return,
                Err(error) => {
                    is_late = true;
                    pause = Duration::from_secs(1);
                    log::warn!(target: "STORAGE", id = 8_200_393, error:% = error;
                        "The lease of this node cannot be renewed; retrying");
                }
            }
        }
    }
}
