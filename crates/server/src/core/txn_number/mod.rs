//! Retryable writes and multi-document transactions: all commands that carry a session id and a transaction number.
//!
//! Dispatch calls [`run`] for every command with a `txnNumber`. The generic fields select the protocol:
//!
//! | fields of the command                    | meaning                                  | module     |
//! |------------------------------------------|------------------------------------------|------------|
//! | `lsid`, `txnNumber`                      | a retryable write                        | `retry.rs` |
//! | `lsid`, `txnNumber`, `autocommit: false` | a statement of a transaction, or its end | `run.rs`   |
//!
//! # Retryable writes
//!
//! A client that loses a reply cannot know if the write took effect. It therefore sends the command again with the same
//! session and transaction number, and the server must execute each statement only once. To do so, the server stores a
//! record of the executed statements in the same commit as their changes:
//!
//! ```text
//!  client                                    server
//!    | update [u0, u1], txnNumber 7            |
//!    |---------------------------------------->| commit 1: u0 + record (session, 7, statement 0)
//!    |                                         | commit 2: u1 + record (session, 7, statement 1)
//!    |        X <----------------- ok, n: 2 ---|   the connection breaks
//!    | update [u0, u1], txnNumber 7            |
//!    |---------------------------------------->| both statements have records: nothing is written,
//!    |<- ok, n: 2, retriedStmtIds: [0, 1] -----|   the reply is made from the records
//!    | update [u2], txnNumber 8                |
//!    |---------------------------------------->| commit 3: u2 + record (session, 8, statement 0)
//!    |                                         |           and the records of number 7 are deleted
//! ```
//!
//! After a crash between commits 1 and 2 only the record of statement 0 exists, and the retry executes statement 1.
//! A batch of inserts is written in one commit with one record of all its statements.
//!
//! # Transactions
//!
//! ```text
//!  number n, startTransaction ---> open -- commitTransaction --> committed    (repeating it succeeds again)
//!                                   |---- abortTransaction, any error,
//!                                   |     time limit, end of the session,
//!                                   |     greater number, DDL ------> aborted (251 from then on)
//! ```
//!
//! While a transaction is open, `Context::bound` is a store handle through which all reads and writes of its statements
//! belong to the transaction. The commit of a transaction with writes also stores a record (statement [`WHOLE`]), so a
//! repeated `commitTransaction` is recognized after a restart.
//!
//! A router may be told to commit what it does not know, because the transaction was open at another router, or at this
//! one before its restart. The replies of a transaction with writes therefore have a recovery token, which comes back
//! with the commit. Then the record decides; if there is none, the router stores one that says aborted. A commit that
//! is still on its way writes the same key, so only one of the two takes effect.
//!
//! # Concurrency
//!
//! Each session that has used a transaction number has a [`Slot`]. A command holds the lock of the slot's state while
//! it runs, so the commands of one session run one after another. A second mutex holds the open transaction: background
//! jobs use it to abort a transaction that is too old while one of its statements runs. The statement sees the abort
//! when it finishes.
//!
//! The user is a part of a session's identity ([`crate::session`]), so another user cannot continue or end what a
//! session has begun.
//!
//! Invariants
//! - The transaction number of a session never decreases (225).
//! - The records of an acknowledged write or commit are durable exactly when the write itself is: both are in one
//!   commit.
//!
//! See also docs/transactions.md.

mod head;
mod labels;
mod recovery;
mod retry;
mod rules;
mod run;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use foldhash::fast::RandomState;
use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_error::Result;
use nagi_store::{End, SessionKey, Store, Transaction};
use parking_lot::Mutex;

use crate::clock;
use crate::metrics::Latency;
use crate::op::{ClientMetadata, Op};
use crate::session::SessionId;

pub(crate) use labels::{add_labels, add_labels_unstarted, add_stream_labels, write_concern_label};
pub(crate) use retry::check_statements;
pub(crate) use retry::{
    Codec, Executed, any_executed, executed, in_one_snapshot, is_retryable, once, recorded,
    statement, statement_id, write_retried, write_retried_one,
};
pub(crate) use rules::{check, check_before_login};
pub(crate) use run::{abort, commit, run};

const SHARD_COUNT: usize = 16;

/// The `statement` of the record of a whole transaction.
const WHOLE: i32 = -1;

/// The slots of all sessions that have used a transaction number, and counters for `serverStatus`.
pub(crate) struct TxnSessions {
    shards: [Mutex<HashMap<SessionId, Arc<Slot>, RandomState>>; SHARD_COUNT],
    pub(crate) started: AtomicI64,
    pub(crate) committed: AtomicI64,
    pub(crate) aborted: AtomicI64,
    pub(crate) retried_commands: AtomicI64,
    pub(crate) retried_statements: AtomicI64,
    pub(crate) record_writes: AtomicI64,
    /// The number of finished transactions, and the time each was open.
    pub(crate) latency: Latency,
}

