//! Access control: checks the `access` rule of a command's row against the privileges of the login.
//!
//! With authorization off every command is allowed. With authorization on, a command that needs no login is allowed;
//! any other command needs a login (or the localhost exception) and the privileges that its row requires.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use nagi_bson::{DocBuf, Value};
use nagi_error::{Code, Error, Result, bail, err};

use crate::core::connection::Connection;
use crate::core::needs::{Need, Needs};
use crate::core::peers::Own;
use crate::core::server::Server;
use crate::limits::SESSION_USER_BYTES_MAX;
use crate::names::UserName;
use crate::printable::Secret;
use crate::request::Request;
use crate::session::{GivenSession, NO_USER, SessionId, UserDigest};
use crate::{
    auth::{Action, ActionSet, PrivilegeSet, Privileges, Resource, Target, User, tokens},
    core::login,
};

/// The privileges that a command requires. Not evaluated for commands that run before a login.
pub(crate) enum Access {
    /// The row declares no rule: only `__system` may run it. A test refuses such rows.
    Undeclared,
    /// A login; the command checks any further privileges itself.
    LoggedIn,
    /// Actions on the cluster.
    Cluster(&'static [Action]),
    /// Actions on the database of the request.
    Database(&'static [Action]),
    /// Actions on the collection that the first field names.
    Collection(&'static [Action]),
    /// Depends on the arguments. The function fails if they are invalid.
    By(fn(&Asking<'_>, &Request<'_>) -> Result<bool>),
}

/// The caller whose privileges are checked.
pub(crate) struct Asking<'c> {
    pub(crate) server: &'c Server,
    pub(crate) user: Option<&'c Arc<User>>,
    /// The digest of the user in the identity of its sessions.
    digest: &'c UserDigest,
    set: &'c PrivilegeSet,
    /// Where privileges are noted that were asked for and are there.
    noted: Option<&'c RefCell<Vec<Need>>>,
}

/// The privileges of the localhost exception: to create the first user or role, and to initiate the replica set.
static FIRST_USER: LazyLock<PrivilegeSet> = LazyLock::new(|| {
    let on_admin = [Action::CreateUser, Action::CreateRole, Action::GrantRole];
    let on_external = [Action::CreateUser, Action::GrantRole];
    let on_cluster = [Action::AddShard, Action::ReplSetConfigure, Action::ReplSetGetStatus];
    PrivilegeSet::new(&Privileges::from([
        (Resource::on("admin", ""), ActionSet::of(&on_admin)),
        (Resource::on("$external", ""), ActionSet::of(&on_external)),
        (Resource::Cluster, ActionSet::of(&on_cluster)),
    ]))
});

static NOTHING: LazyLock<PrivilegeSet> = LazyLock::new(PrivilegeSet::default);

impl<'c> Asking<'c> {
    /// The caller as the connection's login was resolved last.
    pub(crate) fn new(connection: &'c Connection) -> Asking<'c> {
        let login = connection.login.as_ref();
        let user = login.map(|login| &login.user);
        let set = user.map_or_else(|| &*NOTHING, |user| &user.set);
        let server = &*connection.server;
        let digest = login.filter(|_| server.auth.is_enabled()).map_or(&NO_USER, |l| &l.digest);
        Asking { server, user, digest, set, noted: None }
    }

    /// The same caller; the privileges that it uses are noted.
    pub(super) fn noting(self, noted: &'c RefCell<Vec<Need>>) -> Asking<'c> {
        Asking { noted: Some(noted), ..self }
    }

    fn note(&self, allowed: bool, need: impl FnOnce() -> Need) -> bool {
        if allowed && let Some(noted) = self.noted {
            noted.borrow_mut().push(need());
        }
        allowed
    }

    /// Returns true if authorization is off, so that everything is allowed.
    fn is_open(&self) -> bool {
        !self.server.auth.is_enabled()
    }

    pub(crate) fn allows(&self, target: Target<'_>, action: Action) -> bool {
        let allowed = self.is_open() || self.set.allows(target, action);
        self.note(allowed, || Need::of(target, action))
    }

    pub(crate) fn on_cluster(&self, action: Action) -> bool {
        self.allows(Target::Cluster, action)
    }

    pub(crate) fn on_database(&self, db: &str, action: Action) -> bool {
        self.allows(Target::Database(db), action)
    }

    pub(crate) fn on_collection(&self, db: &str, collection: &str, action: Action) -> bool {
        self.allows(Target::Collection(db, collection), action)
    }

    pub(crate) fn any_in_database(&self, db: &str) -> bool {
        let allowed = self.is_open() || self.set.any_in_database(db);
        self.note(allowed, || Need::AnyInDatabase(db.into()))
    }

    pub(crate) fn any_on_collection(&self, db: &str, collection: &str) -> bool {
        self.is_open() || self.set.any_on_collection(db, collection)
    }

    /// Returns true if the caller is the user `name`.
    pub(crate) fn is_user(&self, name: &crate::names::UserName) -> bool {
        self.user.is_some_and(|user| user.name == *name)
    }

    /// The session that an `lsid` names. A user may name the sessions of others with the privilege to impersonate
    /// them, or with `also`.
    ///
    /// # Errors
    /// 13 without the privilege; 2 if the user's name is too long to have sessions.
    pub(crate) fn session(&self, given: &GivenSession, also: Option<Action>) -> Result<SessionId> {
        let too_long =
            |user: &Arc<User>| user.name.name.len() + user.name.db.len() >= SESSION_USER_BYTES_MAX;
        if self.user.is_some_and(too_long) {
            bail!(Code::BAD_VALUE, "Username too long to use with logical sessions");
        }
        let may_name = |uid: &UserDigest| {
            uid == self.digest
                || self.on_cluster(Action::Impersonate)
                || also.is_some_and(|action| self.on_cluster(action))
        };
        let uid = match given.uid {
            Some(uid) if !may_name(&uid) => {
                bail!(Code::UNAUTHORIZED, "Unauthorized to set user digest in LogicalSessionId")
            }
            uid => uid.unwrap_or(*self.digest),
        };
        Ok(SessionId { id: given.id, uid })
    }

    /// Returns true if the session is one of the caller's user.
    pub(crate) fn owns_session(&self, session: &SessionId) -> bool {
        session.uid == *self.digest
    }

    /// The caller's user, for lists of its own operations; `None` if authorization is off, so that all are its own.
    pub(crate) fn own(&self) -> Option<Own> {
        match self.is_open() {
            true => None,
            false => {
                Some(Own::of(self.user.map_or(UserName::new("", ""), |user| user.name.clone())))
            }
        }
    }

    /// Returns true if the caller owns an object of `owner` (`None`: it was made without a login).
    pub(crate) fn owns(&self, owner: Option<&crate::names::UserName>) -> bool {
        self.is_open() || self.user.map(|user| &user.name) == owner
    }
}

/// Checks a request before it runs. Code 13 if it is not allowed.
pub(crate) fn check(
    connection: &mut Connection,
    server: &Server,
    request: &Request<'_>,
    access: &Access,
) -> Result<()> {
    if !server.auth.is_enabled() {
        return Ok(());
    }
    login::refresh(server, connection)?;
    if request.command.before_login {
        return Ok(());
    }
    if login::has_ended(server, connection) {
        return Err(tokens::ended(request.command.name));
    }
    let mut asking = Asking::new(connection);
    if asking.user.is_none() {
        if !is_exempt(server, connection)? {
            return Err(needs_login(request.command.name));
        }
        asking.set = &FIRST_USER;
    }
    match permits(&asking, access, request)? {
        true => Ok(()),
        false => Err(refusal(request)),
    }
}

/// The error of a request without a login.
pub(crate) fn needs_login(command: &str) -> Error {
    err!(Code::UNAUTHORIZED, "Command {command} requires authentication")
}

/// Refuses a change of users without a login, if the localhost exception ended since the request was allowed. The
/// caller holds the lock of changes.
///
/// # Errors
/// 13 if there are users or roles by now.
pub(crate) fn check_first_user(
    server: &Server,
    connection: &Connection,
    command: &str,
) -> Result<()> {
    if is_by_nobody(server, connection) && !is_exempt(server, connection)? {
        return Err(needs_login(command));
    }
    Ok(())
}

/// Returns true for a client that has to log in and has not: it may create the first user or role, and no other.
pub(crate) fn is_by_nobody(server: &Server, connection: &Connection) -> bool {
    server.auth.is_enabled() && connection.login.is_none()
}

/// Checks the rights of a request again that has waited: meanwhile they may have been revoked.
///
/// # Errors
/// 13 if the login has ended, or lacks what the cursor needs; 391 if its token counts no more.
pub(crate) fn check_waited(
    server: &Server,
    connection: &mut Connection,
    (needs, id): (&mut Needs, i64),
) -> Result<()> {
    if !server.auth.is_enabled() {
        return Ok(());
    }
    let was_logged_in = connection.login.is_some();
    login::refresh(server, connection)?;
    if login::has_ended(server, connection) {
        return Err(tokens::ended("getMore"));
    }
    if was_logged_in && connection.login.is_none() {
        return Err(needs_login("getMore"));
    }
    match needs.are_met(connection) {
        true => Ok(()),
        false => Err(not_for_cursor(id)),
    }
}

/// The error of a getMore for whose cursor the user lacks a privilege.
pub(crate) fn not_for_cursor(id: i64) -> Error {
    err!(Code::UNAUTHORIZED, "not authorized for getMore with cursor id {id}")
}

/// The localhost exception: there are no users yet, and the client is on this machine.
fn is_exempt(server: &Server, connection: &Connection) -> Result<bool> {
    let local =
        connection.peer.unix_socket || connection.peer.ip().is_some_and(|ip| ip.is_loopback());
    Ok(local
        && server.settings.params.bool("enableLocalhostAuthBypass")
        && !server.auth.has_users()?)
}

impl Server {
    /// Returns true if the localhost exception is open: clients on this machine may create the first user. An error of
    /// the storage is reported by the first login.
    pub fn is_first_user_awaited(&self) -> bool {
        self.settings.params.bool("enableLocalhostAuthBypass")
            && self.auth.has_users().is_ok_and(|has_users| !has_users)
    }
}

/// Returns true if `defaultMaxTimeMS` does not limit the client's reads.
pub(crate) fn bypasses_default_time(connection: &Connection, server: &Server) -> bool {
    server.auth.is_enabled() && Asking::new(connection).on_cluster(Action::BypassDefaultMaxTimeMS)
}

/// Returns true if the caller may run the request's command.
pub(crate) fn permits(asking: &Asking<'_>, access: &Access, request: &Request<'_>) -> Result<bool> {
    let all = |target: Target<'_>, actions: &[Action]| {
        actions.iter().all(|action| asking.allows(target, *action))
    };
    Ok(match *access {
        Access::Undeclared => asking.on_cluster(Action::Internal),
        Access::LoggedIn => asking.is_open() || asking.user.is_some(),
        Access::Cluster(actions) => all(Target::Cluster, actions),
        Access::Database(actions) => all(Target::Database(request.db), actions),
        Access::Collection(actions) => match collection(request) {
            Some(collection) => all(Target::Collection(request.db, collection), actions),
            None => false,
        },
        Access::By(decide) => decide(asking, request)?,
    })
}

/// The collection that the value of the command's name, or of one of its aliases, names. Commands that accept their
/// collection under several names read it in the same order.
pub(crate) fn collection<'a>(request: &Request<'a>) -> Option<&'a str> {
    let command = request.command;
    let names = std::iter::once(&command.name).chain(command.aliases);
    names.into_iter().find_map(|name| match request.body.get(name) {
        Value::String(name) | Value::Symbol(name) => Some(name),
        _ => None,
    })
}

/// Logs and returns the error of a request that is not allowed. It shows the request without secrets, truncated if it
/// is large.
pub(crate) fn refusal(request: &Request<'_>) -> Error {
    let shown = crate::printable::printable(request.shown().as_doc(), Secret::No);
    let shown = match shown.as_doc().element("$db") {
        Some(_) => shown,
        None => DocBuf::build(|doc| {
            doc.extend(shown.as_doc());
            doc.put("$db", request.db);
        }),
    };
    let error = err!(
        Code::UNAUTHORIZED,
        "not authorized on {} to execute command {}",
        request.db,
        shown.as_doc()
    );
    log::info!(target: "ACCESS", id = 20_436, error = error.message(), codeName = "Unauthorized";
        "Checking authorization failed");
    error
}
