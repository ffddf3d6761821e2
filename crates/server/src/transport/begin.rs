//! The begin of a request: finds its row, reads its generic arguments, and checks it in MongoDB's order.
//!
//! A request with `help: true` is checked only up to the point where MongoDB answers it: it needs neither a login nor
//! the right database.
//!
//! On an error [`begin`] returns the request too, if its row was found: it is counted, logged and audited as one that
//! ran.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Error, Result, bail, err};

use crate::auth::Action;
use crate::clock;
use crate::commands;
use crate::core::access::{self, Asking};
use crate::core::command::Command;
use crate::core::config_views;
use crate::core::connection::Connection;
use crate::core::server::Server;
use crate::core::txn_number;
use crate::interruption::interruption;
use crate::replica::{ClusterClock, ReplicaSet, Role};
use crate::request::{Generic, Protocol, Request, Sequence};
use crate::settings::params;

/// A command as it was read from the wire.
pub(crate) struct Incoming<'a> {
    /// The database; `None` if the body's `$db` names it.
    pub(crate) db: Option<&'a str>,
    pub(crate) body: Doc<'a>,
    pub(crate) sequences: &'a [Sequence<'a>],
    pub(crate) protocol: Protocol,
    pub(crate) exhaust_allowed: bool,
}

pub(super) type Found<'a> = (Request<'a>, &'static Command);
pub(super) type Begun<'a> = std::result::Result<Found<'a>, Box<(Option<Found<'a>>, Error)>>;

/// Finds the row and reads the generic arguments.
pub(super) fn begin<'a>(
    connection: &mut Connection,
    server: &Server,
    incoming: &Incoming<'a>,
) -> Begun<'a> {
    connection.store.client().begin_request();
    let body = incoming.body;
    let db = match database(incoming) {
        Ok(db) => db,
        Err(error) => return Err(Box::new((None, error))),
    };
    let Some(first) = body.first() else {
        return Err(Box::new((None, err!(Code::COMMAND_NOT_FOUND, "no such command: ''"))));
    };
    let is_router = server.router.is_some();
    let found = commands::find(first.name());
    let Some(command) = found.filter(|command| command.is_of(is_router)) else {
        let name = first.name();
        return Err(Box::new((None, err!(Code::COMMAND_NOT_FOUND, "no such command: '{name}'"))));
    };
    let mut request = Request {
        command: &command.facts,
        name: first.name(),
        db,
        body,
        sequences: incoming.sequences,
        generic: Generic::default(),
        protocol: incoming.protocol,
        exhaust_allowed: incoming.exhaust_allowed,
    };
    let checked = Generic::parse(command, body).and_then(|generic| {
        request.generic = generic;
        check(connection, server, &mut request, command)
    });
    match checked {
        Ok(()) => Ok((request, command)),
        Err(error) => Err(Box::new((Some((request, command)), error))),
    }
}

fn database<'a>(incoming: &Incoming<'a>) -> Result<&'a str> {
    if let Some(db) = incoming.db {
        return Ok(db);
    }
    match incoming.body.get("$db") {
        Value::String(db) => Ok(db),
        Value::Missing => bail!(Code::Location(40571), "OP_MSG requests require a $db argument"),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'OP_MSG.$db' is the wrong type '{}', expected type 'string'",
            other.kind().name()
        ),
    }
}

/// The checks before a run, in MongoDB's order.
fn check(
    connection: &mut Connection,
    server: &Server,
    request: &mut Request<'_>,
    row: &Command,
) -> Result<()> {
    check_name(server, request)?;
    if request.generic.help {
        return Ok(());
    }
    check_access(connection, server, request, row)?;
    txn_number::check_before_login(request)?;
    config_views::refuse_writes(server, request)?;
    find_session(connection, server, &mut request.generic)?;
    let (command, generic) = (request.command, &request.generic);
    txn_number::check(request, server.is_replicated())?;
    if let Some(concern) = &generic.write_concern {
        if !command.write {
            bail!(Code::INVALID_OPTIONS, "Command {} does not support writeConcern", command.name);
        }
        match server.is_replicated() {
            true => concern.check_member()?,
            false => concern.check_standalone()?,
        }
    }
    if generic.autocommit.is_none() {
        generic.read_concern.check(command, server.is_replicated())?;
    }
    if server.is_stopping() && !command.before_login {
        return Err(interruption(Code::INTERRUPTED_AT_SHUTDOWN));
    }
    if let Some(clock) = server.cluster_clock() {
        gossip(connection, clock, request)?;
        if let Some(time) = request.generic.read_concern.after_cluster_time {
            clock.read_after(time)?;
        }
    }
    server.replica.as_ref().map_or(Ok(()), |replica| check_role(replica, request))
}

