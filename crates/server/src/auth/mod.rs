//! Authentication and authorization: users, roles and privileges, and the logins of connections.
//!
//!   saslStart, saslContinue --> Conversation (sasl)  --> Login in the connection
//!   authenticate            --> certificate of the TLS handshake --> Login in the connection
//!   users of a directory    --> roles by their groups            --> Login in the connection  (directory_users)
//!   a token's Login         --> ends when the token does: 391, until the client logs in again  (tokens)
//!   each command: row's Access --> Asking --> PrivilegeSet of the login          (crate::core::access)
//!   createUser, ... --> documents in admin.system.users, admin.system.roles --> generation + 1
//!
//! A login *resolves* its user: it reads the roles of the user, the roles that those contain, and all their
//! privileges, and arranges them for checks. The login keeps the result and the generation in which it was read;
//! a cache shares the result between connections of the same user. Each request compares that generation to the
//! newest one, and resolves the user again only if any user or role has changed:
//!
//!   connection A                    connection B                        generation
//!   logs in, resolves its user                                          7
//!   find: 7 = 7, checks privileges                                      7
//!                                   revokeRolesFromUser, commits, then  8
//!   find: 7 < 8, resolves again,                                        8
//!         refused (13)
//!
//! Without `--auth` the check of a request is one load.
//!
//! Invariants
//! - Passwords and the messages of a conversation appear in no log, in no `currentOp` and in no profile.
//! - Code that changes a document of a user or role calls [`Auth::changed`] after the commit. The order
//!   matters: a user that is resolved between the two counts as stale.
//! - Neither replies nor their timing reveal whether a user exists (see `decoys`).

mod action;
pub(crate) mod builtin;
mod counters;
mod decoys;
mod directory_users;
pub(crate) mod documents;
pub(crate) mod failures;
mod login_client;
mod privilege;
pub(crate) mod restrictions;
pub(crate) mod roles;
pub(crate) mod sasl;
pub(crate) mod scram;
pub(crate) mod tokens;
pub(crate) mod users;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use nagi_error::Result;
use nagi_store::Store;
use parking_lot::{Mutex, MutexGuard};

use crate::directory::Directory;
pub(crate) use crate::names::{RoleName, UserName, parse_roles, write_roles};
use crate::settings::params::Parameters;
pub(crate) use action::{Action, ActionSet};
pub(crate) use counters::{By, X509};
use decoys::Decoys;
pub(crate) use directory_users::{DirectoryUser, DirectoryUsers};
pub use login_client::LoginClient;
pub(crate) use privilege::{
    PrivilegeSet, Privileges, Resource, Target, parse_all as parse_privileges,
    write_all as write_privileges,
};
pub(crate) use users::User;

/// The number of resolved users in the cache. When it is full, the cache is cleared.
const CACHED_COUNT_MAX: usize = 10_000;

/// The shared state of authentication and authorization.
pub(crate) struct Auth {
    enabled: bool,
    store: Arc<Store>,
    params: Arc<Parameters>,
    /// Grows with each change of a user or role.
    generation: AtomicU64,
    cache: Mutex<Cache>,
    /// True after a user or role was seen: the localhost exception no longer applies.
    users_seen: AtomicBool,
    /// The key of decoys while there are no users.
    secret: [u8; 16],
    decoys: Mutex<Option<Arc<Decoys>>>,
    pub(crate) failures: failures::Failures,
    pub(crate) logins: counters::Logins,
    /// The users of a directory (LDAP).
    pub(crate) directory: DirectoryUsers,
    pub(crate) tokens: tokens::Tokens,
    /// Held by commands that change users or roles, so that their checks and writes are atomic.
    changing: Mutex<()>,
}

#[derive(Default)]
struct Cache {
    generation: u64,
    users: HashMap<UserName, Arc<User>, RandomState>,
}

impl Auth {
    pub(crate) fn new(
        enabled: bool,
        store: Arc<Store>,
        params: Arc<Parameters>,
        secret: [u8; 16],
        directory: Option<Arc<dyn Directory>>,
        tokens: tokens::Tokens,
    ) -> Auth {
        Auth {
            directory: DirectoryUsers::new(params.clone(), directory),
            enabled,
            store,
            params,
            generation: AtomicU64::new(1),
            cache: Mutex::default(),
            users_seen: AtomicBool::new(false),
            secret,
            decoys: Mutex::default(),
            failures: failures::Failures::default(),
            logins: counters::Logins::default(),
            tokens,
            changing: Mutex::new(()),
        }
    }

    /// Returns true if requests require privileges.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Invalidates all resolved users. Called after the commit of a change to a user or role.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn secret(&self) -> &[u8; 16] {
        &self.secret
    }

    /// The data for decoys of the current generation. Reads the users again if they have changed.
    pub(crate) fn decoys(&self) -> Result<Arc<Decoys>> {
        let generation = self.generation();
        if let Some(decoys) = self.decoys.lock().as_ref().filter(|d| d.generation == generation) {
            return Ok(decoys.clone());
        }
        let made = Arc::new(Decoys::new(self, generation)?);
        *self.decoys.lock() = Some(made.clone());
        Ok(made)
    }

    /// Makes the caller the only one that changes users and roles until the guard is dropped.
    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// The resolved user, from the cache or from its documents; `None` if there is none.
    pub(crate) fn user(&self, name: &UserName) -> Result<Option<Arc<User>>> {
        let generation = self.generation();
        {
            let mut cache = self.cache.lock();
            if cache.generation != generation {
                cache.users.clear();
                cache.generation = generation;
            }
            if let Some(user) = cache.users.get(name) {
                return Ok(Some(user.clone()));
            }
        }
        let Some(user) = users::resolve(&self.store, name)? else { return Ok(None) };
        let user = Arc::new(user);
        let mut cache = self.cache.lock();
        if cache.generation == generation && self.generation() == generation {
            if cache.users.len() >= CACHED_COUNT_MAX {
                cache.users.clear();
            }
            cache.users.insert(name.clone(), user.clone());
        }
        Ok(Some(user))
    }

    /// A user with the roles of its certificate, its groups or its token instead of those of its document, which need
    /// not exist. Not cached: each may have others.
    pub(crate) fn user_with_roles(&self, name: &UserName, roles: &[RoleName]) -> Result<Arc<User>> {
        users::with_roles(&self.store, name, roles).map(Arc::new)
    }

    /// Returns true if there is any user or role. Reads one document of each until the first one is seen, then
    /// nothing.
    pub(crate) fn has_users(&self) -> Result<bool> {
        if self.users_seen.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let mut seen = false;
        for kind in [documents::Kind::Users, documents::Kind::Roles] {
            documents::each(&self.store, kind, &mut |_| {
                seen = true;
                Ok(false)
            })?;
        }
        if seen {
            self.users_seen.store(true, Ordering::Relaxed);
        }
        Ok(seen)
    }
}
