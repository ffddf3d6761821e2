//! Running operations: `currentOp` shows them, `killOp` cancels them.
//!
//! Each connection has one [`Op`], which all its requests reuse: registering a request takes a few stores and a copy of
//! at most 4 KiB into a reused buffer.
//!
//! A kill only stores an error code. The operation's own thread reads it at its next interrupt check ([`Op::check`])
//! and fails with it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result};
use nagi_percore::{PerCore, note_shared};
use nagi_store::{Arrivals, Holder, Namespace, Waits};
use parking_lot::Mutex;

use crate::clock;
use crate::fail_points::FailPoints;
use crate::interruption::interruption;
use crate::limits::{OP_COMMAND_BYTES_MAX, PEER_LOOK};
use crate::metrics::locks::{LockMode, LockUse};
use crate::metrics::long_operations::Blocked;
use crate::names::UserName;
use crate::printable::{without_users_secrets, write_cut};
use crate::session::SessionId;
use crate::statement_text::{Kind, describe};
use crate::tickets::Held;
use crate::timeslice;

/// The buffers of a text that a connection keeps for its next request.
const KEPT_TEXT_BYTES: usize = 4096;

/// The operation of one connection or background job.
pub(crate) struct Op {
    /// Zero while idle.
    id: AtomicU64,
    /// The code of the error that cancels it; zero if it was not killed.
    kill_code: AtomicI32,
    text: Mutex<OpText>,
    /// "conn12".
    pub(crate) description: String,
    pub(crate) connection_id: i64,
    pub(crate) remote: String,
    client: Mutex<Option<Arc<ClientMetadata>>>,
    /// The inserts that it waits for, so that a kill can wake it.
    waits_for: Mutex<Option<Arc<Arrivals>>>,
    /// Checks if the client is still connected; set at most once.
    probe: OnceLock<Probe>,
    /// Set where test commands are allowed.
    fail_points: OnceLock<Arc<FailPoints>>,
    created: Instant,
    /// When the next check of the client is due, in microseconds since `created`.
    look_due: AtomicU64,
    user: Mutex<Option<UserName>>,
    /// Its ticket.
    pub(crate) held: Held,
    /// Requests set the time slice of their thread.
    sets_slices: bool,
    /// The request may be recorded in a profile.
    profiled: AtomicBool,
    examined: Examined,
    locked: Locked,
    /// What the writes of its connection wait for; set at most once, not in background jobs.
    waits: OnceLock<Arc<Waits>>,
    waited_before: WaitedBefore,
}

/// The microseconds of the waits of earlier requests.
#[derive(Default)]
struct WaitedBefore {
    transactions: AtomicU64,
    writes: AtomicU64,
    commits: AtomicU64,
}

fn blocked_by(holder: Holder) -> Blocked {
    match holder {
        Holder::Transaction => Blocked::Transaction,
        Holder::Write => Blocked::Write,
    }
}

/// Work that a running operation has done so far, as its interrupt checks report it. The totals at its end are in
/// `Done`.
#[derive(Default)]
struct Examined {
    keys: AtomicU64,
    docs: AtomicU64,
    yields: AtomicU64,
    conflicts: AtomicU64,
}

/// How often a running operation has taken the global lock so far, and its waits for it.
#[derive(Default)]
struct Locked {
    count: AtomicU64,
    waits: AtomicU64,
    wait_micros: AtomicU64,
}

