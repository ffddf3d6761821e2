//! Logging in and out on a connection, and the delay after failed logins.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Error, Result};

use crate::auth::sasl::{Answer, Conversation};
use crate::auth::scram::CredentialId;
use crate::auth::tokens::TokenLogin;
use crate::auth::users::User;
use crate::auth::{Auth, By, DirectoryUser};
use crate::clock;
use crate::core::connection::Connection;
use crate::core::server::Server;
use crate::logging::Severity;
use crate::names::{RoleName, UserName};
use crate::session::{UserDigest, user_digest};

/// The connection is already logged in as another user.
pub(super) const ALREADY: Code = Code(5_626_701);

/// The login of a connection.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: Arc<User>,
    /// The generation of users and roles in which `user` was resolved.
    pub(crate) generation: u64,
    pub(crate) digest: UserDigest,
    /// The token by which the user logged in.
    token: Option<TokenLogin>,
    /// The stored credential by which the user logged in.
    credential: Option<CredentialId>,
    roles: Roles,
}

impl Login {
    fn new(user: Arc<User>, generation: u64, roles: Roles) -> Login {
        let digest = user_digest(&user.name);
        Login { user, generation, digest, token: None, credential: None, roles }
    }
}

/// Where the roles of a login come from.
#[derive(Clone)]
enum Roles {
    /// The user's document.
    Stored,
    /// A certificate or a token; the user's document need not exist.
    Given(Vec<RoleName>),
    /// The user's groups in a directory.
    Groups(Arc<DirectoryUser>),
}

impl Roles {
    /// The user with these roles; `None` if it does not exist, or no longer.
    fn resolve(&self, auth: &Auth, name: &UserName) -> Result<Option<Arc<User>>> {
        match self {
            Roles::Stored => auth.user(name),
            Roles::Given(roles) => auth.user_with_roles(name, roles).map(Some),
            Roles::Groups(user) => match auth.directory.roles(name, user) {
                Some(roles) => auth.user_with_roles(name, &roles).map(Some),
                None => Ok(None),
            },
        }
    }
}

/// A login that is tried.
pub(super) struct Attempt<'a> {
    pub(super) by: By,
    pub(super) speculative: bool,
    /// The user, once it is known.
    pub(super) user: Option<&'a UserName>,
    /// What a token says that the log is to tell.
    pub(super) claims: Option<Doc<'a>>,
}

impl Conversation {
    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            by: self.by,
            speculative: self.speculative,
            user: self.exchange.user(),
            claims: self.exchange.claims(),
        }
    }
}

