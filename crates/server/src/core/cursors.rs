//! Open client cursors between batches: ids, owners, idle timeouts, kills.
//!
//! A cursor is either parked in the table or checked out by the command that fills a batch:
//!
//! ```text
//!  find -- park --> Idle -- take (getMore) --> Busy -- exhausted, error: finish --> gone
//!                   |  ^                       |  |
//!                   |  +------ put_back -------+  +-- kill: its command is interrupted;
//!                   |                                 the mark makes put_back remove it --> gone
//!                   +-- kill, idle timeout --> gone
//! ```
//!
//! While the cursor is checked out, its entry stays in the table as [`State::Busy`]: a second getMore is refused
//! (143), and a kill reaches the running command.
//!
//! Invariants
//! - A parked cursor holds no snapshot of the engine.
//! - Its memory is charged to the budget for as long as it exists.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use nagi_bson::DocBuf;
use nagi_budget::Charge;
use nagi_error::{Code, Result, bail};
use parking_lot::Mutex;

use crate::clock;
use crate::core::access::Asking;
use crate::core::needs::Needs;
use crate::core::producer::Producer;
use crate::limits::{CURSOR_BYTES_MIN, CURSOR_COUNT_MAX, CURSOR_IDLE_MIN_MS};
use crate::metrics::lifespans::Lifespans;
use crate::names::UserName;
use crate::op::Op;
use crate::query_stats::Pending;
use crate::session::SessionId;

const SHARD_COUNT: usize = 16;
/// The minimum interval between two sweeps of idle cursors.
const SWEEP_EACH_MS: u64 = 1000;

/// A cursor as the command sees it that has checked it out.
pub(crate) struct OpenCursor {
    pub(crate) id: i64,
    pub(crate) producer: Producer,
    /// `db.collection`, as replies name it.
    pub(crate) namespace: String,
    pub(crate) session: Option<SessionId>,
    /// The number of the transaction that it was opened in.
    pub(crate) txn_number: Option<i64>,
    /// The user that opened it; only that user may continue it.
    pub(crate) owner: Option<UserName>,
    /// The privileges with which it was opened.
    pub(crate) needs: Needs,
    pub(crate) no_timeout: bool,
    pub(crate) tailable: bool,
    pub(crate) await_data: bool,
    pub(crate) returned_count: u64,
    pub(crate) batch_count: u64,
    pub(crate) created_ms: i64,
    /// The command that opened it, for currentOp and the log of slow operations.
    pub(crate) originating: Arc<DocBuf>,
    pub(crate) plan_summary: Arc<str>,
    /// A client with Queryable Encryption opened it: no getMore of it is logged or profiled.
    pub(crate) encrypted: bool,
    /// The remaining part of the `maxTimeMS` of the command that opened it.
    pub(crate) time_left: Option<Duration>,
    /// The Stable API arguments that it was opened with; a getMore must have the same.
    pub(crate) api: Api,
    /// Query statistics of the query; `None` if they are not recorded.
    pub(crate) query_stats: Option<Box<Pending>>,
    /// The memory that it keeps between two requests.
    pub(crate) charge: Charge,
}

/// What currentOp tells of a cursor.
#[derive(Debug, Clone)]
pub(crate) struct CursorFacts {
    pub(crate) id: i64,
    pub(crate) created_ms: i64,
    pub(crate) returned_count: u64,
    pub(crate) batch_count: u64,
    pub(crate) no_timeout: bool,
    pub(crate) tailable: bool,
    pub(crate) await_data: bool,
    pub(crate) originating: Arc<DocBuf>,
    pub(crate) plan_summary: Arc<str>,
}

impl OpenCursor {
    pub(crate) fn facts(&self) -> CursorFacts {
        CursorFacts {
            id: self.id,
            created_ms: self.created_ms,
            returned_count: self.returned_count,
            batch_count: self.batch_count,
            no_timeout: self.no_timeout,
            tailable: self.tailable,
            await_data: self.await_data,
            originating: Arc::clone(&self.originating),
            plan_summary: Arc::clone(&self.plan_summary),
        }
    }
}

