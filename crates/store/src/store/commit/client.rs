//! On whose behalf a handle of the store writes: a connection, a transaction, or the server itself.

use std::sync::Arc;

use nagi_kv::CommitStamp;
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use crate::Store;

/// A client as the store knows it.
#[derive(Default)]
pub struct Client {
    /// The stamp of the newest commit of its request; zero before the first.
    committed: AtomicU64,
    statement: Mutex<Option<Statement>>,
}

/// The statement of a session that is being executed: a retryable write, or one of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The UUID of the session.
    pub session: [u8; 16],
    /// `txnNumber`.
    pub number: i64,
    /// `stmtId`; -1 in a transaction.
    pub id: i32,
}

impl Client {
    /// A new request begins.
    pub fn begin_request(&self) {
        self.committed.store(0, SeqCst);
    }

    /// The stamp of the newest commit that its request made: `operationTime` of a write.
    pub fn committed(&self) -> Option<CommitStamp> {
        Some(CommitStamp(self.committed.load(SeqCst))).filter(|stamp| stamp.0 > 0)
    }

    /// It has made a commit, perhaps through another handle.
    pub fn note_commit(&self, stamp: CommitStamp) {
        self.committed.fetch_max(stamp.0, SeqCst);
    }

    /// What it executes at the moment; none outside retryable writes and transactions.
    pub fn statement(&self) -> Option<Statement> {
        *self.statement.lock()
    }

    pub fn set_statement(&self, statement: Option<Statement>) {
        *self.statement.lock() = statement;
    }
}

impl Store {
    /// A handle for another client.
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
