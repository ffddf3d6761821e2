//! The directory: passwords are checked and groups are found by the configured servers.
//!
//! ```text
//!   authenticate(user, password)          groups(user)
//!        | userToDNMapping: a name, or a query that finds it
//!        v                                     v
//!   bind as that name                     authz.queryTemplate: a query
//!        \___________________________________/
//!              | a slot; a connection of the pool, or a new one
//!              v
//!        the first server that answers
//! ```
//! All of it has one deadline. A server that does not answer gets its share of the time, so that others have theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nagi_server::{Directory, DirectoryError, DirectorySetting, DirectoryStatus};
use nagi_tls::{ClientFiles, Connector};
use parking_lot::{Mutex, RwLock};

use crate::connection::{Connection, Failure};
use crate::hosts::{self, Host};
use crate::mapping::Mapped;
use crate::message::{Entry, Outcome, code, code_name};
use crate::pool::{Pool, Purpose};
use crate::query::Search;
use crate::settings::{LdapOptions, PASSWORD_BYTES_MAX, Settings};
use crate::slots::Slots;

/// The longest distinguished name, in bytes: a name and a password fit into one request.
const NAME_BYTES_MAX: usize = 8192;

/// An LDAP directory.
pub struct Ldap {
    current: RwLock<Arc<Current>>,
    pub(crate) tls: Option<Connector>,
    slots: Slots,
    pub(crate) pool: Pool,
    binds: Counted,
    searches: Counted,
    /// Held while a setting is changed.
    changing: Mutex<()>,
}

/// The settings, and the servers that they name.
pub(crate) struct Current {
    pub(crate) settings: Settings,
    pub(crate) hosts: Vec<Arc<Host>>,
}

/// A number of operations, and their time.
#[derive(Default)]
struct Counted {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Counted {
    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        done
    }

    fn get(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.micros.load(Ordering::Relaxed))
    }
}

impl Current {
    fn new(settings: Settings) -> Arc<Current> {
        let hosts = settings.servers.iter().cloned().map(Host::new).collect();
        Arc::new(Current { settings, hosts })
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.options.timeout_ms)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout()
    }
}

impl Ldap {
    /// Checks the options, and reads the file of authorities. Connects to no server.
    ///
    /// # Errors
    /// A text that names the option.
    pub fn new(options: LdapOptions) -> Result<Ldap, String> {
        let tls = match options.tls {
            true => Some(Connector::new(&ClientFiles {
                ca_file: options.ca_file.clone(),
                ..ClientFiles::default()
            })?),
            false => None,
        };
        let (slots, pool) = (Slots::new(options.concurrent_max), Pool::new(options.idle_time));
        let current = RwLock::new(Current::new(Settings::new(options)?));
        let (binds, searches) = (Counted::default(), Counted::default());
        Ok(Ldap { current, tls, slots, pool, binds, searches, changing: Mutex::default() })
    }

    /// Connects to a server and logs in as the user of queries (`validateLDAPServerConfig`).
    ///
    /// # Errors
    /// Why no server can be used.
    pub fn validate(&self) -> Result<(), String> {
        let current = self.current();
        let done = self.with_server(&current, Purpose::Query, current.deadline(), &mut |_| Ok(()));
        done.map_err(|failure| describe(&failure))
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.read().clone()
    }

