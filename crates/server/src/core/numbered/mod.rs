//! Numbered commands: transactions of clients, and writes that are done once however often they come.
//!
//!   lsid + txnNumber                       one retryable write: executed statements are answered from
//!                                          the session's records                          (retry.rs)
//!   lsid + txnNumber + autocommit: false   a statement of a transaction, or its end       (run.rs)
//!
//! Each session that has used a number has a slot. A numbered command takes the slot's state out while
//! it runs, so the commands of one session follow one another. Whose a session is, is known to
//! [`crate::session`] alone: a command with another user's session is refused before it comes here.
//!
//! ```text
//!   number n, startTransaction ---> open -- commitTransaction --> committed    (again: answered again)
//!                                    |---- abortTransaction, any error,
//!                                    |     time limit, end of the session,
//!                                    |     greater number, DDL ------> aborted (251 from then on)
//! ```
//!
//! Invariants
//! - A session's number never shrinks (225).
//! - What an acknowledged write or commit left in the session's records is there after a crash with
//!   the write itself, and gone with it.

mod labels;
mod retry;
mod rules;
mod run;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use foldhash::fast::RandomState;
use nagi_bson::{DocBuf, Value, doc};
use nagi_error::Result;
use nagi_store::{End, SessionKey, Store, Transaction};
use parking_lot::Mutex;

use crate::clock;
use crate::metrics::Latency;
use crate::session::SessionId;

pub(crate) use labels::{add_labels, add_labels_unstarted, write_concern_label};
pub(crate) use retry::check_statements;
pub(crate) use retry::{
    Codec, executed, is_retryable, once, recorded, statement, statement_id, write_retried,
    write_retried_one,
};
pub(crate) use rules::check;
pub(crate) use run::{abort, commit, run};

const SHARD_COUNT: usize = 16;

/// `statement` of the record of a whole transaction.
const WHOLE: i32 = -1;

/// The slots of all sessions that have used a number, and counters for `serverStatus`.
pub(crate) struct NumberedSessions {
    shards: [Mutex<HashMap<SessionId, Arc<Slot>, RandomState>>; SHARD_COUNT],
    pub(crate) started: AtomicI64,
    pub(crate) committed: AtomicI64,
    pub(crate) aborted: AtomicI64,
    pub(crate) retried_commands: AtomicI64,
    pub(crate) retried_statements: AtomicI64,
    pub(crate) record_writes: AtomicI64,
    /// Transactions that have ended, and how long they were open.
    pub(crate) latency: Latency,
}

/// A session's place.
#[derive(Default)]
pub(crate) struct Slot {
    /// Locked while a numbered command of the session runs.
    state: Mutex<State>,
    /// The open transaction, for those who end it from outside.
    open: Mutex<Option<Open>>,
}

struct Open {
    txn: Arc<Transaction>,
    number: i64,
    since: Instant,
}

/// An open transaction, as currentOp shows it.
pub(crate) struct OpenView {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    pub(crate) open_micros: u64,
    /// A statement of it is running.
    pub(crate) active: bool,
}

/// What a session has come to.
struct State {
    /// The records of the store have been looked at.
    loaded: bool,
    /// The greatest number used; -1 before the first.
    number: i64,
    phase: Phase,
    /// Records of the session, of its number and of older ones.
    records: Vec<SessionKey>,
}

enum Phase {
    /// Nothing, or retryable writes.
    Writes,
    Open(Arc<Transaction>),
    Committed,
    Aborted,
}

impl Default for State {
    fn default() -> State {
        State { loaded: false, number: -1, phase: Phase::Writes, records: Vec::new() }
    }
}

/// The numbered command that runs: its session's state, out of the slot meanwhile.
pub(crate) struct Scope {
    session: SessionId,
    number: i64,
    slot: Arc<Slot>,
    state: State,
    /// Statements of this command that were executed by an earlier attempt.
    executed: HashMap<i32, DocBuf, RandomState>,
    /// Statements answered from there.
    retried: Vec<i32>,
}

impl NumberedSessions {
    pub(crate) fn new() -> NumberedSessions {
        let zero = || AtomicI64::new(0);
        NumberedSessions {
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
        &self.shards[usize::from(id[15]) % SHARD_COUNT]
    }

    fn slot(&self, id: &SessionId) -> Arc<Slot> {
        let mut shard = self.shard(id).lock();
        let slot = shard.entry(*id).or_default();
        Arc::clone(slot)
    }

    /// Ends the transaction of a session that ends, and forgets the session. Its records stay until
    /// they are too old: a client may come back.
    pub(crate) fn end(&self, id: &SessionId) {
        let slot = self.shard(id).lock().remove(id);
        if let Some(slot) = slot {
            self.end_open(&slot);
        }
    }

    /// The open transactions.
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
                    active: slot.state.is_locked(),
                }));
            }
        }
        views
    }

    /// Ends the transactions begun before `begun_before`; how many.
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

    /// The transaction of a slot is committed.
    fn committed(&self, slot: &Slot) {
        if let Some(open) = slot.open.lock().take() {
            count(&self.committed);
            self.latency.record(clock::micros_since(open.since));
        }
    }
}

/// Forgets the records of sessions that were not used since `before_ms` and that `is_live` does not
/// know; how many.
pub(crate) fn sweep_records(
    store: &Store,
    before_ms: i64,
    is_live: &dyn Fn(&SessionId) -> bool,
) -> Result<usize> {
    store.delete_session_records(&mut |key, doc| {
        let old = matches!(doc.get("d"), Value::DateTime(ms) if ms < before_ms);
        old && !is_live(&key.session)
    })
}

/// What is kept of a committed transaction.
fn committed_record() -> DocBuf {
    doc! { "state": "committed", "d": (Value::DateTime(clock::wall_ms())) }
}

/// The session as messages show it.
pub(crate) fn shown(session: &SessionId) -> String {
    nagi_store::Uuid(*session).to_string()
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
        let key = |session: u8| SessionKey { session: [session; 16], number: 1, statement: WHOLE };
        for (session, date) in [(1, 10), (2, 10), (3, 30)] {
            let record = doc! { "d": (Value::DateTime(date)) };
            let put = store.write(WriteOptions::default(), &mut |txn| {
                txn.put_session_record(&key(session), record.as_doc())
            });
            put.unwrap();
        }
        let swept = sweep_records(&store, 20, &|session| session[0] == 2).unwrap();
        let left = |session: u8| store.session_records(&[session; 16]).unwrap().len();
        assert_eq!((swept, left(1), left(2), left(3)), (1, 0, 1, 1));
    }
}
