//! Logs a user in on a connection of its own, as a driver does: SCRAM for users that are stored here, PLAIN for those
//! of a directory.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::StatusCode;
use nagi_bson::{Binary, Doc, DocBuf, Value, doc};
use nagi_error::Code;
use nagi_server::{Connection, LoginClient, Peer, Server};
use zeroize::Zeroizing;

use crate::asked::Asked;
use crate::refusal::Refusal;
use crate::sessions::run_on;

/// The longest user name, password and name of a database.
const TEXT_BYTES_MAX: usize = 4096;

/// The longest request of a login: three texts, of which JSON may write each byte as six.
const REQUEST_BYTES_MAX: usize = 128 << 10;

/// Who wants to log in.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Zeroizing<String>,
    /// The database of the user, `$external` for one of a directory.
    pub(crate) db: String,
}

/// A connection of a client of the console that is not logged in.
pub(crate) fn connect(
    server: &Arc<Server>,
    peer: SocketAddr,
    local: SocketAddr,
) -> Result<Connection, Refusal> {
    let local = Some(local.ip().to_canonical());
    let peer = Peer { address: peer.to_string(), unix_socket: false, local };
    let connection = server.connect(peer);
    let mut connection =
        connection.ok_or_else(|| Refusal::busy("The server admits no more connections"))?;
    let hello = doc! {
        "hello": 1,
        "client": {
            "application": { "name": "Nagi console" },
            "driver": { "name": "nagi-console", "version": (env!("CARGO_PKG_VERSION")) },
            "os": { "type": (std::env::consts::OS) }
        }
    };
    run_on(server, &mut connection, "admin", hello.as_doc())?;
    Ok(connection)
}

/// Logs in. Takes the time of the hashes; the delay of a refusal is in the error.
///
/// # Errors
/// The server's error.
pub(crate) fn log_in(
    server: &Arc<Server>,
    connection: &mut Connection,
    with: &Credentials,
) -> Result<(), Refusal> {
    connection.leave_delays_to_caller();
    let tried = try_to_log_in(server, connection, with);
    tried.map_err(|refusal| refusal.after(connection.take_refusal_delay()))
}

fn try_to_log_in(
    server: &Arc<Server>,
    connection: &mut Connection,
    with: &Credentials,
) -> Result<(), Refusal> {
    if [&with.user, &*with.password, &with.db].iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(too_long());
    }
    if with.db == "$external" {
        let payload = Zeroizing::new(format!("\0{}\0{}", with.user, *with.password));
        return step(server, connection, "$external", &start("PLAIN", payload.as_bytes()))
            .map(drop);
    }
    let mechanism = mechanism(server, connection, with)?;
    let mut client =
        LoginClient::new(mechanism, &with.user, &with.password).map_err(|why| refused(&why))?;
    let first = step(server, connection, &with.db, &start(mechanism, &client.first()))?;
    let answer = client.answer(payload(first.as_doc())).map_err(|why| refused(&why))?;
    let id = first.as_doc().get("conversationId");
    let last = step(server, connection, &with.db, &proceed(id, &answer))?;
    if !client.accepts(payload(last.as_doc())) {
        return Err(refused("The server does not know the user's credential"));
    }
    if !last.as_doc().get("done").is_truthy() {
        step(server, connection, &with.db, &proceed(id, b""))?;
    }
    Ok(())
}

/// The mechanism of a user: SCRAM-SHA-1 for one that was created by a client which knows no other.
fn mechanism(
    server: &Arc<Server>,
    connection: &mut Connection,
    with: &Credentials,
) -> Result<&'static str, Refusal> {
    let name = format!("{}.{}", with.db, with.user);
    let hello = doc! { "hello": 1, "saslSupportedMechs": (name.as_str()) };
    let reply = run_on(server, connection, "admin", hello.as_doc())?;
    let Value::Array(names) = reply.as_doc().get("saslSupportedMechs") else {
        return Ok("SCRAM-SHA-256");
    };
    let has = |wanted: &str| names.iter().any(|name| name.as_str() == Some(wanted));
    match !has("SCRAM-SHA-256") && has("SCRAM-SHA-1") {
        true => Ok("SCRAM-SHA-1"),
        false => Ok("SCRAM-SHA-256"),
    }
}

/// User, password and database of a request for a login.
pub(crate) fn credentials(asked: &Asked) -> Result<Credentials, Refusal> {
    if asked.body.len() > REQUEST_BYTES_MAX {
        return Err(too_long());
    }
    let body = asked.json()?;
    let text = |name: &str| {
        let text = body.as_doc().get(name).as_str().map(str::to_owned);
        text.ok_or_else(|| Refusal::bad_request(format!("The field '{name}' must be a string")))
    };
    let password = Zeroizing::new(text("password")?);
    Ok(Credentials { user: text("user")?, password, db: text("db")? })
}

fn too_long() -> Refusal {
    refused("The user name, password or database is too long")
}

fn refused(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, Code::AUTHENTICATION_FAILED, message)
}

fn start(mechanism: &str, payload: &[u8]) -> DocBuf {
    DocBuf::build(|out| {
        out.put("saslStart", 1);
        out.put("mechanism", mechanism);
        out.put("payload", Value::Binary(Binary { subtype: 0, bytes: payload }));
        out.doc("options", |options| options.put("skipEmptyExchange", true));
    })
}

fn proceed(id: Value<'_>, payload: &[u8]) -> DocBuf {
    DocBuf::build(|out| {
        out.put("saslContinue", 1);
        out.put("conversationId", id);
        out.put("payload", Value::Binary(Binary { subtype: 0, bytes: payload }));
    })
}

fn payload(reply: Doc<'_>) -> &[u8] {
    match reply.get("payload") {
        Value::Binary(binary) => binary.bytes,
        _ => b"",
    }
}

fn step(
    server: &Arc<Server>,
    connection: &mut Connection,
    db: &str,
    command: &DocBuf,
) -> Result<DocBuf, Refusal> {
    let reply = run_on(server, connection, db, command.as_doc())?;
    match reply.as_doc().get("ok").is_truthy() {
        true => Ok(reply),
        false => Err(Refusal::of_reply(StatusCode::UNAUTHORIZED, reply.as_doc())),
    }
}