    /// Runs a request on the first server that answers.
    fn with_server<T>(
        &self,
        current: &Current,
        purpose: Purpose,
        deadline: Instant,
        request: &mut dyn FnMut(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(_slot) = self.slots.take(deadline) else {
            return Err(Failure::Network(
                "too many requests wait for the LDAP servers (ldapConcurrentRequestsMax)".into(),
            ));
        };
        let mut last = Failure::Network("the time is over".to_owned());
        for _ in 0..=current.settings.options.retry_count {
            let order = hosts::in_order(&current.hosts);
            for (index, host) in order.iter().enumerate() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(last);
                }
                // The servers that remain share the time.
                let share = left / u32::try_from(order.len() - index).unwrap_or(1).max(1);
                let until = Instant::now() + share;
                match self.on_host(current, host, purpose, until, request) {
                    Err(Failure::Network(why)) => {
                        // It may be sound if this request had waited for others and had little time left.
                        if left * 2 >= current.timeout() {
                            host.failed();
                        }
                        log::warn!(target: "ACCESS", id = 8_200_220, host = host.address.shown(),
                            error = why.as_str(); "An LDAP server did not answer as it should");
                        last = Failure::Network(format!("{}: {why}", host.address.shown()));
                    }
                    done => {
                        host.works();
                        return done;
                    }
                }
            }
        }
        Err(last)
    }

    /// Runs a request on a server. A connection that was kept may have been closed by the server since, so that a new
    /// one is tried after it.
    fn on_host<T>(
        &self,
        current: &Current,
        host: &Arc<Host>,
        purpose: Purpose,
        deadline: Instant,
        request: &mut dyn FnMut(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(mut kept) = self.pool.take(host, purpose) {
            kept.set_deadline(deadline);
            match request(&mut kept) {
                Err(Failure::Network(_)) => {}
                done => {
                    self.keep(host, purpose, kept, &done);
                    return done;
                }
            }
        }
        let addresses = host.addresses(deadline)?;
        let name = &host.address.host;
        let mut fresh = Connection::open(name, &addresses, self.tls.as_ref(), deadline)?;
        host.opened();
        let options = &current.settings.options;
        if purpose == Purpose::Query && !options.query_user.is_empty() {
            self.binds.time(|| fresh.bind(&options.query_user, &options.query_password)).map_err(
                |failure| match failure {
                    Failure::Answer(outcome) if !is_network(outcome.code) => Failure::TooMuch(
                        format!("the login of the user of queries failed: {}", described(&outcome)),
                    ),
                    Failure::Answer(outcome) => Failure::Network(described(&outcome)),
                    other => other,
                },
            )?;
        }
        let done = request(&mut fresh);
        self.keep(host, purpose, fresh, &done);
        done
    }

    /// Keeps a connection for other requests, if the last one was answered as it should.
    fn keep<T>(
        &self,
        host: &Arc<Host>,
        purpose: Purpose,
        connection: Connection,
        done: &Result<T, Failure>,
    ) {
        match done {
            Ok(_) | Err(Failure::Answer(_)) => self.pool.put(host, purpose, connection),
            Err(Failure::Network(_) | Failure::TooMuch(_)) => {}
        }
    }

    fn search(
        &self,
        current: &Current,
        search: &Search,
        deadline: Instant,
    ) -> Result<Vec<Entry>, Failure> {
        self.with_server(current, Purpose::Query, deadline, &mut |connection| {
            let left = deadline.saturating_duration_since(Instant::now());
            let found = self.searches.time(|| connection.search(search, left));
            found.map_err(as_network)
        })
    }

    /// The distinguished name of a user; `None` if a query finds none.
    pub(crate) fn name_of(
        &self,
        current: &Current,
        user: &str,
        deadline: Instant,
    ) -> Result<Option<String>, DirectoryError> {
        let search = match current.settings.mapping.apply(user).map_err(DirectoryError::Refused)? {
            Mapped::Name(name) => return Ok(Some(name)),
            Mapped::Search(search) => search,
        };
        let entries = match self.search(current, &search, deadline) {
            Err(Failure::Answer(outcome)) if outcome.code == code::NO_SUCH_OBJECT => Vec::new(),
            found => found.map_err(|failure| searching(&search, &failure))?,
        };
        let mut names = entries.into_iter().flat_map(|entry| entry.found_by(&search));
        match (names.next(), names.next()) {
            (None, _) => Ok(None),
            (name, None) => Ok(name),
            (Some(_), Some(_)) => Err(DirectoryError::Refused(
                "the query of userToDNMapping finds several entries for the user".to_owned(),
            )),
        }
    }
}

