//! Sessions and transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, DocWriter};

use crate::scope::{Scope, SessionId, TransactionId, write_journaled};
use crate::{Database, NamedDatabase, Result};

/// How long [`Session::with_transaction`] tries again, as in MongoDB's drivers.
const RETRY: Duration = Duration::from_secs(120);

/// A session, in which one transaction after the other may run. Dropping it ends the transaction and its cursors.
///
/// ```
/// use nagi::{Database, Options, doc};
/// let db = Database::in_memory_with(Options::new().replica_set("rs0"))?;
/// let accounts = db.database("bank").collection("accounts");
/// accounts.insert_many([doc! { "_id": "a", "n": 10 }, doc! { "_id": "b", "n": 0 }])?;
/// let mut session = db.start_session();
/// session.with_transaction(|transaction| {
///     let accounts = transaction.database("bank").collection("accounts");
///     accounts.update_one(doc! { "_id": "a" }, doc! { "$inc": { "n": -3 } })?;
///     accounts.update_one(doc! { "_id": "b" }, doc! { "$inc": { "n": 3 } })?;
///     Ok(())
/// })?;
/// assert_eq!(accounts.find_one(doc! { "_id": "b" })?.unwrap().get("n"), nagi::Value::Int32(3));
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    db: Database,
    id: SessionId,
    /// The number of the last transaction.
    number: i64,
}

impl Database {
    /// Starts a session, which transactions need.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// let session = db.start_session();
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn start_session(&self) -> Session {
        Session::new(self)
    }
}

impl Session {
    pub(crate) fn new(db: &Database) -> Session {
        let mut id = [0; 16];
        if getrandom::fill(&mut id).is_err() {
            // Without randomness: an id that is unique within this process.
            id[..12].copy_from_slice(&db.next_oid());
        }
        // The bits of a random UUID.
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
        Session { db: db.clone(), id: SessionId(id), number: 0 }
    }

    /// A database within the session, outside of a transaction.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// let session = db.start_session();
    /// session.database("shop").collection("orders").insert_one(nagi::doc! {})?;
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn database(&self, name: &str) -> NamedDatabase {
        let scope = Scope { session: Some(self.id), ..Scope::plain(&self.db) };
        NamedDatabase::new(scope, name)
    }

    /// Starts a transaction, which is aborted when it is dropped before [`Transaction::commit`]. The session's previous
    /// transaction has ended: the borrow rules see to it.
    ///
    /// ```
    /// # use nagi::{Database, Options, doc};
    /// # let db = Database::in_memory_with(Options::new().replica_set("rs0"))?;
    /// let mut session = db.start_session();
    /// let transaction = session.start_transaction();
    /// transaction.database("shop").collection("orders").insert_one(doc! { "_id": 1 })?;
    /// drop(transaction);
    /// assert_eq!(db.database("shop").collection("orders").count(doc! {})?, 0);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn start_transaction(&mut self) -> Transaction<'_> {
        self.number += 1;
        let id = TransactionId {
            session: self.id,
            number: self.number,
            started: AtomicBool::new(false),
        };
        let scope = Scope {
            session: Some(self.id),
            transaction: Some(Arc::new(id)),
            ..Scope::plain(&self.db)
        };
        Transaction { scope, ended: false, _session: std::marker::PhantomData }
    }

    /// Runs `work` in a transaction and commits it. If the transaction fails for a reason that may pass, such as a
    /// conflict with another one, `work` runs again, for up to 120 seconds in all; so it must have no other effects.
    /// Returns what `work` returned.
    ///
    /// # Errors
    /// The error of `work`, after which the transaction is aborted, or of the commit.
    pub fn with_transaction<T>(
        &mut self,
        mut work: impl FnMut(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let begin = Instant::now();
        loop {
            let mut transaction = self.start_transaction();
            let done = work(&transaction);
            let ended = match done {
                Ok(value) => transaction.commit_until(begin + RETRY).map(|()| value),
                Err(error) => Err(error),
            };
            drop(transaction);
            match ended {
                Err(error)
                    if error.has_label("TransientTransactionError") && begin.elapsed() < RETRY => {}
                other => return other,
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let command = DocBuf::build(|out| {
            out.array("endSessions", |out| out.doc(|out| self.id.write_id(out)));
        });
        // A closed database has no sessions.
        let _ = self.db.run("admin", command.as_doc(), None);
    }
}

/// A transaction: its reads see one snapshot and its own writes, and its writes take effect together or not at all.
///
/// Handles that come from [`Transaction::database`] belong to it. After 60 seconds
/// (parameter `transactionLifetimeLimitSeconds`) it is aborted. Dropping it aborts it.
#[derive(Debug)]
pub struct Transaction<'s> {
    scope: Scope,
    ended: bool,
    _session: std::marker::PhantomData<&'s mut Session>,
}

impl Transaction<'_> {
    /// A database within the transaction.
    pub fn database(&self, name: &str) -> NamedDatabase {
        NamedDatabase::new(self.scope.clone(), name)
    }

    /// Commits the transaction.
    ///
    /// ```
    /// # use nagi::{Database, Options, doc};
    /// # let db = Database::in_memory_with(Options::new().replica_set("rs0"))?;
    /// let mut session = db.start_session();
    /// let transaction = session.start_transaction();
    /// transaction.database("shop").collection("orders").insert_one(doc! { "_id": 1 })?;
    /// transaction.commit()?;
    /// assert_eq!(db.database("shop").collection("orders").count(doc! {})?, 1);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// 251 if it was aborted meanwhile; after an error with the label `UnknownTransactionCommitResult` it may be
    /// committed or not.
    pub fn commit(mut self) -> Result<()> {
        self.commit_until(Instant::now() + RETRY)
    }

    /// Aborts the transaction, as dropping it does.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory_with(nagi::Options::new().replica_set("rs0"))?;
    /// let mut session = db.start_session();
    /// session.start_transaction().abort()?;
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// 251 if it was aborted already.
    pub fn abort(mut self) -> Result<()> {
        self.ended = true;
        self.end("abortTransaction", false)
    }

    fn commit_until(&mut self, until: Instant) -> Result<()> {
        self.ended = true;
        loop {
            match self.end("commitTransaction", self.scope.journaled) {
                Err(error)
                    if error.has_label("UnknownTransactionCommitResult")
                        && Instant::now() < until => {}
                ended => return ended,
            }
        }
    }

    /// Runs the command that ends the transaction; one without commands has not begun.
    fn end(&self, command: &str, journaled: bool) -> Result<()> {
        let begun = |id: &Arc<TransactionId>| id.started.load(Ordering::Relaxed);
        if !self.scope.transaction.as_ref().is_some_and(begun) {
            return Ok(());
        }
        let body = |out: &mut DocWriter<'_>| {
            out.put(command, 1);
            if journaled {
                write_journaled(out);
            }
        };
        self.scope.read("admin", body).map(drop)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // It is aborted in any case, or a failed command has aborted it.
            let _ = self.end("abortTransaction", false);
        }
    }
}