/// The same error for every failed login, so that it does not tell which credential is wrong.
pub(crate) fn refusal() -> Error {
    Error::new(Code::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// Processes the next message of a SASL conversation. When the conversation completes, the connection is logged in.
///
/// # Errors
/// The error is logged with its reason; the client gets [`refusal`].
pub(crate) fn step(
    connection: &mut Connection,
    mut conversation: Box<Conversation>,
    payload: &[u8],
) -> Result<Answer> {
    let server = connection.server.clone();
    let source = connection.peer.ip();
    let crowded = conversation.exchange.shows_secret()
        && !connection.leaves_delays
        && limit(&server).is_some()
        && source.is_some_and(|source| !server.auth.failures.may_try(source));
    let stepped = match crowded {
        true => Err(Error::new(Code::AUTHENTICATION_FAILED, CROWDED)),
        false => conversation.exchange.step(&server.auth, payload).and_then(|answer| {
            if answer.done {
                let roles = conversation.exchange.roles();
                log_in(connection, &conversation.attempt(), roles)?;
                if let Some(login) = &mut connection.login {
                    login.token = conversation.exchange.token().cloned();
                    login.credential = conversation.exchange.credential();
                }
            }
            Ok(answer)
        }),
    };
    match stepped {
        Ok(answer) => {
            if !answer.done {
                connection.conversation = Some(conversation);
            }
            Ok(answer)
        }
        Err(error) => {
            log_failure(connection, &conversation.attempt(), &error);
            // The password was not checked, so the refusal reveals nothing and need not be delayed.
            if !crowded && error.code() != Code::OPERATION_FAILED {
                delay(connection, source);
            }
            match error.code() == ALREADY {
                true => Err(error),
                false => Err(refusal()),
            }
        }
    }
}

/// For the log only.
const CROWDED: &str = "Too many failed logins from this address are delayed; the password was not \
                       checked";

/// The maximum delay after failed logins from one address; `None` if the delay is turned off.
fn limit(server: &Server) -> Option<Duration> {
    let ms = u64::try_from(server.settings.params.int("authFailedDelayMaxMs")).ok();
    ms.filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// Delays a refusal, to slow down the guessing of passwords. The connection notes the time: the request did not work.
pub(super) fn delay(connection: &mut Connection, source: Option<IpAddr>) {
    if connection.leaves_delays {
        let (time, waiting) = next_delay(&connection.server, source);
        if let Some(source) = waiting {
            connection.server.auth.failures.waited(source);
        }
        connection.refusal_delay = time;
        return;
    }
    let since = clock::now();
    pause(&connection.server, source);
    connection.paused_micros += clock::micros_since(since);
}

/// The delay of one more refusal, and the address that counts it as waiting.
fn next_delay(server: &Server, source: Option<IpAddr>) -> (Duration, Option<IpAddr>) {
    let every = u64::try_from(server.settings.params.int("authFailedDelayMs")).unwrap_or(0);
    let every = Duration::from_millis(every);
    match source.zip(limit(server)) {
        Some((source, limit)) => {
            (every.max(server.auth.failures.fail(source, clock::now(), limit)), Some(source))
        }
        None => (every, None),
    }
}

fn pause(server: &Server, source: Option<IpAddr>) {
    let (time, waiting) = next_delay(server, source);
    let until = clock::now() + time;
    while !server.is_stopping() {
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(STOP_NOTICED_WITHIN));
    }
    if let Some(source) = waiting {
        server.auth.failures.waited(source);
    }
}

/// Interval at which a delayed refusal checks for a shutdown of the server.
const STOP_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Logs the connection in as a user whose identity is proved. `roles`: those that came with the proof.
pub(super) fn log_in(
    connection: &mut Connection,
    attempt: &Attempt<'_>,
    roles: Option<Vec<RoleName>>,
) -> Result<()> {
    let server = connection.server.clone();
    let Some(name) = attempt.user else { return Err(refusal()) };
    let generation = server.auth.generation();
    let roles = match roles {
        Some(roles) => Roles::Given(roles),
        None if server.auth.directory.has(name) => {
            Roles::Groups(server.auth.directory.log_in(name)?)
        }
        None => Roles::Stored,
    };
    let user = roles.resolve(&server.auth, name)?;
    let user = user.ok_or_else(|| crate::auth::users::not_found(name))?;
    if let Roles::Groups(groups) = &roles {
        log_groups(&user, groups);
    }
    if !meets_restrictions(connection, &user) {
        return Err(Error::new(Code::AUTHENTICATION_RESTRICTION_UNMET, UNMET));
    }
    if let Some(login) = &connection.login
        && login.user.name != *name
    {
        return Err(Error::new(ALREADY, "Each client connection may only be authenticated once"));
    }
    server.auth.logins.succeed(attempt.by, attempt.speculative);
    connection.op.set_user(Some(name.clone()));
    connection.login = Some(Login::new(user, generation, roles));
    if !server.is_quiet() {
        log_success(connection, attempt, name);
    }
    connection.audit_proof(name, attempt.by.name(), attempt.claims);
    Ok(())
}

/// The number of groups in a line of the log.
const LOGGED_GROUPS_MAX: usize = 100;

/// Tells of the groups of a user that are no roles, as the directory spells them: the names of roles must be the same
/// letter for letter. Most users are in many groups that the database does not know, so the line is one of debugging,
/// unless the user has no role at all.
fn log_groups(user: &User, groups: &DirectoryUser) {
    let groups = groups.roles().unwrap_or_default();
    let unknown = || groups.iter().filter(|group| !user.closure.roles.contains(*group));
    let count = unknown().count();
    if count == 0 {
        return;
    }
    let shown: Vec<&str> = unknown().take(LOGGED_GROUPS_MAX).map(|group| &*group.name).collect();
    let (name, shown) = (user.name.to_string(), shown.join("; "));
    match count == groups.len() {
        true => log::info!(target: "ACCESS", id = 8_200_240, user = name, count = count,
            groups = shown; "No group of an LDAP user is a role of admin"),
        false => log::debug!(target: "ACCESS", id = 8_200_242, user = name, count = count,
            groups = shown; "Some groups of an LDAP user are not roles of admin"),
    }
}

fn log_success(connection: &Connection, attempt: &Attempt<'_>, name: &UserName) {
    let attr = DocBuf::build(|attr| {
        attr.put("client", connection.peer.address.as_str());
        attr.put("isSpeculative", attempt.speculative);
        attr.put("mechanism", attempt.by.name());
        attr.put("user", &*name.name);
        attr.put("db", &*name.db);
        attr.put("result", 0);
        if let Some(claims) = attempt.claims {
            attr.doc("extraInfo", |extra| extra.put("claims", claims));
        }
    });
    connection.server.log.write(
        Severity::Info,
        "ACCESS",
        5_286_306,
        "Successfully authenticated",
        attr.as_doc(),
    );
}

pub(super) fn log_failure(connection: &Connection, attempt: &Attempt<'_>, error: &Error) {
    connection.server.auth.logins.refused.increment();
    let (user, db) = attempt.user.map_or(("", ""), |name| (&*name.name, &*name.db));
    log::info!(target: "ACCESS", id = 5_286_307, client = connection.peer.address.as_str(),
        isSpeculative = attempt.speculative, mechanism = attempt.by.name(),
        user = user, db = db, error = error.message(), result = error.code().0;
        "Failed to authenticate");
    connection.audit_login(user, db, attempt.by.name(), error.code());
}

/// For the log only.
const UNMET: &str = "Restriction unmet: the client's or the server's address is not allowed";

/// True if the user's restrictions, and those of its roles, allow this connection.
fn meets_restrictions(connection: &Connection, user: &User) -> bool {
    let peer = &connection.peer;
    user.restrictions.iter().all(|list| list.allow(peer.ip(), peer.local))
}

/// Logs the connection out, if it logged in on the database `db`.
pub(crate) fn log_out(connection: &mut Connection, db: &str) {
    if connection.login.as_ref().is_some_and(|login| &*login.user.name.db == db) {
        connection.audit_logout(&format!("Explicit logout from {db}"));
        connection.login = None;
        connection.op.set_user(None);
    }
}

/// Resolves the connection's login again if users or roles have changed since. Otherwise it costs two loads.
pub(crate) fn refresh(server: &Server, connection: &mut Connection) -> Result<()> {
    let generation = server.auth.generation();
    let Some(login) = &connection.login else { return Ok(()) };
    if login.generation == generation {
        return Ok(());
    }
    // A user that was dropped and created again is another one.
    let same = |user: &Arc<User>| user.id == login.user.id;
    let found = login.roles.resolve(&server.auth, &login.user.name)?.filter(same);
    let is_deleted = found.is_none();
    // New restrictions hold for open connections, too, as in MongoDB.
    let newest = found.filter(|user| meets_restrictions(connection, user));
    if newest.is_none() {
        let user = login.user.name.to_string();
        match is_deleted {
            true => log::info!(target: "ACCESS", id = 20_245, user = user;
                "Removed deleted user from session cache of user information"),
            false => log::info!(target: "ACCESS", id = 20_242, user = user, reason = UNMET;
                "Removed user with unmet authentication restrictions from session cache of user \
                 information. Restriction failed"),
        }
        connection.op.set_user(None);
    }
    let (roles, token) = (login.roles.clone(), login.token.clone());
    let credential = login.credential;
    connection.login =
        newest.map(|user| Login { token, credential, ..Login::new(user, generation, roles) });
    Ok(())
}

/// Returns true if the connection is logged in, and its user could log in again by the same proof: the password by
/// which it logged in is still the user's. What only a directory or the issuer of a token knows is not asked again.
///
/// # Errors
/// Those of reading users and roles, if any has changed since the last request.
pub(super) fn is_proved(connection: &mut Connection) -> Result<bool> {
    let server = connection.server.clone();
    refresh(&server, connection)?;
    let proved =
        |login: &Login| login.credential.is_none_or(|id| login.user.credentials.contains(&id));
    Ok(connection.login.as_ref().is_some_and(proved) && !has_ended(&server, connection))
}

/// Returns true if the connection's login was proved by a token that no longer counts. Without a token it costs
/// nothing.
pub(super) fn has_ended(server: &Server, connection: &mut Connection) -> bool {
    let token = connection.login.as_mut().and_then(|login| login.token.as_mut());
    token.is_some_and(|token| !server.auth.tokens.still_counts(token))
}
