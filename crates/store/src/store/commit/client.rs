//! The client of a store handle: a connection, a transaction, or the server itself.

use std::sync::Arc;

use nagi_kv::CommitStamp;
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
};

use crate::Store;

/// The store's view of a client.
#[derive(Default)]
pub struct Client {
    /// The stamp of the newest commit of the current request; zero before the first commit.
    committed: AtomicU64,
    statement: Mutex<Option<Statement>>,
    /// The term of the newest entry of a statement in the change log.
    logged_term: AtomicI64,
}

/// The statement of a session that is being executed: a retryable write, or a statement of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The UUID of the session.
    pub session: [u8; 16],
    /// The digest of its user, as in `lsid.uid`.
    pub user: [u8; 32],
    /// `txnNumber`.
    pub number: i64,
    /// `stmtId`; -1 in a transaction.
    pub id: i32,
    /// Of a retryable write: stamp and term of the session's entry before, of the same number.
    pub before: Option<(u64, i64)>,
}

impl Client {
    /// Marks the beginning of a request.
    pub fn begin_request(&self) {
        self.committed.store(0, SeqCst);
    }

    /// The stamp of the newest commit of the current request: `operationTime` of a write.
    pub fn committed(&self) -> Option<CommitStamp> {
        Some(CommitStamp(self.committed.load(SeqCst))).filter(|stamp| stamp.0 > 0)
    }

    /// Records a commit of this client, possibly made through another handle.
    pub fn note_commit(&self, stamp: CommitStamp) {
        self.committed.fetch_max(stamp.0, SeqCst);
    }

    /// The statement that is being executed; `None` outside retryable writes and transactions.
    pub fn statement(&self) -> Option<Statement> {
        *self.statement.lock()
    }

    /// The term of the newest entry that a statement of this client has in the change log; 0 before the first.
    pub fn logged_term(&self) -> i64 {
        self.logged_term.load(SeqCst)
    }

    pub(crate) fn note_logged_term(&self, term: i64) {
        self.logged_term.store(term, SeqCst);
    }

    pub fn set_statement(&self, statement: Option<Statement>) {
        *self.statement.lock() = statement;
    }
}

impl Store {
    /// A new handle with its own client.
    pub fn for_client(&self) -> Arc<Store> {
        Arc::new(Store {
            shared: Arc::clone(&self.shared),
            bound: self.bound.clone(),
            client: Arc::default(),
        })
    }

    /// The client of this handle.
    pub fn client(&self) -> &Client {
        &self.client
    }
}