impl Directory for Ldap {
    fn authenticate(&self, user: &str, password: &str) -> Result<(), DirectoryError> {
        let refused = |why: &str| Err(DirectoryError::Refused(why.to_owned()));
        // Servers take a name without a password for an anonymous login, and say that it succeeded (RFC 4513, 5.1.2).
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return refused("the password is empty or too long");
        }
        let current = self.current();
        let deadline = current.deadline();
        let Some(name) = self.name_of(&current, user, deadline)? else {
            return refused("the query of userToDNMapping finds no entry for the user");
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return refused("the distinguished name of the user is empty or too long");
        }
        let bound = self.with_server(&current, Purpose::Bind, deadline, &mut |connection| {
            self.binds.time(|| connection.bind(&name, password)).map_err(as_network)
        });
        match bound {
            Ok(()) => Ok(()),
            Err(Failure::Answer(outcome)) if is_refusal(outcome.code) => {
                Err(DirectoryError::Refused(format!("LDAP bind failed: {}", described(&outcome))))
            }
            Err(failure) => Err(DirectoryError::Unavailable(describe(&failure))),
        }
    }

    fn gives_roles(&self) -> bool {
        self.current.read().settings.template.is_some()
    }

    fn groups(&self, user: &str) -> Result<Option<Vec<String>>, DirectoryError> {
        let current = self.current();
        let Some(template) = &current.settings.template else { return Ok(None) };
        let deadline = current.deadline();
        let name = match self.name_of(&current, user, deadline) {
            Ok(Some(name)) => name,
            // No rule, or no entry: the user is not, or no longer, in the directory.
            Ok(None) | Err(DirectoryError::Refused(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let search = template.fill(&[&name, user]);
        match self.search(&current, &search, deadline) {
            Ok(entries) => Ok(Some(groups_of(entries, &search))),
            Err(Failure::Answer(outcome))
                if search.is_of_user
                    && [code::NO_SUCH_OBJECT, code::INVALID_DN].contains(&outcome.code) =>
            {
                Ok(None)
            }
            Err(failure) => Err(searching(&search, &failure)),
        }
    }

    fn set(&self, setting: DirectorySetting, value: &str) -> Result<(), String> {
        let _one = self.changing.lock();
        let now = self.current();
        let settings = now.settings.with(setting, value)?;
        let hosts_stay = settings.servers == now.settings.servers;
        let changed = match hosts_stay {
            true => Arc::new(Current { settings, hosts: now.hosts.clone() }),
            false => Current::new(settings),
        };
        *self.current.write() = changed;
        // Kept connections are logged in as the user of before, or lead to other servers.
        self.pool.clear();
        Ok(())
    }

    fn shown(&self, setting: DirectorySetting) -> String {
        self.current.read().settings.shown(setting)
    }

    fn close_unused(&self) {
        self.pool.expire();
    }

    fn status(&self) -> DirectoryStatus {
        let (running_count, waiting_count, crowded_out_count) = self.slots.counts();
        let (bind_count, bind_micros) = self.binds.get();
        let (search_count, search_micros) = self.searches.get();
        DirectoryStatus {
            servers: self.current().hosts.iter().map(|host| host.status()).collect(),
            running_count,
            waiting_count,
            crowded_out_count,
            idle_count: self.pool.count(),
            bind_count,
            bind_micros,
            search_count,
            search_micros,
        }
    }
}

impl std::fmt::Debug for Ldap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ldap")
            .field("options", &self.current().settings.options)
            .finish_non_exhaustive()
    }
}

/// The names that a search for groups found: those of the entries, or the values of the attribute. A value that is no
/// distinguished name is no group: with an unsuitable attribute it could be the name of a built-in role.
fn groups_of(entries: Vec<Entry>, search: &Search) -> Vec<String> {
    let mut groups: Vec<String> =
        entries.into_iter().flat_map(|entry| entry.found_by(search)).collect();
    groups.retain(|group| group.contains('='));
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Returns true for results by which a server says that it cannot serve now.
fn is_network(code: i32) -> bool {
    [code::BUSY, code::UNAVAILABLE].contains(&code)
}

fn as_network(failure: Failure) -> Failure {
    match failure {
        Failure::Answer(outcome) if is_network(outcome.code) => {
            Failure::Network(described(&outcome))
        }
        other => other,
    }
}

/// Returns true for results by which a server refuses a user: unknown, a wrong password, a locked account.
fn is_refusal(code: i32) -> bool {
    [
        code::CONSTRAINT_VIOLATION,
        code::NO_SUCH_OBJECT,
        code::INVALID_DN,
        code::INAPPROPRIATE_AUTHENTICATION,
        code::INVALID_CREDENTIALS,
        code::INSUFFICIENT_RIGHTS,
        code::UNWILLING,
    ]
    .contains(&code)
}

fn described(outcome: &Outcome) -> String {
    let referral = match outcome.code {
        code::REFERRAL => " (a referral to another server; referrals are not followed)",
        _ => "",
    };
    let name = code_name(outcome.code);
    match outcome.text.as_str() {
        "" => format!("{name} ({}){referral}", outcome.code),
        text => format!("{name} ({}){referral}: {text}", outcome.code),
    }
}

/// The error of a search. That of one that a server refused names the base, which is wrong mostly.
fn searching(search: &Search, failure: &Failure) -> DirectoryError {
    let why = describe(failure);
    DirectoryError::Unavailable(match failure {
        Failure::Answer(_) => format!("{why}: base '{}'", search.base),
        Failure::Network(_) | Failure::TooMuch(_) => why,
    })
}

pub(crate) fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Network(why) | Failure::TooMuch(why) => why.clone(),
        Failure::Answer(outcome) => described(outcome),
    }
}