/// Stable API arguments, as stored with a cursor.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Api {
    pub(crate) version: Option<String>,
    pub(crate) strict: bool,
    pub(crate) deprecation_errors: bool,
}

/// The table's entry of a cursor, both while it is parked and while it is checked out.
struct Entry {
    namespace: String,
    session: Option<SessionId>,
    txn_number: Option<i64>,
    owner: Option<UserName>,
    no_timeout: bool,
    created_ms: i64,
    last_used_ms: i64,
    returned_count: u64,
    state: State,
}

enum State {
    Idle(Box<OpenCursor>),
    /// `facts`: of the cursor when it was checked out.
    Busy {
        op: Arc<Op>,
        killed: bool,
        facts: CursorFacts,
    },
}

/// The outcome of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killed {
    Done,
    NotFound,
}

type Shard = Mutex<HashMap<i64, Entry, RandomState>>;

/// The table of open cursors.
#[derive(Default)]
pub(crate) struct Cursors {
    shards: [Shard; SHARD_COUNT],
    ids: Ids,
    /// When idle cursors were last closed to free memory.
    swept_ms: AtomicI64,
    /// How long the closed ones were open.
    pub(crate) lifespans: Lifespans,
}

/// The generator of cursor ids: a counter under a keyed hash whose key is random. Known ids therefore do not reveal
/// other ids.
#[derive(Default)]
struct Ids {
    next: AtomicU64,
    keyed: std::hash::RandomState,
}

impl Cursors {
    fn shard(&self, id: i64) -> &Shard {
        &self.shards[id as usize % SHARD_COUNT]
    }

    /// A new positive id that cannot be guessed from other ids.
    fn new_id(&self) -> i64 {
        loop {
            let number = self.ids.next.fetch_add(1, Ordering::Relaxed);
            let id = (self.ids.keyed.hash_one(number) >> 1) as i64;
            if id != 0 && !self.shard(id).lock().contains_key(&id) {
                return id;
            }
        }
    }

    /// Parks a new cursor and assigns its id.
    pub(crate) fn park(&self, mut cursor: Box<OpenCursor>) -> Result<i64> {
        if self.count() >= CURSOR_COUNT_MAX {
            bail!(
                Code::EXCEEDED_MEMORY_LIMIT,
                "too many open cursors; the limit is {CURSOR_COUNT_MAX}"
            );
        }
        let id = self.new_id();
        cursor.id = id;
        cursor.producer.save();
        let entry = Entry {
            namespace: cursor.namespace.clone(),
            session: cursor.session,
            txn_number: cursor.txn_number,
            owner: cursor.owner.clone(),
            no_timeout: cursor.no_timeout,
            created_ms: cursor.created_ms,
            last_used_ms: clock::wall_ms(),
            returned_count: cursor.returned_count,
            state: State::Idle(cursor),
        };
        self.shard(id).lock().insert(id, entry);
        Ok(id)
    }

