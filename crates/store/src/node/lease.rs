//! The lease of a node: taken at the start, renewed by a thread, given up at the end. See the module above for why a
//! node without it cannot commit.

use std::{sync::Arc, time::Duration};

use nagi_error::{Code, Result, bail};
use nagi_kv::{
    Durability, Engine, Error, Space, Txn, TxnOptions, interrupt,
    sync::{
        Condvar, Instant, Mutex, MutexGuard,
        atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
        thread::{self, Builder, JoinHandle},
    },
};

use super::{
    NodeOptions, OnLost,
    fence::Mark,
    holder::Holder,
    slots::{self, Slots},
};
use crate::{
    catalog::Uuid,
    engine_error::engine,
    ident::{CatalogKey, Ident},
};

/// The least length of a lease: a request may take two seconds.
const SECONDS_MIN: u32 = 3;
/// Reads end so long before the lease, because the engine's clock may be ahead of this machine's.
const MARGIN: Duration = Duration::from_secs(1);
/// How often a node that waits for a lease looks at it.
const POLL: Duration = Duration::from_millis(100);
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
pub(super) struct Lease {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) slots: Slots,
    node: [u8; 16],
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

/// What an attempt to take the lease has met.
enum Met {
    /// It was taken: the stamps of the read and of the commit.
    Taken(u64, u64),
    Other(Holder),
}

impl Lease {
    /// Takes the lease; waits for that of another node to end if the options say so.
    ///
    /// # Errors
    /// 98 if another node has it and keeps it. Those of the engine.
    pub(super) fn acquire(on: Arc<dyn Engine>, options: &NodeOptions) -> Result<Lease> {
        let seconds = options.lease_seconds.max(SECONDS_MIN);
        let own = Holder { node: Uuid::random().0, until: 0, name: options.name.clone() };
        let (mut seen, mut conflicts) = (None::<Holder>, 0);
        loop {
            let origin = Instant::now();
            match take(&*on, &own, seconds) {
                Ok(Met::Taken(read, committed)) => {
                    log::info!(target: "STORAGE", id = 8_200_391, node = &*own.name;
                        "This node owns the data from now on");
                    let lease = Lease {
                        engine: on,
                        slots: Slots::new(committed),
                        node: own.node,
                        commits: AtomicU64::new(0),
                        name: own.name,
                        seconds,
                        until: AtomicU64::new(0),
                        deadline_ms: AtomicU64::new(0),
                        origin,
                        state: AtomicU8::new(HELD),
                        renewing: Mutex::default(),
                        failures: AtomicU64::new(0),
                        on_lost: options.on_lost.clone(),
                        stops: Mutex::default(),
                        stopped: Condvar::new(),
                    };
                    lease.extend(read, origin);
                    return Ok(lease);
                }
                Ok(Met::Other(holder)) => {
                    if !options.waits || seen.as_ref().is_some_and(|seen| *seen != holder) {
                        return in_use(&holder);
                    }
                    if seen.is_none() {
                        log::info!(target: "STORAGE", id = 8_200_392, node = &*holder.name;
                            "Waiting for the lease of another node to end");
                    }
                    seen = Some(holder);
                    thread::sleep(POLL);
                }
                // It is not known if this node has it: then the next attempt finds its own name.
                Err(Error::Conflict | Error::Undetermined) if conflicts < ATTEMPTS => {
                    conflicts += 1
                }
                Err(error) => return Err(engine(error)),
            }
        }
    }

    /// The lease was renewed by a transaction with this snapshot, which was begun at `begun`.
    fn extend(&self, read_stamp: u64, begun: Instant) {
        self.until.fetch_max(end(read_stamp, self.seconds), SeqCst);
        let lasts = Duration::from_secs(self.seconds.into()) - MARGIN;
        let deadline = begun.saturating_duration_since(self.origin) + lasts;
        let deadline = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.deadline_ms.fetch_max(deadline, SeqCst);
    }

    fn is_current(&self) -> bool {
        let since = Instant::now().saturating_duration_since(self.origin);
        since.as_millis() < u128::from(self.deadline_ms.load(SeqCst))
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
        let mut renewed = self.write(true);
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
                    log::error!(target: "STORAGE", id = 8_200_394, node = &*self.name;
                        "Another node has taken over the data: this one answers no requests any more");
                    self.on_lost.tell();
                }
                let number = self.failures.fetch_add(1, SeqCst) + 1;
                *last = Some(Failed { number, text: error.to_string() });
                Err(error)
            }
        }
    }

    /// Writes the lease, held from now on or ended. Returns the stamp of the read.
    fn write(&self, held: bool) -> nagi_kv::Result<u64> {
        let mut txn = begin(&*self.engine)?;
        let read_stamp = txn.read_stamp()?.0;
        if stored(&*txn)?.is_none_or(|holder| holder.node != self.node) {
            return Err(Error::TakenOver);
        }
        let until = if held { end(read_stamp, self.seconds) } else { 0 };
        put(&mut *txn, &Holder { node: self.node, until, name: self.name.clone() })?;
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

fn begin(on: &dyn Engine) -> nagi_kv::Result<Box<dyn Txn>> {
    on.begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() })
}

/// The end of a lease that is taken or renewed at this stamp.
fn end(read_stamp: u64, seconds: u32) -> u64 {
    read_stamp.saturating_add(u64::from(seconds) << 32)
}

fn stored(txn: &dyn Txn) -> nagi_kv::Result<Option<Holder>> {
    let mut buf = Vec::new();
    let key = Ident(0).catalog_key(CatalogKey::Lease);
    txn.get(Space::Catalog, &key, &mut buf)?.map(Holder::parse).transpose()
}

fn put(txn: &mut dyn Txn, holder: &Holder) -> nagi_kv::Result<()> {
    let key = Ident(0).catalog_key(CatalogKey::Lease);
    txn.put(Space::Catalog, &key, holder.to_doc().as_bytes())
}

/// Takes the lease, if it is not another's that has not ended.
fn take(on: &dyn Engine, own: &Holder, seconds: u32) -> nagi_kv::Result<Met> {
    let mut txn = begin(on)?;
    let read_stamp = txn.read_stamp()?.0;
    if let Some(holder) = stored(&*txn)?
        && holder.node != own.node
        && holder.until >= read_stamp
    {
        return Ok(Met::Other(holder));
    }
    put(&mut *txn, &Holder { until: end(read_stamp, seconds), ..own.clone() })?;
    let mark = Mark { node: own.node, commit: 0 };
    for number in 0..slots::COUNT {
        mark.put(&mut *txn, number)?;
    }
    let committed = txn.commit(Durability::Synced)?;
    Ok(Met::Taken(read_stamp, committed.0))
}

fn in_use<T>(holder: &Holder) -> Result<T> {
    bail!(
        Code::DB_PATH_IN_USE,
        "another node owns the data: {}. Several nodes at once are not supported yet",
        holder.name
    )
}