impl Locked {
    fn reset(&self) {
        for counter in [&self.count, &self.waits, &self.wait_micros] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// `transactions`: each has passed the gate of its collection.
    fn used(&self, transactions: u64) -> LockUse {
        let global_count = self.count.load(Ordering::Relaxed);
        LockUse {
            global_count,
            wait_count: self.waits.load(Ordering::Relaxed),
            wait_micros: self.wait_micros.load(Ordering::Relaxed),
            collection_count: if global_count > 0 { transactions } else { 0 },
        }
    }
}

impl Examined {
    fn reset(&self) {
        for counter in [&self.keys, &self.docs, &self.yields, &self.conflicts] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// The operation whose request the thread runs.
struct Waiting {
    op: Weak<Op>,
    deadline: Option<Instant>,
}

thread_local! {
    static WAITING: RefCell<Waiting> = const { RefCell::new(Waiting { op: Weak::new(), deadline: None }) };
}

/// Returns false if the request of the calling thread was killed, timed out or lost its client.
pub(crate) fn may_wait() -> bool {
    WAITING.with_borrow(|waiting| {
        let Some(op) = waiting.op.upgrade().filter(|op| op.id() != 0) else { return true };
        let is_late = waiting.deadline.is_some_and(|deadline| clock::now() >= deadline);
        !is_late && op.check().is_ok() && op.check_peer().is_ok()
    })
}

/// Returns true if the client is still connected. Costs a system call.
pub(crate) type Probe = Box<dyn Fn() -> bool + Send + Sync>;

/// The driver's description of itself in its first hello.
#[derive(Debug)]
pub(crate) struct ClientMetadata {
    pub(crate) doc: DocBuf,
    pub(crate) app_name: String,
}

struct OpText {
    op: &'static str,
    namespace: String,
    command: Vec<u8>,
    /// The statement of a batch that it executes, and what is shown of it: nothing outside of batches.
    statement: Vec<u8>,
    statement_kind: Option<&'static Kind>,
    statement_namespace: String,
    plan_summary: String,
    message: String,
    progress: Option<(i64, i64)>,
    started: Instant,
    lsid: Option<SessionId>,
    queued_since: Option<Instant>,
    /// Time that the request has spent waiting for tickets so far.
    queued_micros: u64,
    /// When its wait for the lock of `fsync` began, and the mode in which it waits.
    lock_wait: Option<(LockMode, Instant)>,
}

impl OpText {
    /// The kind and the namespace of the statement that it executes, otherwise those of the command.
    fn what(&self) -> (&'static str, &str) {
        match self.statement_kind {
            Some(kind) => (kind.op, &self.statement_namespace),
            None => (self.op, &self.namespace),
        }
    }

    /// The statement that it executes, otherwise the command. The statement of a command that hides secrets may have
    /// some, too.
    fn shown(&self) -> Option<DocBuf> {
        let command = Doc::parse(&self.command).ok()?;
        let Some(kind) = self.statement_kind else { return Some(command.to_buf()) };
        let statement =
            describe(kind.fields, Doc::parse(&self.statement).ok()?, command.get("comment"));
        match self.statement_namespace.starts_with("admin.") {
            true => without_users_secrets(statement.as_doc()).or(Some(statement)),
            false => Some(statement),
        }
    }
}

/// Copies a command or a statement, cut if it is long.
fn copy_cut(out: &mut Vec<u8>, doc: Doc<'_>) {
    out.clear();
    if doc.len() <= OP_COMMAND_BYTES_MAX {
        out.extend_from_slice(doc.as_bytes());
    } else {
        write_cut(out, doc);
    }
}

/// A copy of a running operation, for currentOp.
pub(crate) struct OpView {
    pub(crate) id: u64,
    pub(crate) kill_pending: bool,
    pub(crate) op: &'static str,
    pub(crate) namespace: String,
    pub(crate) command: Option<DocBuf>,
    pub(crate) plan_summary: String,
    pub(crate) message: String,
    /// Units of work done, and their total.
    pub(crate) progress: Option<(i64, i64)>,
    pub(crate) running_micros: u64,
    pub(crate) started_ms: i64,
    pub(crate) lsid: Option<SessionId>,
    /// The time that it has been waiting for a ticket, if it waits.
    pub(crate) queued_micros: Option<u64>,
    /// It waits to write while the server is locked against writes, or to lock it, since so many microseconds.
    pub(crate) awaited_lock: Option<(LockMode, u64)>,
    /// It waits for a transaction, or another write, that holds a record or key which it needs.
    pub(crate) waiting_for: Option<Holder>,
    /// It waits for the storage engine to take its commit.
    pub(crate) waiting_for_disk: bool,
    pub(crate) keys_examined: u64,
    pub(crate) docs_examined: u64,
    pub(crate) yields: u64,
    pub(crate) write_conflicts: u64,
    /// The locks that it has taken so far.
    pub(crate) locks: LockUse,
}

impl Op {
    /// `sets_slices`: requests set the time slice of the thread on which they run.
    pub(crate) fn new(
        description: String,
        connection_id: i64,
        remote: String,
        sets_slices: bool,
    ) -> Arc<Op> {
        Arc::new(Op {
            id: AtomicU64::new(0),
            kill_code: AtomicI32::new(0),
            text: Mutex::new(OpText {
                op: "none",
                namespace: String::new(),
                command: Vec::new(),
                statement: Vec::new(),
                statement_kind: None,
                statement_namespace: String::new(),
                plan_summary: String::new(),
                message: String::new(),
                progress: None,
                started: clock::now(),
                lsid: None,
                queued_since: None,
                queued_micros: 0,
                lock_wait: None,
            }),
            description,
            connection_id,
            remote,
            client: Mutex::new(None),
            waits_for: Mutex::new(None),
            probe: OnceLock::new(),
            fail_points: OnceLock::new(),
            created: clock::now(),
            look_due: AtomicU64::new(u64::MAX),
            user: Mutex::new(None),
            profiled: AtomicBool::new(false),
            examined: Examined::default(),
            locked: Locked::default(),
            waits: OnceLock::new(),
            waited_before: WaitedBefore::default(),
            held: Held::new(),
            sets_slices,
        })
    }

    /// Makes waits for memory that have no interrupt check of their own check this operation, on the calling thread.
    pub(crate) fn watch_waits(self: &Arc<Op>, deadline: Option<Instant>) {
        WAITING.with_borrow_mut(|waiting| {
            // A thread has few connections one after the other, so the reference rarely changes.
            if !std::ptr::eq(waiting.op.as_ptr(), Arc::as_ptr(self)) {
                waiting.op = Arc::downgrade(self);
            }
            waiting.deadline = deadline;
        });
    }

    /// Registers a request of the calling thread. `id` is unique for the life of the server (modulo 2^31).
    pub(crate) fn begin(&self, id: u64, started: Instant, op: &'static str, command: Doc<'_>) {
        let mut text = self.text.lock();
        text.op = op;
        text.namespace.clear();
        text.plan_summary.clear();
        // A connection that is open for days must not keep what one request needed.
        text.namespace.shrink_to(KEPT_TEXT_BYTES);
        text.plan_summary.shrink_to(KEPT_TEXT_BYTES);
        text.message.clear();
        text.progress = None;
        copy_cut(&mut text.command, command);
        text.statement_kind = None;
        text.started = started;
        text.lsid = None;
        self.examined.reset();
        self.locked.reset();
        if let Some(waits) = self.waits.get() {
            let before = &self.waited_before;
            let conflicts = |holder| waits.conflicts.ended_micros(holder);
            before.transactions.store(conflicts(Holder::Transaction), Ordering::Relaxed);
            before.writes.store(conflicts(Holder::Write), Ordering::Relaxed);
            before.commits.store(waits.commits.ended_micros(), Ordering::Relaxed);
        }
        text.queued_micros = 0;
        self.kill_code.store(0, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        if self.sets_slices {
            timeslice::begin(started);
        }
    }

    /// Deregisters the request. Must be called by the thread that called [`Op::begin`].
    pub(crate) fn end(&self) {
        if self.sets_slices {
            timeslice::end();
        }
        self.id.store(0, Ordering::Relaxed);
        self.kill_code.store(0, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Sets the namespace of the request. A client chooses it, and the operation keeps its text: what no namespace can
    /// have is cut off.
    pub(crate) fn set_namespace(&self, db: &str, collection: &str) {
        let [db, collection] =
            [db, collection].map(|name| &name[..name.floor_char_boundary(Namespace::BYTES_MAX)]);
        let mut text = self.text.lock();
        text.namespace.clear();
        text.namespace.push_str(db);
        text.namespace.push('.');
        text.namespace.push_str(collection);
    }

    /// Sets the statement of a batch that it executes from now on. Drivers send them apart from the command, which
    /// would not tell what is running.
    pub(crate) fn set_statement(&self, kind: &'static Kind, ns: &Namespace, statement: Doc<'_>) {
        let mut text = self.text.lock();
        text.statement_kind = Some(kind);
        text.statement_namespace.clear();
        text.statement_namespace.push_str(ns.as_str());
        copy_cut(&mut text.statement, statement);
    }

    pub(crate) fn set_lsid(&self, lsid: SessionId) {
        self.text.lock().lsid = Some(lsid);
    }

    pub(crate) fn set_plan_summary(&self, summary: &str) {
        let mut text = self.text.lock();
        text.plan_summary.clear();
        text.plan_summary.push_str(summary);
    }

    /// Sets the message that tells what long work is doing.
    pub(crate) fn set_message(&self, message: &str) {
        let mut text = self.text.lock();
        text.message.clear();
        text.message.push_str(message);
    }

    /// As [`Op::set_message`], with the units done and their total.
    pub(crate) fn set_progress(&self, what: &str, done: i64, total: i64) {
        let percent = (done as f64 / total.max(1) as f64 * 100.0) as i64;
        self.set_message(&format!("{what}: {done}/{total} {percent}%"));
        self.text.lock().progress = Some((done, total));
    }

    pub(crate) fn namespace(&self) -> String {
        self.text.lock().namespace.clone()
    }

    /// The namespace of the statement that it executes, otherwise that of the command.
    pub(crate) fn current_namespace(&self) -> String {
        self.text.lock().what().1.to_owned()
    }

    pub(crate) fn plan_summary(&self) -> String {
        self.text.lock().plan_summary.clone()
    }

    /// The stored command (truncated if it was large).
    pub(crate) fn command(&self) -> DocBuf {
        Doc::trusted(&self.text.lock().command).to_buf()
    }

    pub(crate) fn set_client(&self, client: Arc<ClientMetadata>) {
        *self.client.lock() = Some(client);
    }

    pub(crate) fn client(&self) -> Option<Arc<ClientMetadata>> {
        self.client.lock().clone()
    }

    /// Sets the user that the connection is logged in as.
    pub(crate) fn set_user(&self, user: Option<UserName>) {
        *self.user.lock() = user;
    }

    pub(crate) fn user(&self) -> Option<UserName> {
        self.user.lock().clone()
    }

    /// Cancels the operation with `code` at its next interrupt check.
    pub(crate) fn kill(&self, code: Code) {
        // The code of the first kill is kept.
        let _ = self.kill_code.compare_exchange(0, code.0, Ordering::Relaxed, Ordering::Relaxed);
        if let Some(arrivals) = &*self.waits_for.lock() {
            arrivals.wake();
        }
    }

    pub(crate) fn set_probe(&self, probe: Probe) {
        // A connection has one socket: a second probe is ignored.
        let _ = self.probe.set(probe);
    }

    /// Lets a fail point cancel the operation.
    pub(crate) fn set_fail_points(&self, points: Arc<FailPoints>) {
        let _ = self.fail_points.set(points);
    }

    /// Turns the checks of the client on or off. They are off without a probe.
    pub(crate) fn watch_peer(&self, wanted: bool, now: Instant) {
        let due = match wanted && self.probe.get().is_some() {
            true => (now - self.created + PEER_LOOK).as_micros() as u64,
            false => u64::MAX,
        };
        self.look_due.store(due, Ordering::Relaxed);
    }

    /// Fails (279) if the client has disconnected. Reads the clock, and every [`PEER_LOOK`] checks the socket.
    pub(crate) fn check_peer(&self) -> Result<()> {
        let due = self.look_due.load(Ordering::Relaxed);
        let Some(probe) = self.probe.get().filter(|_| due != u64::MAX) else { return Ok(()) };
        let now = clock::micros_since(self.created);
        if now < due {
            return Ok(());
        }
        self.look_due.store(now + PEER_LOOK.as_micros() as u64, Ordering::Relaxed);
        if probe() { Ok(()) } else { Err(interruption(Code::CLIENT_DISCONNECT)) }
    }

    pub(crate) fn set_queued(&self, since: Option<Instant>) {
        let mut text = self.text.lock();
        if let Some(before) = text.queued_since {
            text.queued_micros += clock::micros_since(before);
        }
        text.queued_since = since;
    }

    /// Time that the request has spent waiting for tickets.
    pub(crate) fn queued_micros(&self) -> u64 {
        self.text.lock().queued_micros
    }

    /// Adds examined index keys and documents.
    pub(crate) fn add_examined(&self, keys: u64, docs: u64) {
        self.examined.keys.fetch_add(keys, Ordering::Relaxed);
        self.examined.docs.fetch_add(docs, Ordering::Relaxed);
    }

    /// The index keys and documents examined so far.
    pub(crate) fn examined(&self) -> (u64, u64) {
        (self.examined.keys.load(Ordering::Relaxed), self.examined.docs.load(Ordering::Relaxed))
    }

    /// Counts a release of its snapshot or transaction; `conflict` if a write conflict was the reason.
    pub(crate) fn add_yield(&self, conflict: bool) {
        self.examined.yields.fetch_add(1, Ordering::Relaxed);
        self.examined.conflicts.fetch_add(u64::from(conflict), Ordering::Relaxed);
    }

    pub(crate) fn set_profiled(&self, profiled: bool) {
        self.profiled.store(profiled, Ordering::Relaxed);
    }

    pub(crate) fn is_profiled(&self) -> bool {
        self.profiled.load(Ordering::Relaxed)
    }

    /// Sets the summary of the plan, which `write` appends to an empty string.
    pub(crate) fn put_plan_summary(&self, write: &dyn Fn(&mut String)) {
        let mut text = self.text.lock();
        text.plan_summary.clear();
        write(&mut text.plan_summary);
    }

    /// Counts that it has taken the global lock. For the thread of the request, so that plain loads and stores are
    /// enough.
    pub(crate) fn note_lock(&self) {
        add(&self.locked.count, 1);
    }

    /// Counts a wait for the global lock, also one that ended without it. As [`Op::note_lock`].
    pub(crate) fn note_lock_wait(&self, micros: u64) {
        add(&self.locked.waits, 1);
        add(&self.locked.wait_micros, micros);
    }

    /// Records since when it waits for the server to be unlocked for writes; `None`: it does not.
    pub(crate) fn set_waiting_for_lock(&self, since: Option<(LockMode, Instant)>) {
        self.text.lock().lock_wait = since;
    }

    pub(crate) fn set_waits(&self, waits: Arc<Waits>) {
        // A connection has one client of the store: a second one is ignored.
        let _ = self.waits.set(waits);
    }

    /// What its request waits for now, and for how long, in microseconds.
    pub(crate) fn blocked(&self) -> Option<(Blocked, u64)> {
        if self.id() == 0 {
            return None;
        }
        let wait = self.text.lock().lock_wait;
        let lock = wait.map(|(_, since)| (Blocked::Lock, clock::micros_since(since)));
        let waits = self.waits.get();
        let conflict = || waits?.conflicts.present();
        let commit = || waits?.commits.present_micros();
        lock.or_else(|| conflict().map(|(holder, micros)| (blocked_by(holder), micros)))
            .or_else(|| commit().map(|micros| (Blocked::Disk, micros)))
    }

    /// What its request has mostly waited for so far, and for how long, in microseconds.
    pub(crate) fn was_blocked(&self) -> (Blocked, u64) {
        let mut longest = (Blocked::Lock, self.locked.wait_micros.load(Ordering::Relaxed));
        let Some(waits) = self.waits.get() else { return longest };
        let before = &self.waited_before;
        let conflicts = |holder| (blocked_by(holder), waits.conflicts.ended_micros(holder));
        for ((what, all), before) in [
            (conflicts(Holder::Transaction), &before.transactions),
            (conflicts(Holder::Write), &before.writes),
            ((Blocked::Disk, waits.commits.ended_micros()), &before.commits),
        ] {
            let own = all.saturating_sub(before.load(Ordering::Relaxed));
            if own > longest.1 {
                longest = (what, own);
            }
        }
        longest
    }

    /// Waits at the end of a capped collection until `until`. Returns true if there was an insert. A kill ends the
    /// wait.
    pub(crate) fn wait_for(
        &self,
        arrivals: &Arc<Arrivals>,
        seen: u64,
        until: Instant,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        *self.waits_for.lock() = Some(arrivals.clone());
        let came = arrivals.wait_beyond(seen, until, interrupt);
        *self.waits_for.lock() = None;
        came
    }

    /// Fails if the operation was killed.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(points) = self.fail_points.get()
            && points.interrupts(&self.description)
        {
            self.kill(Code::INTERRUPTED);
        }
        match self.kill_code.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(interruption(Code(code))),
        }
    }

    /// A copy of the running request; `None` while idle.
    pub(crate) fn view(&self) -> Option<OpView> {
        let id = self.id();
        if id == 0 {
            return None;
        }
        let text = self.text.lock();
        let (op, namespace) = text.what();
        let waits = self.waits.get();
        let (keys_examined, docs_examined) = self.examined();
        let yields = self.examined.yields.load(Ordering::Relaxed);
        Some(OpView {
            id,
            kill_pending: self.kill_code.load(Ordering::Relaxed) != 0,
            op,
            namespace: namespace.to_owned(),
            command: text.shown(),
            plan_summary: text.plan_summary.clone(),
            message: text.message.clone(),
            progress: text.progress,
            running_micros: clock::micros_since(text.started),
            started_ms: clock::wall_ms() - (clock::micros_since(text.started) / 1000) as i64,
            lsid: text.lsid,
            queued_micros: text.queued_since.map(clock::micros_since),
            awaited_lock: text.lock_wait.map(|(mode, since)| (mode, clock::micros_since(since))),
            waiting_for: waits
                .and_then(|waits| waits.conflicts.present())
                .map(|(holder, _)| holder),
            waiting_for_disk: waits.is_some_and(|waits| waits.commits.present_micros().is_some()),
            keys_examined,
            docs_examined,
            yields,
            locks: self.locked.used(yields + 1),
            write_conflicts: self.examined.conflicts.load(Ordering::Relaxed),
        })
    }
}

/// Adds to a counter that only this thread changes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// The number of ids that a core reserves at once.
const ID_BLOCK: u64 = 64;

/// The operations of all connections and background jobs, and the source of their ids.
pub(crate) struct Ops {
    /// The next id of each core; a multiple of [`ID_BLOCK`] if its block is used up.
    next_id: PerCore<AtomicU64>,
    /// The start of the next block.
    next_block: AtomicU64,
    all: Mutex<Vec<Arc<Op>>>,
    /// Set once the server stops.
    pub(crate) stopping: AtomicBool,
}

impl Ops {
    pub(crate) fn new() -> Ops {
        Ops {
            next_id: PerCore::default(),
            next_block: AtomicU64::new(ID_BLOCK),
            all: Mutex::new(Vec::new()),
            stopping: AtomicBool::new(false),
        }
    }

    /// A new operation id within the range of `killOp`; ids repeat after 2^31 operations.
    pub(crate) fn next_id(&self) -> u64 {
        let next = self.next_id.own();
        let id = next.load(Ordering::Relaxed);
        if !id.is_multiple_of(ID_BLOCK)
            && next.compare_exchange(id, id + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return id & i32::MAX as u64;
        }
        note_shared("ids of operations", 1, 1);
        let first = self.next_block.fetch_add(ID_BLOCK, Ordering::Relaxed);
        // Another thread of this core may have reserved a block as well. Some ids are then skipped, but none is used
        // twice.
        next.store(first + 1, Ordering::Relaxed);
        first & i32::MAX as u64
    }

    pub(crate) fn register(&self, op: Arc<Op>) {
        self.all.lock().push(op);
    }

    pub(crate) fn forget(&self, op: &Arc<Op>) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, op));
    }

    pub(crate) fn all(&self) -> Vec<Arc<Op>> {
        self.all.lock().clone()
    }

    /// Calls `visit` with each operation. No operation can begin or end its connection meanwhile.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Op)) {
        self.all.lock().iter().for_each(|op| visit(op));
    }

    /// The user of the operation `id`; the outer `None` if there is no such operation.
    pub(crate) fn owner(&self, id: u64) -> Option<Option<UserName>> {
        let all = self.all.lock();
        all.iter().find(|op| op.id() == id && id != 0).map(|op| op.user())
    }

    /// Cancels the operation `id`. Returns true if it exists.
    pub(crate) fn kill(&self, id: u64, code: Code) -> bool {
        let all = self.all.lock();
        let found = all.iter().find(|op| op.id() == id && id != 0);
        found.inspect(|op| op.kill(code)).is_some()
    }

    /// Cancels every operation except the caller's.
    pub(crate) fn kill_all(&self, code: Code, except: Option<&Arc<Op>>) {
        for op in self.all.lock().iter() {
            if op.id() != 0 && except.is_none_or(|mine| !Arc::ptr_eq(mine, op)) {
                op.kill(code);
            }
        }
    }
}
