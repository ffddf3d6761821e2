//! Who a client is and what it may do.
//!
//!   saslStart, saslContinue --> Conversation (scram) --> Login in the connection
//!   each command: row's Access --> Asking --> PrivilegeSet of the login          (crate::core::access)
//!   createUser, ... --> documents in admin.system.users, admin.system.roles --> generation + 1
//!
//! A login holds its user's resolved privileges and the generation they are of; a request compares
//! two numbers, and resolves again only when a user or role has changed since. Without `--auth` a
//! request costs one load.
//!
//! Invariants
//! - Passwords and messages of a conversation reach neither log, currentOp nor profile.
//! - Whoever changes a user or role document calls [`Auth::changed`] after the commit.

mod action;
pub(crate) mod builtin;
mod counters;
mod decoys;
pub(crate) mod documents;
pub(crate) mod failures;
mod login_client;
mod privilege;
pub(crate) mod restrictions;
pub(crate) mod roles;
pub(crate) mod sasl;
pub(crate) mod scram;
pub(crate) mod users;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use nagi_error::Result;
use nagi_store::Store;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use crate::names::{UserName, parse_roles, write_roles};
use crate::settings::params::Parameters;
pub(crate) use action::{Action, ActionSet};
use decoys::Decoys;
pub use login_client::LoginClient;
pub(crate) use privilege::{
    PrivilegeSet, Privileges, Resource, Target, parse_all as parse_privileges,
    write_all as write_privileges,
};
pub(crate) use users::User;

/// Resolved users that are kept; beyond it they are forgotten and resolved anew.
const CACHED_COUNT_MAX: usize = 10_000;

/// The shared state of authentication and authorization.
pub(crate) struct Auth {
    enabled: bool,
    /// Grows with every change of a user or role.
    store: Arc<Store>,
    params: Arc<Parameters>,
    generation: AtomicU64,
    cache: Mutex<Cache>,
    /// A user or role was seen: the localhost exception is over.
    users_seen: AtomicBool,
    /// Keys decoys until there are users.
    secret: [u8; 16],
    decoys: Mutex<Option<Arc<Decoys>>>,
    pub(crate) failures: failures::Failures,
    pub(crate) logins: counters::Logins,
    /// Held by commands that change users or roles: they check and write as one.
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
    ) -> Auth {
        Auth {
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
            changing: Mutex::new(()),
        }
    }

    /// Whether requests need privileges.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A user or role has changed: what was resolved is stale.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn secret(&self) -> &[u8; 16] {
        &self.secret
    }

    /// How to make up users; looks at the users anew when they have changed.
    pub(crate) fn decoys(&self) -> Result<Arc<Decoys>> {
        let generation = self.generation();
        if let Some(decoys) = self.decoys.lock().as_ref().filter(|d| d.generation == generation) {
            return Ok(decoys.clone());
        }
        let made = Arc::new(Decoys::new(self, generation)?);
        *self.decoys.lock() = Some(made.clone());
        Ok(made)
    }

    /// One change of users and roles at a time.
    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// The user with what it may do, from the cache or from the documents; `None` if there is none.
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

    /// Whether there is any user or role. A scan of one document until the first is seen.
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