/// The database's name, and whether this server has the command in the version of the API.
fn check_name(server: &Server, request: &Request<'_>) -> Result<()> {
    check_db_name(request.db)?;
    if request.command.test_only && !server.settings.params.bool("enableTestCommands") {
        bail!(Code::COMMAND_NOT_FOUND, "no such command: '{}'", request.name);
    }
    check_api(server, request)
}

/// The access rule of the row.
fn check_access(
    connection: &mut Connection,
    server: &Server,
    request: &Request<'_>,
    row: &Command,
) -> Result<()> {
    let command = request.command;
    if command.admin_only && request.db != "admin" {
        bail!(Code::UNAUTHORIZED, "{} may only be run against the admin database.", command.name);
    }
    access::check(connection, server, request, &row.access)
}

/// Finds the session that the request names, and records its use. A client that has to log in and has not (its command
/// needs no login, or it makes the first user) has no user whose session it could be: its `lsid` and the fields that
/// need one are ignored, as in MongoDB.
fn find_session(
    connection: &mut Connection,
    server: &Server,
    generic: &mut Generic<'_>,
) -> Result<()> {
    if server.auth.is_enabled() && connection.login.is_none() {
        generic.ignore_session();
        return Ok(());
    }
    let Some(given) = &generic.given_session else { return Ok(()) };
    let session = Asking::new(connection).session(given, None)?;
    connection.touch_session(&session, clock::wall_ms())?;
    generic.lsid = Some(session);
    Ok(())
}

/// Adopts the cluster time that a client has seen. With authorization only privileged clients may move the time
/// forward: it never goes back, so one of them could make the times of all later changes meaningless. What the server
/// itself has told its clients is never ahead.
fn gossip(connection: &Connection, clock: &ClusterClock, request: &Request<'_>) -> Result<()> {
    match request.generic.cluster_time {
        Some(time) if Asking::new(connection).on_cluster(Action::AdvanceClusterTime) => {
            clock.observe(time)
        }
        _ => Ok(()),
    }
}

/// Checks that the role of a member of a replica set allows the request.
fn check_role(replica: &ReplicaSet, request: &Request<'_>) -> Result<()> {
    let (command, generic) = (request.command, &request.generic);
    if command.before_login || request.db == "local" {
        return Ok(());
    }
    // aggregate may write, but it usually only reads.
    let writes = command.write && !command.read_concern;
    match replica.role() {
        Role::Primary => Ok(()),
        _ if writes => bail!(Code::NOT_WRITABLE_PRIMARY, "not primary"),
        Role::Startup if command.on_collection => {
            bail!(Code::NOT_PRIMARY_OR_SECONDARY, "node is not in primary or recovering state")
        }
        Role::Secondary if command.on_collection && !generic.secondary_ok => {
            bail!(Code::NOT_PRIMARY_NO_SECONDARY_OK, "not primary and secondaryOk=false")
        }
        _ => Ok(()),
    }
}

fn check_db_name(db: &str) -> Result<()> {
    // A `$` is refused where a namespace is built from the name: commands without a namespace accept it.
    let bad = |c: char| matches!(c, '/' | '\\' | '.' | ' ' | '"' | '\0');
    if db.is_empty() || db.len() > 63 || db.contains(bad) {
        bail!(Code::INVALID_NAMESPACE, "Invalid database name: '{db}'");
    }
    Ok(())
}

fn check_api(server: &Server, request: &Request<'_>) -> Result<()> {
    const REQUIRED: usize = params::position("requireApiVersion");
    let generic = &request.generic;
    match generic.api_version {
        None if generic.api_strict || generic.api_deprecation_errors => bail!(
            Code::API_VERSION_ERROR,
            "Provided {} without passing apiVersion",
            if generic.api_strict { "apiStrict" } else { "apiDeprecationErrors" }
        ),
        None if server.settings.params.number(REQUIRED) != 0 && !request.command.before_login => {
            bail!(
                Code::Location(498_870),
                "The apiVersion parameter is required, please configure your MongoClient's API version"
            )
        }
        None | Some("1") => {}
        Some(_) => bail!(Code::API_VERSION_ERROR, "API version must be \"1\""),
    }
    if generic.api_strict && !request.command.api_v1 {
        bail!(
            Code::API_STRICT_ERROR,
            "Provided apiStrict:true, but the command {} is not in API Version 1. Information on \
             supported commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api",
            request.command.name
        );
    }
    Ok(())
}