/// The state of one session that has used a transaction number.
#[derive(Default)]
pub(crate) struct Slot {
    /// Locked while a retryable write or a transaction statement of the session runs.
    state: Mutex<State>,
    /// The open transaction, for threads that abort it from outside (time limit, end of the session).
    open: Mutex<Option<Open>>,
}

struct Open {
    txn: Arc<Transaction>,
    number: i64,
    since: Instant,
    /// The level of the read concern that its first statement asked for.
    level: Option<Box<str>>,
    /// The time of the statements that have ended, and the beginning of one that runs.
    active_micros: u64,
    running_since: Option<Instant>,
    client: LastClient,
}

/// The client of the last statement of a transaction.
#[derive(Clone)]
pub(crate) struct LastClient {
    pub(crate) connection_id: i64,
    pub(crate) remote: Arc<str>,
    pub(crate) metadata: Option<Arc<ClientMetadata>>,
}

impl LastClient {
    fn of(op: &Op) -> LastClient {
        LastClient {
            connection_id: op.connection_id,
            remote: op.remote.as_str().into(),
            metadata: op.client(),
        }
    }
}

impl Open {
    /// A statement of a client begins.
    fn begin(&mut self, op: &Op) {
        self.running_since = Some(clock::now());
        // A transaction rarely changes its connection.
        if self.client.connection_id != op.connection_id {
            self.client = LastClient::of(op);
        }
    }

    /// The statement has ended.
    fn end(&mut self) {
        self.active_micros += self.running_since.take().map_or(0, clock::micros_since);
    }
}

/// An open transaction, as currentOp shows it.
pub(crate) struct OpenView {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    pub(crate) open_micros: u64,
    /// The time in which its statements ran.
    pub(crate) active_micros: u64,
    pub(crate) level: Option<Box<str>>,
    pub(crate) client: LastClient,
    /// True while a statement of the transaction runs.
    pub(crate) active: bool,
}

/// The protocol state of a session.
struct State {
    /// True if the session's records were read from the store.
    loaded: bool,
    /// The greatest transaction number used; -1 before the first.
    number: i64,
    phase: Phase,
    /// Keys of the session's records in the store, of the current number and of older ones.
    records: Vec<SessionKey>,
    /// The transaction of this number has written.
    has_written: bool,
    /// The outcome of the commit of this number is unknown.
    is_undecided: bool,
    /// The number of the last retryable write, and the stamp and term of its entry in the log; none after a start.
    last: Option<(i64, (u64, i64))>,
}

enum Phase {
    /// The number is unused or belongs to retryable writes.
    Writes,
    Open(Arc<Transaction>),
    Committed,
    Aborted,
}

impl Default for State {
    fn default() -> State {
        State {
            loaded: false,
            number: -1,
            phase: Phase::Writes,
            records: Vec::new(),
            has_written: false,
            is_undecided: false,
            last: None,
        }
    }
}

/// The session state of the running command. It is moved out of the slot while the command runs.
pub(crate) struct Scope {
    session: SessionId,
    number: i64,
    slot: Arc<Slot>,
    state: State,
    /// Results of this command's statements that an earlier attempt executed, by statement id.
    executed: HashMap<i32, DocBuf, RandomState>,
    /// Ids of the statements that were answered from `executed`.
    retried: Vec<i32>,
    /// Ids of the statements that this command has executed.
    recorded: Vec<i32>,
    /// A commit has met the record of another router.
    has_moved: bool,
}

impl TxnSessions {
    pub(crate) fn new() -> TxnSessions {
        let zero = || AtomicI64::new(0);
        TxnSessions {
            shards: std::array::from_fn(|_| Mutex::default()),
            started: zero(),
            committed: zero(),
            aborted: zero(),
            retried_commands: zero(),
            retried_statements: zero(),
            record_writes: zero(),
            latency: Latency::default(),
        }
    }

    fn shard(&self, id: &SessionId) -> &Mutex<HashMap<SessionId, Arc<Slot>, RandomState>> {
        &self.shards[usize::from(id.id[15]) % SHARD_COUNT]
    }

    fn slot(&self, id: &SessionId) -> Arc<Slot> {
        let mut shard = self.shard(id).lock();
        let slot = shard.entry(*id).or_default();
        Arc::clone(slot)
    }