    /// Charges the memory that a cursor keeps until its next batch. If the budget has no capacity, cursors that have
    /// been idle for long are closed first.
    ///
    /// # Errors
    /// 146 if there is still no capacity.
    pub(crate) fn charge(&self, cursor: &mut OpenCursor, bytes: u64) -> Result<()> {
        let bytes = bytes.max(CURSOR_BYTES_MIN);
        cursor.charge.shrink_to(bytes);
        if cursor.charge.try_cover(bytes, 1)
            || self.make_room() && cursor.charge.try_cover(bytes, 1)
        {
            return Ok(());
        }
        cursor.charge.note_refused();
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "no memory for another open cursor: {} are open. Cursors that are not needed any more should \
             be closed",
            self.count()
        );
    }

    /// Closes the cursors that have been idle for long, at most once in [`SWEEP_EACH_MS`]: a flood of new cursors
    /// leaves no more idle ones to find. Returns true if it closed any.
    fn make_room(&self) -> bool {
        let now = clock::wall_ms();
        let before = self.swept_ms.load(Ordering::Relaxed);
        if now.abs_diff(before) < SWEEP_EACH_MS {
            return false;
        }
        let mine =
            self.swept_ms.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
        mine.is_ok() && self.expire(now - CURSOR_IDLE_MIN_MS) > 0
    }

    /// Checks out a cursor for a getMore. Codes 43, 13, 143, 50736-50738, and those of [`check_transaction`].
    pub(crate) fn take(
        &self,
        id: i64,
        namespace: &str,
        (session, txn_number): (Option<SessionId>, Option<i64>),
        asking: &Asking<'_>,
        op: &Arc<Op>,
    ) -> Result<Box<OpenCursor>> {
        let mut shard = self.shard(id).lock();
        let Some(entry) = shard.get_mut(&id) else {
            bail!(Code::CURSOR_NOT_FOUND, "cursor id {id} not found");
        };
        if entry.namespace != namespace {
            bail!(
                Code::UNAUTHORIZED,
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different \
                 namespace {}",
                entry.namespace
            );
        }
        if !asking.owns(entry.owner.as_ref()) {
            bail!(Code::UNAUTHORIZED, "cursor id {id} was not created by the authenticated user");
        }
        check_session(id, entry.session, session)?;
        check_transaction(id, entry.txn_number, txn_number)?;
        entry.last_used_ms = clock::wall_ms();
        let State::Idle(cursor) = &entry.state else {
            bail!(Code::CURSOR_IN_USE, "cursor id {id} is already in use")
        };
        let busy = State::Busy { op: op.clone(), killed: false, facts: cursor.facts() };
        match std::mem::replace(&mut entry.state, busy) {
            State::Idle(cursor) => Ok(cursor),
            State::Busy { .. } => bail!(Code::INTERNAL_ERROR, "cursor id {id} is in use"),
        }
    }

    /// Parks a checked-out cursor again. Returns false if it was killed in the meantime.
    pub(crate) fn put_back(&self, mut cursor: Box<OpenCursor>) -> bool {
        cursor.producer.save();
        let id = cursor.id;
        let mut shard = self.shard(id).lock();
        match shard.get_mut(&id) {
            Some(entry) if matches!(entry.state, State::Busy { killed: false, .. }) => {
                entry.last_used_ms = clock::wall_ms();
                entry.returned_count = cursor.returned_count;
                entry.state = State::Idle(cursor);
                true
            }
            _ => {
                let entry = shard.remove(&id);
                self.note_closed(entry);
                false
            }
        }
    }

    /// Removes a checked-out cursor that is exhausted or has failed.
    pub(crate) fn finish(&self, id: i64) {
        let entry = self.shard(id).lock().remove(&id);
        self.note_closed(entry);
    }

    fn note_closed(&self, entry: Option<Entry>) {
        if let Some(entry) = entry {
            self.lifespans.record(clock::wall_ms() - entry.created_ms);
        }
    }

    /// Returns the namespace and the owner of a cursor.
    pub(crate) fn owner(&self, id: i64) -> Option<(String, Option<UserName>)> {
        let shard = self.shard(id).lock();
        shard.get(&id).map(|entry| (entry.namespace.clone(), entry.owner.clone()))
    }

    /// Kills a cursor; with `namespace`, only if the cursor belongs to it.
    pub(crate) fn kill(&self, id: i64, namespace: Option<&str>) -> Killed {
        let mut shard = self.shard(id).lock();
        match shard.get_mut(&id) {
            Some(entry) if namespace.is_none_or(|ns| ns == entry.namespace) => {
                if let State::Busy { op, killed, .. } = &mut entry.state {
                    *killed = true;
                    op.kill(Code::CURSOR_KILLED);
                } else {
                    let entry = shard.remove(&id);
                    self.note_closed(entry);
                }
                Killed::Done
            }
            _ => Killed::NotFound,
        }
    }

    /// Kills all cursors that `choose` selects and returns their number. Commands that have one checked out fail with
    /// `code`.
    fn kill_where(&self, code: Code, mut choose: impl FnMut(&Entry) -> bool) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            shard.lock().retain(|_, entry| {
                if !choose(entry) {
                    return true;
                }
                count += 1;
                match &mut entry.state {
                    State::Idle(_) => {
                        self.lifespans.record(clock::wall_ms() - entry.created_ms);
                        false
                    }
                    State::Busy { op, killed, .. } => {
                        *killed = true;
                        op.kill(code);
                        true
                    }
                }
            });
        }
        count
    }

    /// Closes the idle cursors not used since `before_ms` and returns their number.
    pub(crate) fn expire(&self, before_ms: i64) -> usize {
        self.kill_where(Code::CURSOR_KILLED, |entry| {
            matches!(entry.state, State::Idle(_))
                && !entry.no_timeout
                && entry.last_used_ms < before_ms
        })
    }

    /// Kills the cursors of a session.
    pub(crate) fn end_session(&self, session: &SessionId) -> usize {
        self.kill_where(Code::CURSOR_KILLED, |entry| entry.session.as_ref() == Some(session))
    }

    /// Kills the cursors of a transaction.
    pub(crate) fn end_transaction(&self, session: &SessionId, txn_number: i64) -> usize {
        self.kill_where(Code::CURSOR_KILLED, |entry| {
            entry.txn_number == Some(txn_number) && entry.session.as_ref() == Some(session)
        })
    }

    /// Kills all cursors when the server stops.
    pub(crate) fn clear(&self) {
        self.kill_where(Code::INTERRUPTED_AT_SHUTDOWN, |_| true);
    }

    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The numbers of open cursors, of busy ones and of those without a timeout, for `serverStatus`.
    pub(crate) fn counts(&self) -> (i64, i64, i64) {
        let mut counts = (0, 0, 0);
        for shard in &self.shards {
            for entry in shard.lock().values() {
                counts.0 += 1;
                counts.1 += i64::from(matches!(entry.state, State::Busy { .. }));
                counts.2 += i64::from(entry.no_timeout);
            }
        }
        counts
    }

    /// The number of documents that a cursor has returned so far, for the `startingFrom` of OP_REPLY.
    pub(crate) fn returned(&self, id: i64) -> i32 {
        let shard = self.shard(id).lock();
        shard.get(&id).map_or(0, |entry| i32::try_from(entry.returned_count).unwrap_or(i32::MAX))
    }

    /// Calls `visit` with each idle cursor and its last use, for currentOp.
    pub(crate) fn visit_idle(&self, visit: &mut dyn FnMut(&OpenCursor, i64)) {
        for shard in &self.shards {
            for entry in shard.lock().values() {
                if let State::Idle(cursor) = &entry.state {
                    visit(cursor, entry.last_used_ms);
                }
            }
        }
    }

    /// The cursors that operations have checked out, and when they did.
    pub(crate) fn busy(&self) -> Vec<(Arc<Op>, CursorFacts, i64)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            for entry in shard.lock().values() {
                if let State::Busy { op, facts, .. } = &entry.state {
                    found.push((op.clone(), facts.clone(), entry.last_used_ms));
                }
            }
        }
        found
    }
}

