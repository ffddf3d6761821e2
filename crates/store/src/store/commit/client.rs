//! The client of a store handle: a connection, a transaction, or the server itself.

use std::sync::Arc;

use nagi_kv::CommitStamp;
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
};

use crate::store::{commit::waits::CommitWaits, conflict_waits::ConflictWaits};
use crate::{Collection, Namespace, Store};

/// The collections of users and roles: whatever command changes them, the audit log tells of it, and logins are
/// resolved again.
const USERS_AND_ROLES: [&str; 2] = ["admin.system.users", "admin.system.roles"];

/// The store's view of a client.
#[derive(Default)]
pub struct Client {
    /// The stamp of the newest commit of the current request; zero before the first commit.
    committed: AtomicU64,
    statement: Mutex<Option<Statement>>,
    /// The term of the newest entry of a statement in the change log.
    logged_term: AtomicI64,
    /// Its changes of the catalog since they were last taken; `None` if they are not noted.
    catalog_changes: Mutex<Option<Vec<CatalogChange>>>,
    /// The positions in [`USERS_AND_ROLES`] of collections that its commits changed since they were last taken, as
    /// bits.
    users_changed: AtomicU64,
    /// The version of documents that servers have in memory which its commits have written, until all nodes know it;
    /// 0 for none.
    settings: AtomicU64,
    waits: Arc<Waits>,
}

/// What the writes of a client wait for.
#[derive(Default)]
pub struct Waits {
    /// Transactions of others.
    pub conflicts: ConflictWaits,
    /// The engine, which is to take a commit.
    pub commits: CommitWaits,
}

impl Client {
    /// What its writes wait for.
    pub fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    pub(crate) fn conflict_waits(&self) -> &ConflictWaits {
        &self.waits.conflicts
    }
}

/// A committed change of the catalog, as the audit log needs it.
#[derive(Clone)]
pub enum CatalogChange {
    /// A collection or view with its indexes: created (no `before`), modified or renamed, or dropped (no `after`).
    Collection {
        before: Option<Arc<Collection>>,
        after: Option<Arc<Collection>>,
        /// It is the first one of its database.
        is_first: bool,
    },
    /// A database, after all its collections.
    DatabaseDropped(String),
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

    /// Notes the client's changes of the catalog from now on. Each is kept until [`Client::take_catalog_changes`].
    pub fn note_catalog_changes(&self) {
        self.catalog_changes.lock().get_or_insert_default();
    }

    /// The noted changes since the last call, in the order of their commits. It takes an uncontended lock.
    pub fn take_catalog_changes(&self) -> Vec<CatalogChange> {
        self.catalog_changes.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn notes_catalog_changes(&self) -> bool {
        self.catalog_changes.lock().is_some()
    }

    /// Adds changes that were committed through another handle. They are dropped if this client's are not noted.
    pub fn note_catalog(&self, changes: Vec<CatalogChange>) {
        if let Some(noted) = &mut *self.catalog_changes.lock() {
            noted.extend(changes);
        }
    }

    /// Notes a commit that changed this collection: its documents, or the collection itself.
    pub(crate) fn note_changed(&self, namespace: &Namespace) {
        // Almost every name differs in its length already.
        let at = USERS_AND_ROLES.iter().position(|name| *name == namespace.as_str());
        if let Some(at) = at {
            self.users_changed.fetch_or(1 << at, SeqCst);
        }
    }

    /// The collections of users and roles that commits of this client have changed since the last call. Without a
    /// change it costs a load.
    pub fn take_changed_users(&self) -> impl Iterator<Item = &'static str> + use<> {
        let bits = match self.users_changed.load(SeqCst) {
            0 => 0,
            _ => self.users_changed.swap(0, SeqCst),
        };
        USERS_AND_ROLES
            .into_iter()
            .enumerate()
            .filter(move |(at, _)| bits & (1 << at) != 0)
            .map(|(_, name)| name)
    }

    /// Adds what [`Client::take_changed_users`] of another client has returned.
    pub fn note_changed_users(&self, names: impl Iterator<Item = &'static str>) {
        for name in names {
            if let Some(at) = USERS_AND_ROLES.iter().position(|known| *known == name) {
                self.users_changed.fetch_or(1 << at, SeqCst);
            }
        }
    }

    /// Notes the version of documents that servers have in memory, which a commit has written.
    pub(crate) fn note_settings(&self, version: u64) {
        self.settings.fetch_max(version, SeqCst);
    }

    /// That version, unless all nodes know it.
    pub(crate) fn settings(&self) -> Option<u64> {
        Some(self.settings.load(SeqCst)).filter(|version| *version > 0)
    }

    /// All nodes know this version.
    pub(crate) fn forget_settings(&self, version: u64) {
        // A later one is of another thread that uses the handle, which waits for it.
        let _ = self.settings.compare_exchange(version, 0, SeqCst, SeqCst);
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