    /// Aborts the open transaction of a session that is ended, and forgets the session's slot. The records stay in the
    /// store until they expire, because the client may come back.
    pub(crate) fn end(&self, id: &SessionId) {
        let slot = self.shard(id).lock().remove(id);
        if let Some(slot) = slot {
            self.end_open(&slot);
        }
    }

    /// The number of sessions with a transaction number.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Lists the open transactions, for currentOp.
    pub(crate) fn open_transactions(&self) -> Vec<OpenView> {
        let mut views = Vec::new();
        for shard in &self.shards {
            let slots: Vec<_> = shard.lock().iter().map(|(id, s)| (*id, Arc::clone(s))).collect();
            for (session, slot) in slots {
                let open = slot.open.lock();
                views.extend(open.as_ref().map(|open| OpenView {
                    session,
                    number: open.number,
                    open_micros: clock::micros_since(open.since),
                    active_micros: open.active_micros
                        + open.running_since.map_or(0, clock::micros_since),
                    level: open.level.clone(),
                    client: open.client.clone(),
                    active: slot.state.is_locked(),
                }));
            }
        }
        views
    }

    /// Aborts the transactions begun before `begun_before` and returns their number.
    pub(crate) fn expire(&self, begun_before: Instant) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let slots: Vec<_> = shard.lock().values().cloned().collect();
            for slot in slots {
                let old = slot.open.lock().as_ref().is_some_and(|open| open.since < begun_before);
                if old {
                    self.end_open(&slot);
                    count += 1;
                }
            }
        }
        count
    }

    fn end_open(&self, slot: &Slot) {
        if let Some(open) = slot.open.lock().take() {
            open.txn.end(End::Aborted);
            count(&self.aborted);
            self.latency.record(clock::micros_since(open.since));
        }
    }

    /// Counts the transaction of a slot as committed.
    fn committed(&self, slot: &Slot) {
        if let Some(open) = slot.open.lock().take() {
            count(&self.committed);
            self.latency.record(clock::micros_since(open.since));
        }
    }
}

/// Deletes the records older than `before_ms` whose sessions `is_live` does not know, and returns their number. Records
/// of earlier versions do not tell their user; only their age counts.
pub(crate) fn sweep_records(
    store: &Store,
    before_ms: i64,
    is_live: &dyn Fn(&SessionId) -> bool,
) -> Result<usize> {
    store.delete_session_records(&mut |key, doc| {
        let old = matches!(doc.get("d"), Value::DateTime(ms) if ms < before_ms);
        let session = key.user.map(|uid| SessionId { id: key.session, uid });
        old && !session.is_some_and(|session| is_live(&session))
    })
}

/// The record of a committed transaction.
fn committed_record() -> DocBuf {
    doc! { "state": "committed", "d": (Value::DateTime(clock::wall_ms())) }
}

/// The record that decides that a transaction is aborted.
fn aborted_record() -> DocBuf {
    doc! { "state": "aborted", "d": (Value::DateTime(clock::wall_ms())) }
}

/// Returns true for the record of a committed transaction.
fn is_committed(record: Doc<'_>) -> bool {
    record.get("state").as_str() == Some("committed")
}

/// The key of a record of the running command.
fn record_key(scope: &Scope, statement: i32) -> SessionKey {
    let SessionId { id, uid } = scope.session;
    SessionKey { session: id, user: Some(uid), number: scope.number, statement }
}

fn count(counter: &AtomicI64) {
    counter.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nagi_store::{StoreOptions, WriteOptions};

    use super::*;

    #[test]
    fn old_records_of_dead_sessions_are_swept() {
        let engine = Arc::new(nagi_kv::Memory::new());
        let store = Store::open(engine, StoreOptions::default()).unwrap();
        let user = |of: u8| Some([of; 32]).filter(|_| of > 0);
        let key = |session: u8, of: u8| SessionKey {
            session: [session; 16],
            user: user(of),
            number: 1,
            statement: WHOLE,
        };
        // The last one is a record of an earlier version, of a session that is live.
        for (session, of, date) in [(1, 1, 10), (2, 1, 10), (2, 2, 10), (3, 1, 30), (2, 0, 10)] {
            let record = doc! { "d": (Value::DateTime(date)) };
            let put = store.write(WriteOptions::default(), &mut |txn| {
                txn.put_session_record(&key(session, of), record.as_doc())
            });
            put.unwrap();
        }
        let live = SessionId { id: [2; 16], uid: [1; 32] };
        let swept = sweep_records(&store, 20, &|session| *session == live).unwrap();
        let left =
            |session: u8, of: u8| store.session_records(&[session; 16], &[of; 32]).unwrap().len();
        assert_eq!((swept, left(1, 1), left(2, 1), left(2, 2), left(3, 1)), (3, 0, 1, 0, 1));
    }
}