/// Checks that a cursor is read in the transaction that it was opened in. Codes 50740, 50741.
fn check_transaction(id: i64, owner: Option<i64>, asks: Option<i64>) -> Result<()> {
    match (owner, asks) {
        _ if owner == asks => Ok(()),
        (Some(_), None) => bail!(
            Code::Location(50740),
            "Cannot run getMore on cursor {id}, which was created in a transaction, outside of it"
        ),
        _ => bail!(
            Code::Location(50741),
            "Cannot run getMore on cursor {id}, which was not created in this transaction"
        ),
    }
}

fn check_session(id: i64, owner: Option<SessionId>, asks: Option<SessionId>) -> Result<()> {
    match (owner, asks) {
        (None, None) => Ok(()),
        (Some(a), Some(b)) if a == b => Ok(()),
        (None, Some(asks)) => bail!(
            Code::Location(50736),
            "Cannot run getMore on cursor {id}, which was not created in a session, in session {asks}"
        ),
        (Some(owner), None) => bail!(
            Code::Location(50737),
            "Cannot run getMore on cursor {id}, which was created in session {owner}, without an lsid"
        ),
        (Some(owner), Some(asks)) => bail!(
            Code::Location(50738),
            "Cannot run getMore on cursor {id}, which was created in session {owner}, in session \
             {asks}"
        ),
    }
}
